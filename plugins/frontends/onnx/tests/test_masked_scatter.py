"""Values scattered to masked elements in turn, in the forms in which PyTorch exports them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import UnsupportedOpError

N = helper.make_node
F32, I64 = np.float32, np.int64
SHAPE = (3, 4)
CONSTANTS = {
    "start": np.array([0], I64),
    "number": np.array(0, I64),
    "step": np.array([1], I64),
    "second": np.array([1], I64),
}


def scatter(start="start", axes="start", step="", *, whole_count=True, **attributes):
    """Return nodes that put v's first elements to the masked places of x."""
    count = [N("Gather", ["size", "start" if whole_count else "number"], ["n"], axis=0)]
    if not whole_count:
        count.append(N("Unsqueeze", ["n", "start"], ["end"]))
    end = "n" if whole_count else "end"
    return [
        N("NonZero", ["m"], ["found"]),
        N("Transpose", ["found"], ["places"], perm=[1, 0]),
        N("Shape", ["places"], ["size"]),
        *count,
        N("Slice", ["v", start, end, axes, *([step] if step else [])], ["taken"]),
        N("ScatterND", ["x", "places", "taken"], ["y"], name="set", **attributes),
    ]


@pytest.fixture
def feeds(rng):
    x, v = rng.standard_normal(SHAPE).astype(F32), rng.standard_normal(12).astype(F32)
    return {"x": x, "m": rng.random(SHAPE) < 0.5, "v": v}


@pytest.mark.parametrize("filled", ["some", "none", "all", "all but the first"])
@pytest.mark.parametrize("form", [{}, {"whole_count": False, "step": "step", "reduction": "none"}])
def test_values_go_to_the_masked_places(model, read, evaluate, run_peer, feeds, form, filled):
    made = model(scatter(**form), feeds, ["y"], CONSTANTS)
    if filled != "some":
        feeds["m"] = np.full(SHAPE, filled != "none")
        feeds["m"][0, 0] = filled == "all"
    graph = read(made)
    np.testing.assert_array_equal(evaluate(graph, feeds)["y"], run_peer(made, feeds)["y"])
    assert graph.nodes[-1].name == "set"


def test_a_mask_that_is_expanded(model, read, evaluate, run_peer, feeds) -> None:
    """Its shape need not be declared, nor that of the data."""
    feeds["m"] = np.array([[True], [False], [True]])
    nodes = scatter(whole_count=False)
    nodes[0].input[0], nodes[-1].input[0] = "wide", "data"
    before = [
        N("Neg", ["x"], ["data"]),
        N("Shape", ["data"], ["shape"]),
        N("Expand", ["m", "shape"], ["wide"]),
    ]
    made = model([*before, *nodes], feeds, ["y"], CONSTANTS)
    np.testing.assert_array_equal(evaluate(read(made), feeds)["y"], run_peer(made, feeds)["y"])


@pytest.mark.parametrize(
    "form", [{"start": "second"}, {"step": "second2"}, {"axes": "rows"}, {"reduction": "add"}]
)
def test_other_scatters_stay(model, read, feeds, form) -> None:
    """They begin at another value, skip some, take them along an unknown axis, or add them."""
    feeds["rows"] = np.array([0], I64)
    constants = CONSTANTS | {"second2": np.array([2], I64)}
    opset = 18 if "reduction" in form else 17
    with pytest.raises(UnsupportedOpError, match="the shape of its output depends on the data"):
        read(model(scatter(**form), feeds, ["y"], constants, opset=opset))


def test_a_mask_of_slices_stays(model, read, feeds) -> None:
    made = model(scatter(), feeds | {"m": np.ones(3, bool), "v": feeds["x"]}, ["y"], CONSTANTS)
    with pytest.raises(UnsupportedOpError, match="the shape of its output depends on the data"):
        read(made)


def test_another_count_stays(model, read, feeds) -> None:
    nodes = scatter()
    nodes[3].input[0] = "other"
    feeds["other"] = np.array([2, 2], I64)
    with pytest.raises(UnsupportedOpError, match="the shape of its output depends on the data"):
        read(model(nodes, feeds, ["y"], CONSTANTS))
