"""Reductions against the ops' references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

OPS = ["ReduceMean", "ReduceSum"]


@st.composite
def reductions(draw: st.DrawFn) -> dict[str, Any]:
    shape = draw(st.lists(st.integers(1, 7), min_size=1, max_size=5))
    axes = draw(st.sets(st.sampled_from(range(len(shape))), min_size=1))
    return {
        "op_type": draw(st.sampled_from([*OPS, "ReduceMax", "ReduceMin"])),
        "shape": shape,
        "axes": draw(st.permutations(sorted(axes))),
        "keep_dims": draw(st.booleans()),
    }


# each example compiles a primitive, for which no deadline is known
@settings(max_examples=80, derandomize=True)
@given(case=reductions())
def test_any_axes(new_model: Any, agrees: Any, case: dict[str, Any]) -> None:
    model = new_model()
    x = model.input("x", *case.pop("shape"))
    agrees(model, model.add(case.pop("op_type"), x, name="y", **case))


@pytest.mark.parametrize("op_type", OPS)
@pytest.mark.parametrize("axes", [[1, 2], [0, 1, 2], [2], [2, 1]])
def test_axes_side_by_side_are_taken(
    model: Any, agrees: Any, op_type: str, axes: list[int]
) -> None:
    agrees(
        model, model.add(op_type, model.input("x", 2, 9, 7, 20), name="y", axes=axes), engine="y"
    )


@pytest.mark.parametrize(
    ("op_type", "axes"),
    [("ReduceMean", [3]), ("ReduceSum", [0, 2]), ("ReduceMin", [1]), ("ReduceMax", [1, 2])],
)
def test_others_are_left(
    model: Any, agrees: Any, kinds: Any, op_type: str, axes: list[int]
) -> None:
    agrees(model, model.add(op_type, model.input("x", 2, 9, 7, 20), name="y", axes=axes))
    assert kinds(model.prepare().steps) == ["reference y"]


EXTREMES = {"ReduceMax": np.max, "ReduceMin": np.min}
LIMIT = np.finfo(np.float32).max


@pytest.mark.parametrize("op_type", EXTREMES)
@pytest.mark.parametrize(("shape", "axes"), [((3, 50, 40), [2]), ((40, 9, 17), [2, 1])])
def test_extremes_of_rows_are_taken(
    model: Any, agrees: Any, op_type: str, shape: tuple[int, ...], axes: list[int]
) -> None:
    agrees(model, model.add(op_type, model.input("x", *shape), name="y", axes=axes), engine="y")


@pytest.mark.parametrize("op_type", EXTREMES)
@pytest.mark.parametrize("rows", [64, 4000])  # the search for NaN differs
@pytest.mark.parametrize("width", [64, 67])
def test_extremes_of_rows_that_are_not_finite(
    model: Any, kinds: Any, op_type: str, rows: int, width: int
) -> None:
    model.output(model.add(op_type, model.input("x", rows, width), name="y", axes=[1]))
    prepared, feeds = model.prepare(), model.feeds()
    assert kinds(prepared.steps) == ["engine y"]
    x = feeds["x"]
    special = [np.inf, -np.inf, LIMIT, -LIMIT, [*[np.inf] * (width - 1), -np.inf]]
    x[: len(special)] = [np.broadcast_to(each, width) for each in special]
    x[9, -1], x[10, 0] = np.inf, -np.inf
    for nan in (None, (20, 0), (21, width - 1), (rows - 1, slice(None)), (0, 3), (1, -1)):
        if nan is not None:
            x[nan] = np.nan
        found = model.run(prepared, feeds)["y"]
        np.testing.assert_array_equal(found, EXTREMES[op_type](x, axis=1))


def test_many_elements(model: Any, agrees: Any) -> None:
    """A window larger than in networks: sums of 40,000 elements are exact enough."""
    agrees(model, model.add("ReduceMean", model.input("x", 200, 200, 8), name="y", axes=[0, 1]))
