"""The benchmark of the verifiers: both sides agree, and ours needs no memory for whole tensors."""

from __future__ import annotations

import pytest
from benchmarks.verifiers import PLAIN, measure

from dovetail.plugins import names


def test_the_benchmark_compares_what_is_equal() -> None:
    elements = 1_000_000
    found = measure(elements, rounds=1)
    for name, each in found.items():
        assert each.value == pytest.approx(each.plain_value, rel=1e-9), name
        assert each.ms > 0
        # a copy of a tensor in float64 takes 8 MB; pieces of rows and their masks take below 2 MB
        assert each.mb < 2, name
    assert set(PLAIN) == set(names("dovetail.verifiers")) - {"MeanIOU"}
