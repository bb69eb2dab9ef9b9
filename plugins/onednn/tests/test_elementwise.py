"""Functions of one and of two tensors, fused nodes and broadcasts, against the ops' references."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail_onednn import elementwise
from dovetail_onednn.elementwise import FUNCTIONS
from dovetail_onednn.folding import Folding
from dovetail_onednn.post_ops import BINARY
from dovetail_opset.ops.activation import Neuron

PARAMS: dict[str, dict[str, Any]] = {
    "Elu": {"alpha": 0.7},
    "ReluMinMax": {"min_value": 0.0, "max_value": 0.75},
}


@pytest.fixture(autouse=True, scope="module")
def of_any_size() -> Iterator[None]:
    """Let the kernels run small tensors, which NumPy runs otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elementwise, "_LEAST", 1)
        patch.setattr(elementwise, "_LEAST_SLOW", 1)
        yield


def function(model: Any, op_type: str, x: Any, name: str) -> Any:
    """Add a function of one tensor; the argument of roots is positive."""
    if op_type == "ElementWiseSquareRoot":
        x = model.add("ElementWiseAbs", x, name=f"{name}.abs")
    slope = [model.static(f"{name}.slope", [0.3])] if op_type == "Prelu" else []
    return model.add(op_type, x, *slope, name=name, **PARAMS.get(op_type, {}))


CLIPPING = ("Relu", "Relu6", "ReluMinMax")  # are left to NumPy where nothing follows


@pytest.mark.parametrize("op_type", [f for f in FUNCTIONS if f != "ElementWiseNeuron"])
@pytest.mark.parametrize("shape", [(), (7,), (3, 5, 11)])
def test_functions_of_one_tensor(
    model: Any, agrees: Any, op_type: str, shape: tuple[int, ...]
) -> None:
    if op_type == "Prelu":
        shape = shape or (1,)  # it takes no scalar
    y = function(model, op_type, model.input("x", *shape), "y")
    engine = "y.abs+y" if op_type == "ElementWiseSquareRoot" else "y"
    agrees(model, y, engine=None if op_type in CLIPPING else engine)


@pytest.mark.parametrize("most", [0, 1 << 10])
def test_relu_of_many_threads(
    model: Any, kinds: Any, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(elementwise, "_MOST_THREADS", most)
    model.output(model.add("Relu", model.input("x", 300, 300), name="y"))
    assert kinds(model.prepare().steps) == ["reference y" if most else "engine y"]


@pytest.mark.parametrize("operation", list(Neuron))
def test_functions_by_number(model: Any, agrees: Any, operation: Neuron) -> None:
    params = {"min_value": -0.5, "max_value": 0.75} if operation.name == "RELU_MIN_MAX" else {}
    x = model.input("x", 3, 5, 11)
    y = model.add("ElementWiseNeuron", x, name="y", operation=operation, **params)
    is_left = operation.name in ("HARD_SIGMOID", "RELU", "RELU_MIN_MAX", "SOFTPLUS")
    agrees(model, y, engine=None if is_left else "y")


def test_far_from_zero(model: Any, agrees: Any, close: Any) -> None:
    # exp overflows from 89 on; the results saturate
    values = np.array([-1000, -100, -20, -5, -1e-6, 0, 1e-6, 5, 20, 100, 1000], np.float32)
    for op_type in ("Sigmoid", "Tanh", "Gelu", "HardSwish", "Elu"):
        model.output(model.add(op_type, model.input(f"{op_type}.x", 11), name=op_type))
    feeds = {t.name: values for t in model.graph.inputs}
    wanted = model.expected(feeds)
    for name, found in model.run(model.prepare(), feeds).items():
        close(found, wanted[name])


@pytest.mark.parametrize("exponent", [2.0, 3.0])
def test_squares_and_cubes(model: Any, agrees: Any, exponent: float) -> None:
    x = model.input("x", 3, 5, 11)
    y = model.add("ElementWisePower", x, model.static("exponent", exponent), name="y")
    y = model.add("ElementWiseAdd", y, x, name="sum")
    agrees(model, model.add("Tanh", y, name="tanh"), engine="y+sum+tanh")


@pytest.mark.parametrize("tail", [[], ["Tanh"]])
def test_exponentials(model: Any, kinds: Any, close: Any, tail: list[str]) -> None:
    values = np.array([np.nan, -np.nan, np.inf, -np.inf, 100, -100, -0.0, 1e-40, 3, -3], np.float32)
    y = model.add("ElementWiseExp", model.input("x", 30), name="y")
    for op_type in tail:
        y = model.add(op_type, y, name="tail")
    model.output(y)
    prepared, feeds = model.prepare(), {"x": np.tile(values, 3)}
    assert kinds(prepared.steps) == ["+".join(["engine y", *(["tail"] if tail else [])])]
    wanted = model.expected(feeds)[y.name]
    numbers = np.isfinite(wanted)
    (found,) = model.run(prepared, feeds).values()
    close(found[numbers], wanted[numbers])
    np.testing.assert_array_equal(found[~numbers], wanted[~numbers])


@pytest.mark.parametrize("exponent", [-1.0, 0.5, 4.0])
def test_other_powers_are_left(model: Any, kinds: Any, exponent: float) -> None:
    x = model.add("ElementWiseAbs", model.input("x", 3, 5, 11), name="x.abs")
    y = model.add("ElementWisePower", x, model.static("exponent", exponent), name="y")
    model.output(y)
    assert "reference y" in kinds(model.prepare().steps)


@st.composite
def broadcasts(draw: st.DrawFn) -> dict[str, Any]:
    shape = draw(st.lists(st.integers(1, 6), max_size=5))
    other = [n if draw(st.booleans()) else 1 for n in shape]
    return {
        "op_type": draw(st.sampled_from(sorted(BINARY))),
        "shapes": draw(st.permutations([shape, other[draw(st.integers(0, len(other))) :]])),
        "tail": draw(st.lists(st.sampled_from(["one", "full", "channel", "number"]), max_size=3)),
    }


# each example compiles a primitive, for which no deadline is known
@settings(max_examples=80, derandomize=True)
@given(case=broadcasts())
def test_functions_of_two_tensors(new_model: Any, agrees: Any, case: dict[str, Any]) -> None:
    model = new_model()
    x, other = (model.input(f"x{i}", *shape) for i, shape in enumerate(case["shapes"]))
    if case["op_type"] == "ElementWiseDivide":  # quotients by small numbers differ by much
        other = model.add("ElementWiseMaximum", other, model.static("low", 0.5), name="far")
    y = tail(model, model.add(case["op_type"], x, other, name="y"), case["tail"])
    agrees(model, y)


def tail(model: Any, y: Any, kinds: list[str]) -> Any:
    """Add nodes: functions of one tensor, and of a full one, one by channel or a number."""
    for i, kind in enumerate(kinds):
        name = f"tail{i}"
        shapes = {"full": y.shape, "channel": y.shape[-1:], "number": ()}
        if kind == "one":
            y = model.add("Tanh", y, name=name)
        else:
            other = model.input(f"{name}.x", *shapes[kind])
            y = model.add("ElementWiseMultiply", y, other, name=name)
    return y


@pytest.mark.parametrize(
    ("first", "second", "engine"),
    [
        ((2, 6, 6, 8), (8,), True),
        ((2, 6, 6, 8), (2, 1, 1, 8), True),
        ((2, 1, 1, 8), (2, 6, 6, 8), True),
        ((2, 3, 6, 8), (1, 1, 6, 8), True),
        ((2, 3, 6, 8), (2, 3, 6, 1), True),
        ((2, 1, 6, 8), (2, 3, 1, 8), False),  # neither has the result's shape
    ],
)
def test_which_broadcasts_are_taken(
    model: Any, agrees: Any, first: tuple[int, ...], second: tuple[int, ...], engine: bool
) -> None:
    y = model.add("ElementWiseAdd", model.input("a", *first), model.input("b", *second), name="y")
    agrees(model, model.add("Relu", y, name="relu"), engine="y+relu" if engine else None)


@pytest.mark.parametrize("op_type", ["ElementWiseSubtract", "ElementWiseDivide"])
def test_operands_that_cannot_be_exchanged(
    model: Any, agrees: Any, kinds: Any, op_type: str
) -> None:
    one, x = model.static("one", np.full(8, 3.0)), model.input("x", 2, 6, 8)
    far = model.add("ElementWiseMaximum", x, model.static("low", 0.5), name="far")
    agrees(model, model.add(op_type, one, far, name="y"))
    assert "reference y" in kinds(model.prepare().steps)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("op_type", [f for f in FUNCTIONS if f != "ElementWiseNeuron"])
def test_a_function_with_a_tail(model: Any, agrees: Any, op_type: str, is_first: bool) -> None:
    y = function(model, op_type, model.input("x", 2, 5, 7, 12), "y")
    pair = (y, model.input("other", 2, 5, 7, 12))
    y = model.add("ElementWiseAdd", *(pair if is_first else pair[::-1]), name="add")
    y = model.add("ElementWiseMultiply", y, model.random("scale", 12), name="scaled")
    nodes = "y.abs+y" if op_type == "ElementWiseSquareRoot" else "y"
    agrees(model, y, engine=f"{nodes}+add+scaled")


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("after", [[], ["channel"], ["one", "full"]])
def test_swish(model: Any, agrees: Any, is_first: bool, after: list[str]) -> None:
    x = model.input("x", 2, 5, 7, 12)
    pair = (x, model.add("Sigmoid", x, name="gate"))
    y = model.add("ElementWiseMultiply", *(pair if is_first else pair[::-1]), name="swish")
    names = ["gate", "swish", *(f"tail{i}" for i in range(len(after)))]
    agrees(model, tail(model, y, after), engine="+".join(names))


def test_a_gate_of_another_tensor_is_no_swish(model: Any, agrees: Any) -> None:
    x, other = model.input("x", 2, 5, 7, 12), model.input("other", 2, 5, 7, 12)
    gate = model.add("Sigmoid", x, name="gate")
    y = model.add("ElementWiseMultiply", other, gate, name="gated")
    agrees(model, y, engine="gate+gated")


def test_in_place_only_where_nobody_else_reads(model: Any, close: Any, kinds: Any) -> None:
    y = model.conv(model.input("x", 1, 6, 6, 4), "conv", 8)
    size = model.add("ElementWiseAbs", y, name="size")
    model.output(model.add("ElementWiseMultiply", size, size, name="square"))
    model.output(model.add("ElementWiseAdd", model.add("Tanh", y, name="tanh"), y, name="sum"))
    prepared, feeds = model.prepare(), model.feeds()
    assert all(kind.startswith("engine") for kind in kinds(prepared.steps) if kind != "reorder")
    wanted = model.expected(feeds)
    for name, found in model.run(prepared, feeds).items():
        close(found, wanted[name])


def test_no_elements(model: Any) -> None:
    x = model.input("x", 0, 4)
    model.output(model.add("Relu", x, name="y"))
    model.output(model.add("ElementWiseAdd", x, model.random("b", 4), name="z"))
    found = model.run(model.prepare(), model.feeds())
    assert {a.shape for a in found.values()} == {(0, 4)}


@pytest.mark.parametrize(
    ("made", "operands", "dims"),
    [
        ((2, 6, 6, 8), [], [(1, 576)]),
        ((2, 6, 6, 8), [(8,)], [(1, 8, 72), (1, 8, 1)]),
        ((2, 6, 6, 8), [(2, 1, 1, 8), ()], [(2, 8, 36), (2, 8, 1), (1, 1, 1)]),
        ((1, 6, 1, 8), [(1, 6, 1, 8), (1,)], [(1, 48), (1, 48), (1, 1)]),
        ((), [()], [(1, 1), (1, 1)]),
    ],
)
def test_axes_that_all_treat_alike_are_joined(
    made: tuple[int, ...], operands: list[tuple[int, ...]], dims: list[tuple[int, ...]]
) -> None:
    folding = Folding.of(made, operands)
    assert [folding.desc(shape).dims for shape in (made, *operands)] == dims


def test_small_tensors_are_left_to_numpy(
    model: Any, kinds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elementwise, "_LEAST", 100)
    model.output(model.add("ElementWiseAbs", model.input("x", 2, 50), name="large"))
    y = model.add("ElementWiseAbs", model.input("z", 40), name="abs")
    model.output(model.add("Tanh", y, name="tanh"))  # 2 x 40 are too few as well
    assert kinds(model.prepare().steps) == ["engine large", "reference abs", "reference tanh"]


@pytest.mark.parametrize("has_tail", [False, True])
def test_halves_are_rounded_to_even(model: Any, kinds: Any, has_tail: bool) -> None:
    halves = np.arange(-40, 40, dtype=np.float32) / 2
    x = np.concatenate([halves, [1e9, -3e38, 8388607.5, np.inf, -np.inf, np.nan]]).astype("f4")
    y = model.add("ElementWiseRound", model.input("x", x.size), name="y")
    if has_tail:
        y = model.add("ElementWiseAdd", y, model.static("one", [1.0]), name="z")
    model.output(y)
    prepared = model.prepare()
    assert kinds(prepared.steps) == ["engine y+z" if has_tail else "engine y"]
    np.testing.assert_array_equal(model.run(prepared, {"x": x})[y.name], np.rint(x) + has_tail)


@pytest.mark.parametrize(("channels", "engine"), [(15, "reference"), (16, "engine")])
def test_short_rows_are_left_to_numpy(
    model: Any, agrees: Any, kinds: Any, channels: int, engine: str
) -> None:
    x, row = model.input("x", 5, 7, channels), model.input("row", channels)
    agrees(model, model.add("ElementWiseSubtract", x, row, name="y"))
    assert kinds(model.prepare().steps) == [f"{engine} y"]


@pytest.mark.parametrize("shape", [(5, 7, 3), (2, 6, 10, 3), (1031, 5), (4, 3)])
def test_rows_that_are_known_are_repeated(model: Any, agrees: Any, shape: tuple[int, ...]) -> None:
    x, channels = model.input("x", *shape), shape[-1]
    y = model.add("ElementWiseMultiply", model.random("factors", channels), x, name="y")
    y = model.add("ElementWiseAdd", y, model.input("other", *shape), name="sum")
    y = model.add("ElementWiseSubtract", y, model.random("row", 1, channels), name="difference")
    agrees(model, model.add("Relu", y, name="relu"), engine="y+sum+difference+relu")


@pytest.mark.parametrize(
    ("made", "operands", "repeats"),
    [
        ((2, 6, 6, 8), [(8,)], 72),
        ((2, 60, 60, 8), [(8,), (2, 60, 60, 8), (1,)], 120),
        ((2, 6, 6, 8), [(8,), (2, 1, 1, 8)], 1),
        ((2, 6, 6, 8), [(2, 6, 6, 1)], 1),
        ((7, 600), [(600,)], 1),
        ((0, 8), [(8,)], 1),
    ],
)
def test_few_channels_are_repeated(
    made: tuple[int, ...], operands: list[tuple[int, ...]], repeats: int
) -> None:
    assert Folding.repeating(made, operands).repeats == repeats
