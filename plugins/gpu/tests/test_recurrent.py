"""Lstm on a device, against `cpu`.

The program for groups of several items is left out: PoCL needs more than a minute to compile it.
"""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.testing import Bench, Status, run_case
from dovetail_gpu.kernels import recurrent
from dovetail_opset.testing.recurrent import CASES

VARIANTS = [{}, {"is_half": True}]


def real(*shape, seed=1, size=1.0):
    return np.random.default_rng(seed).uniform(-size, size, shape).astype(np.float32)


def inputs(steps, batch, features, units, size, parts):
    """Return the inputs of an Lstm, with some of its optional parts."""
    found = [None] * 25
    shapes = {0: (steps, batch, features), 10: (batch, size), 11: (batch, units)}
    shapes |= dict.fromkeys((1, 2, 3, 16), (units, features))
    shapes |= dict.fromkeys((4, 5, 6, 17), (units, size))
    shapes |= dict.fromkeys((7, 8, 9, 12, 13, 14, 15, 18, 19, 20, 21), (units,))
    shapes |= {22: (size, units), 23: (size,)}
    gone = set()
    if "gate" not in parts:
        gone |= {16, 17, 21, 12, 18}
    if "norms" not in parts:
        gone |= {12, 13, 14, 15}
    if "peepholes" not in parts:
        gone |= {18, 19, 20}
    if "state" not in parts:
        gone |= {10, 11}
    if "projection" not in parts:
        gone |= {22, 23}
    for i, shape in shapes.items():
        if i not in gone:
            found[i] = real(*shape, seed=i, size=0.5 if len(shape) > 1 else 1.0)
    return found


@pytest.mark.parametrize("case", [c for c in CASES if c.op_type == "Lstm"], ids=lambda c: c.id)
def test_op_cases(case):
    outcome = run_case(Bench("gpu"), case)
    assert outcome.status is Status.PASSED, outcome


@settings(max_examples=15, deadline=None)
@given(st.data(), st.sampled_from(VARIANTS), st.booleans())
def test_layers(check_op, data, variant, is_inside):
    draw = data.draw
    choices = ("gate", "norms", "peepholes", "state", "projection")
    parts = draw(st.sets(st.sampled_from(choices)))
    units = draw(st.sampled_from([1, 7, 8, 20, 33]))
    size = draw(st.sampled_from([3, 16])) if "projection" in parts else units
    steps, batch = draw(st.sampled_from([0, 1, 5])), draw(st.sampled_from([1, 3]))
    given = inputs(steps, batch, 6, units, size, parts)
    params = {"direction": draw(st.integers(0, 1)), "time_major": draw(st.booleans())}
    if draw(st.booleans()):
        params |= {"cell_clip_threshold": 0.3, "output_clip_threshold": 0.2}
    static = range(1, 24) if draw(st.booleans()) else (1, 5)
    if not params["time_major"]:
        given[0] = np.ascontiguousarray(given[0].swapaxes(0, 1))
    with mock.patch.object(recurrent, "_MOST_INSIDE", 1 << 18 if is_inside else -1):
        check_op("Lstm", *given, **variant, static=static, specs=(None,) * 8, **params)


def test_nan_stays_in_its_row(check_op):
    given = inputs(4, 3, 6, 9, 9, {"gate", "peepholes"})
    given[0][1, 1, 2], given[0][2, 2, 3] = np.nan, np.inf
    check_op("Lstm", *given, specs=(None,) * 8, cell_clip_threshold=0.5)
