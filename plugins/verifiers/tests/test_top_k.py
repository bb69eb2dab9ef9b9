"""TopK, next to a definition by sorting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dovetail.ir import Array
from dovetail.plugins.verifiers import verifier
from dovetail.verification import VerificationError, Worst


def largest(row: list[float], k: int) -> list[int]:
    """Return the indices of the k largest elements; NaN is the smallest of all."""
    ranks = [-math.inf if math.isnan(v) else v for v in row]
    return sorted(range(len(row)), key=lambda i: (-ranks[i], i))[:k]


def matches(golden: list[float], target: list[float], k: int, ordered: bool) -> bool:
    if [math.isnan(v) for v in golden] != [math.isnan(v) for v in target]:
        return False
    one, other = largest(golden, k), largest(target, k)
    return one == other if ordered else set(one) == set(other)


@st.composite
def rows(draw: Any) -> tuple[Array, Array]:
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=5))
    dtype = draw(st.sampled_from([np.float32, np.float16, np.int8, np.uint64, np.bool_]))
    few = None
    if np.dtype(dtype).kind == "f":  # ties are frequent
        few = st.sampled_from([0.0, -0.0, 1, 2, -3, math.inf, -math.inf, math.nan])
    one, other = (draw(hnp.arrays(dtype, shape, elements=few)) for _ in range(2))
    return one, draw(st.sampled_from([one, other]))


@settings(max_examples=200)
@given(data=rows(), k=st.integers(1, 5), ordered=st.booleans())
def test_values_are_those_of_the_definition(
    data: tuple[Array, Array], k: int, ordered: bool
) -> None:
    size = data[0].shape[-1]
    k = min(k, size)
    pairs = list(zip(*(a.reshape(-1, size).tolist() for a in data), strict=True))
    matched = [matches(g, t, k, ordered) for g, t in pairs]
    found = verifier("TopK", {"k": k, "ordered": ordered}).compare(*data)
    assert found.value == 100 * sum(matched) / len(matched)
    assert found.passed == all(matched)
    assert (found.details["rows"], found.details["matched_rows"]) == (len(pairs), sum(matched))
    assert (found.worst is None) == all(matched)
    if found.worst is not None:
        flat = np.ravel_multi_index(found.worst.index, data[0].shape) // size
        assert flat == matched.index(False)


def test_rows_of_many_blocks() -> None:
    rng = np.random.default_rng(1)
    golden = rng.normal(0, 1, (700, 300)).astype(np.float32)
    target = golden.copy()
    target[650, 7] = 100
    expected = verifier("TopK", {"k": 5}).compare(golden, target)
    assert expected.value == pytest.approx(100 * 699 / 700)
    assert expected.worst is not None
    assert expected.worst.index[0] == 650
    run = verifier("TopK", {"k": 5}).begin()
    for start in range(0, 700, 130):
        run.update(golden[start : start + 130], target[start : start + 130])
    found = run.finish()
    assert (found.value, found.details) == (expected.value, expected.details)
    assert found.worst is not None
    assert (found.worst.block, found.worst.index[0]) == (5, 0)


def test_order_counts_if_asked_for() -> None:
    golden, target = np.array([[1.0, 5, 4, 0]]), np.array([[1.0, 4, 5, 0]])
    assert verifier("TopK", {"k": 2}).compare(golden, target).passed
    found = verifier("TopK", {"k": 2, "ordered": True}).compare(golden, target)
    assert found.value == 0
    assert found.worst == Worst(0, (0, 1), 5, 4)
    assert found.details["common"] == 0


def test_of_equal_elements_the_first_is_the_larger() -> None:
    run = verifier("TopK", {"k": 2})
    assert run.compare(np.array([3, 7, 7, 7]), np.array([0, 9, 8, 1])).passed
    assert not run.compare(np.array([3, 7, 7, 7]), np.array([0, 9, 1, 8])).passed


def test_a_target_of_nan_does_not_match() -> None:
    found = verifier("TopK").compare(np.array([3.0, 2, 1]), np.full(3, np.nan))
    assert (found.value, found.details["target_nan"]) == (0, 3)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2)])
def test_no_elements_match(shape: tuple[int, ...]) -> None:
    found = verifier("TopK", {"k": 2}).compare(np.zeros(shape), np.zeros(shape))
    assert (found.passed, found.value, found.details["rows"]) == (True, 100, 0)


def test_a_scalar_is_one_row_of_one_class() -> None:
    assert verifier("TopK").compare(np.array(3.0), np.array(-3.0)).passed
    found = verifier("TopK").compare(np.array(3.0), np.array(np.nan))
    assert found.worst is not None
    assert found.worst.index == ()


def test_more_than_all_classes_is_an_error() -> None:
    with pytest.raises(VerificationError, match="has 3 elements, fewer than k = 4"):
        verifier("TopK", {"k": 4}).compare(np.zeros((2, 3)), np.zeros((2, 3)))
