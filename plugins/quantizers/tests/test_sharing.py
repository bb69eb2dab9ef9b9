"""Which tensors share an encoding, and whose range counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from quantizing import decisions, dense, encoding, model_of, new_graph, output, quantized

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.container import Model, Producer
from dovetail.errors import QuantizationError
from dovetail.ir import (
    Array,
    AxisScaleOffset,
    Block,
    DType,
    Encoding,
    Graph,
    Node,
    ScaleOffset,
    Spec,
    Tensor,
    dequantize,
)
from dovetail.ops import In, Op, OpPackage, OpRegistry, Range, float32
from dovetail.quantization import Bias, Granularity, Weight
from dovetail_opset import PACKAGE
from dovetail_opset.build import add, add_all, static

RNG = np.random.default_rng(3)


def abs_of(graph: Graph, x: Tensor) -> Tensor:
    """Something with a range of its own before what is tested."""
    return add(graph, "ElementWiseAbs", [x], name="before")


MOVERS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "Reshape": ((2, 6), {"spec": Spec(DType.FLOAT_32, (3, 4))}),
    "Transpose": ((2, 6), {"perm": [1, 0]}),
    "StridedSlice": ((2, 6), {"ranges": [(0, 1, 1), (0, 6, 2)]}),
    "Tile": ((2, 6), {"multiples": [1, 2]}),
    "DepthToSpace": ((1, 2, 2, 4), {"block_size": [2, 2]}),
    "Pad": ((2, 6), {"scheme": 0, "pad_amount": [(1, 1), (0, 0)]}),
    "PoolMax2d": (
        (1, 4, 4, 2),
        {"filter_size": [2, 2], "stride": [2, 2], "pad_amount": [(0, 0), (0, 0)]},
    ),
    "ResizeNearestNeighbor": ((1, 2, 2, 3), {"spec": Spec(DType.FLOAT_32, (1, 4, 4, 3))}),
}  # fmt: skip


@pytest.mark.parametrize("op_type", MOVERS)
def test_moved_values_keep_their_encoding(op_type: str) -> None:
    shape, params = MOVERS[op_type]
    graph, x = new_graph(shape)
    moved = add(graph, op_type, [abs_of(graph, x)], name="moved", **params)
    output(add(graph, "ElementWiseNeg", [moved], name="y"))
    samples = RNG.standard_normal((3, *shape)).astype(np.float32)
    made = quantized(graph, list(samples))
    assert encoding(made, "moved") == encoding(made, "before")
    assert encoding(made, "before") == ScaleOffset(float(np.abs(samples).max()) / 255)


def test_a_pad_of_more_than_the_data_widens_the_range() -> None:
    graph, x = new_graph((4,))
    output(add(graph, "Pad", [x], name="y", scheme=0, pad_amount=[(1, 0)], pad_constant_value=-4.0))
    made = quantized(graph, [np.array([0, 1, 0, 1])])
    assert encoding(made, "x") == encoding(made, "y") == ScaleOffset(5 / 255, -204)


def test_a_border_of_minus_infinity_takes_no_place() -> None:
    graph, x = new_graph((1, 2, 2, 1))
    minimum = float(np.finfo(np.float32).min)
    pads = [(0, 0), (1, 1), (1, 1), (0, 0)]
    padded = add(
        graph, "Pad", [x], name="padded", scheme=0, pad_amount=pads, pad_constant_value=minimum
    )
    window = {"filter_size": [3, 3], "stride": [1, 1], "pad_amount": [(0, 0), (0, 0)]}
    output(add(graph, "PoolMax2d", [padded], name="y", **window))
    sample = np.array([-3, -2, -2, -1], np.float32).reshape(1, 2, 2, 1)
    made = dt.quantize(model_of(graph), [sample])
    assert encoding(made.graphs["net"], "y") == ScaleOffset(3 / 255, -255)
    with dt.Session(made) as session:
        np.testing.assert_allclose(session.run({"x": sample})["y"], -1, rtol=1e-6)


def test_values_that_stand_for_infinity_have_the_end_of_the_grid() -> None:
    graph, x = new_graph((3,))
    mask = static(graph, "mask", np.array([0, -1e38, -2], np.float32))
    output(add(graph, "ElementWiseAdd", [x, mask], name="y"))
    with pytest.raises(QuantizationError, match="tensor 'y'"):
        quantized(graph, [np.array([1, 2, 3])])
    made = quantized(graph, [np.array([1, 2, 3])], lenient=True)
    # y is 1, 1 and what is masked: 16 below. The mask must lead there from anywhere: across y (16)
    # and x (3), which is farther than 16 below its own -2.
    assert encoding(made, "y") == ScaleOffset(16 / 255, -239)
    assert encoding(made, "mask").offset == -255
    # the ends of a grid are up to half a step off
    assert encoding(made, "mask").scale * 255 == pytest.approx(19, abs=0.05)


def test_gather_shares_between_table_and_rows_not_indices() -> None:
    graph, i = new_graph((2,), DType.INT_32)
    table = static(graph, "table", np.array([[-1, 0], [0.5, 3]], np.float32))
    output(add(graph, "Gather", [table, i], name="y", axis=0))
    made = quantized(graph, [np.array([0, 1])])
    assert made.tensor("x").dtype is DType.INT_32
    assert encoding(made, "table") == encoding(made, "y") == ScaleOffset(4 / 255, -64)


@pytest.mark.parametrize("how", ["share", "requantize"])
def test_joined_tensors(how: str) -> None:
    graph, x = new_graph((1, 2))
    small = add(graph, "ElementWiseAbs", [x], name="small")
    factor = static(graph, "factor", np.array([10], np.float32))
    large = add(graph, "ElementWiseMultiply", [small, factor], name="large")
    output(add(graph, "Concat", [small, large], name="y", axis=1))
    made = quantized(graph, [np.array([[1, -2]])], concat=how)
    assert encoding(made, "y") == encoding(made, "large") == ScaleOffset(20 / 255)
    assert encoding(made, "small").scale == np.float32((20 if how == "share" else 2) / 255)


def boxes_and_scores() -> tuple[Graph, list[Array]]:
    """The end of a YOLO: boxes up to 400 and scores up to 1 in one output."""
    graph, x = new_graph((1, 4))
    scores = add(graph, "Sigmoid", [x], name="scores")
    factor = static(graph, "factor", np.array([100], np.float32))
    boxes = add(graph, "ElementWiseMultiply", [x, factor], name="boxes")
    output(add(graph, "Concat", [boxes, scores], name="y", axis=1))
    return graph, [np.array([[0, 1, 3, 4]], np.float32)]


@pytest.mark.parametrize("how", ["share", "requantize"])
def test_an_output_of_small_and_large_values_has_a_note(how: str) -> None:
    graph, samples = boxes_and_scores()
    made = quantize_with_report(model_of(graph), samples, concat=how)
    (note,) = [note for note in made.report.notes if "'scores' (1)" in note]
    assert "the output 'y' has this grid, too: an entry with 16 bits or float for it" in note
    assert "requantize" not in note  # the output has one grid in any case


@pytest.mark.parametrize("entry", [{"bitwidth": 16}, {"bitwidth": 32, "dtype": "float"}])
def test_an_entry_for_such_an_output_keeps_small_values(
    entry: dict[str, Any], tmp_path: Path
) -> None:
    graph, samples = boxes_and_scores()
    file = tmp_path / "entry.json"
    file.write_text(json.dumps({"activation_encodings": {"y": [entry]}, "param_encodings": {}}))
    made = quantize_with_report(model_of(graph), samples, quantization_overrides=file)
    assert not any("'scores' (1)" in note for note in made.report.notes)
    with dt.Session(model_of(graph)) as exact, dt.Session(made.model) as near:
        wanted, found = (session.run({"x": samples[0]})["y"] for session in (exact, near))
    # half a step of 16 bits is 0.003
    np.testing.assert_allclose(found[:, 4:], wanted[:, 4:], atol=0.005)


@pytest.mark.parametrize("others", [True, False])
@pytest.mark.parametrize("style", ["dovetail", "sdk"])
def test_what_others_read_of_a_known_range_keeps_its_grid(others: bool, style: str) -> None:
    """As in a YOLO, which computes boxes from parts of a Sigmoid and joins them with scores."""
    graph, x = new_graph((1, 4))
    shares = add(graph, "Sigmoid", [x], name="shares")
    names: dict[str, Any] = {"name": "s", "outputs": ["a", "b"]}
    a, scores = add_all(graph, "Split", [shares], **names, axis=1, split_index=[2])
    factor = static(graph, "factor", np.array([100], np.float32))
    boxes = add(graph, "ElementWiseMultiply", [a if others else x, factor], name="boxes")
    output(add(graph, "Concat", [boxes, scores], name="y", axis=1))
    made = quantize_with_report(
        model_of(graph), [np.array([[1, -2, 3, 4]], np.float32)], quantization_style=style
    )
    found = [encoding(made.model.graphs["net"], n) for n in ("shares", "a", "b", "boxes", "y")]
    own = others and style == "dovetail"
    assert found[0] == found[1] == found[2]
    assert found[3] == found[4]
    assert (found[0] == found[3]) == (not own)
    if own:
        assert found[0] == ScaleOffset(np.float32(1 / 255))
    # the note names what has no reader of its own, and so little of the shared grid
    assert any("'shares' (1)" in note for note in made.report.notes) == (not own)


def test_split_parts_share() -> None:
    graph, x = new_graph((1, 4))
    parts = add_all(graph, "Split", [x], name="s", outputs=["a", "b"], axis=1, split_index=[2])
    for part in parts:
        output(part)
    made = quantized(graph, [np.array([[0, 1, 0, 8]])])
    assert encoding(made, "a") == encoding(made, "b") == ScaleOffset(8 / 255)


def test_what_relu_cuts_off_has_no_place() -> None:
    graph = dense(np.array([[1], [-3]], np.float32), None)
    samples = [np.array([[2]])]  # fc: 2 and -6
    squashed, kept = (
        quantized(graph, samples),
        quantized(graph, samples, disable_relu_squashing=True),
    )
    assert encoding(squashed, "fc") == encoding(squashed, "y") == ScaleOffset(2 / 255)
    assert encoding(kept, "fc") == ScaleOffset(8 / 255, -191)
    assert encoding(kept, "y") == ScaleOffset(2 / 255)


@pytest.mark.parametrize("op_type", ["Relu6", "ReluMinMax", "ElementWiseNeuron"])
def test_clips_squash_too(op_type: str) -> None:
    params = {
        "Relu6": {},
        "ReluMinMax": {"min_value": 0.0, "max_value": 6.0},
        "ElementWiseNeuron": {"operation": 5, "min_value": 0.0, "max_value": 6.0},
    }[op_type]
    graph, x = new_graph((2,))
    neg = add(graph, "ElementWiseNeg", [x], name="neg")
    output(add(graph, op_type, [neg], name="y", **params))
    made = quantized(graph, [np.array([5, -30])])
    assert encoding(made, "neg") == encoding(made, "y") == ScaleOffset(6 / 255)


@pytest.mark.parametrize(
    ("op_type", "params", "minimum"),
    [("HardSwish", {}, -3), ("ElementWiseNeuron", {"operation": 2, "alpha": 0.5, "beta": 0.5}, -1)],
)
def test_what_a_reader_does_not_tell_apart_has_no_place(
    op_type: str, params: dict[str, Any], minimum: float
) -> None:
    graph, x = new_graph((3,))
    neg = add(graph, "ElementWiseNeg", [x], name="neg")
    output(add(graph, op_type, [neg], name="y", **params))
    samples = [np.array([20, 4, -0.5])]  # neg: -20, -4 and 0.5
    made = decisions(graph, samples)["neg"]
    kept = decisions(graph, samples, disable_relu_squashing=True)["neg"]
    assert made.minimum == pytest.approx(minimum, abs=made.scale)  # zero is on the grid
    assert made.scale == np.float32((0.5 - minimum) / 255)
    assert kept.scale == np.float32(20.5 / 255)
    output(neg)
    assert decisions(graph, samples)["neg"].scale == kept.scale


@pytest.mark.parametrize(("values", "ends"), [([20, 16], (-12, 0)), ([-20, -16], (0, 12))])
def test_values_that_no_reader_tells_apart(values: list[float], ends: tuple[float, float]) -> None:
    graph, x = new_graph((2,))
    neg = add(graph, "ElementWiseNeg", [x], name="neg")
    output(add(graph, "Sigmoid", [neg], name="y"))
    made = decisions(graph, [np.array(values)])["neg"]
    assert (made.minimum, made.maximum) == pytest.approx(ends, abs=1e-5)


def test_squashing_goes_through_what_only_moves() -> None:
    graph, x = new_graph((1, 2))
    neg = add(graph, "ElementWiseNeg", [x], name="neg")
    flat = add(graph, "Reshape", [neg], name="flat", spec=Spec(DType.FLOAT_32, (2,)))
    output(add(graph, "Relu", [flat], name="y"))
    found = decisions(graph, [np.array([[5, -3]])])
    assert {found[n].maximum for n in ("neg", "flat", "y")} == {found["y"].maximum}
    assert found["neg"].shared_with == "y"
    assert "Relu" in found["neg"].why


@pytest.mark.parametrize("reader", ["Relu", "Sigmoid", "Softmax"])
@pytest.mark.parametrize("asks_for_indices", [False, True])
def test_what_is_chosen_from_by_size_has_all_values(reader: str, asks_for_indices: bool) -> None:
    """As in a mixture of experts, whose router would choose at random among clipped scores."""
    graph, x = new_graph((2, 3))
    scores = add(graph, "ElementWiseNeg", [x], name="scores")
    best, indices = add_all(graph, "TopK", [scores], name="best", k=1)
    output(add(graph, reader, [best], name="y"))
    if asks_for_indices:
        output(indices)
    made = decisions(graph, [np.array([[40, 60, 20], [-3, -1, 2]])])["scores"]
    assert (made.minimum <= -59) == asks_for_indices


@pytest.mark.parametrize("other", ["another reader", "an output", "an input"])
def test_nothing_is_squashed_that_others_see(other: str) -> None:
    graph, x = new_graph((2,))
    cut = x if other == "an input" else add(graph, "ElementWiseNeg", [x], name="cut")
    output(add(graph, "Relu", [cut], name="y"))
    if other == "another reader":
        output(add(graph, "ElementWiseAbs", [cut], name="z"))
    if other == "an output":
        output(cut)
    made = quantized(graph, [np.array([5, -3])])
    assert encoding(made, cut.name).offset < 0


@pytest.mark.parametrize(
    ("op_type", "params", "expected"),
    [
        ("Sigmoid", {}, ScaleOffset(1 / 255)),
        ("Softmax", {}, ScaleOffset(1 / 255)),
        ("Tanh", {}, ScaleOffset(2 / 255, -128)),
        ("ElementWiseNeuron", {"operation": 2}, ScaleOffset(1 / 255)),
    ],
)
def test_fixed_ranges(op_type: str, params: dict[str, Any], expected: ScaleOffset) -> None:
    graph, x = new_graph((1, 2))
    output(add(graph, op_type, [x], name="y", **params))
    made = decisions(graph, [np.array([[-3, 4]])])["y"]
    assert (made.scale, made.offset) == (expected.scale, expected.offset)
    assert op_type in made.why


@pytest.mark.parametrize(
    ("options", "maximum"),
    [
        ({}, np.tanh(0.2)),
        ({"quantization_style": "sdk"}, 1),
        ({"disable_relu_squashing": True}, 1),
        ({"act_bitwidth": 16}, 1),  # which QNN prescribes
    ],
)
def test_small_inputs_narrow_the_range_of_a_tanh(options: dict[str, Any], maximum: float) -> None:
    """As in networks that cap their scores by 50 * tanh(x / 50)."""
    graph, x = new_graph((1, 2))
    halves = add(graph, "ElementWiseAbs", [x], name="halves")
    output(add(graph, "Tanh", [halves], name="y"))
    made = quantized(graph, [np.array([[0.1, 0.2]])], **options)
    found = encoding(made, "y")
    bits = options.get("act_bitwidth", 8)
    assert (2**bits - 1 + found.offset) * found.scale == pytest.approx(maximum, rel=0.01)


def test_a_tanh_may_share_the_grid_of_its_input() -> None:
    graph, x = new_graph((1, 2))
    curved = add(graph, "Tanh", [x], name="curved")
    output(add(graph, "Concat", [x, curved], name="y", axis=1))
    made = quantized(graph, [np.array([[0.1, 0.2]])])
    assert encoding(made, "x") == encoding(made, "curved") == encoding(made, "y")


def test_types_that_hold_no_reals_are_untouched() -> None:
    graph, x = new_graph((3,))
    zero = static(graph, "zero", np.zeros(1, np.float32))
    positive = add(graph, "ElementWiseGreater", [x, zero], name="positive")
    output(add(graph, "ElementWiseSelect", [positive, x, zero], name="y"))
    made = quantized(graph, [np.array([1, -1, 2])])
    assert made.tensor("positive").dtype is DType.BOOL_8
    assert made.tensor("y").dtype is DType.UFIXED_POINT_8


def test_ops_that_take_no_fixed_point_stay_float_between_converts() -> None:
    graph, x = new_graph((3,))
    neg = add(graph, "ElementWiseNeg", [x], name="neg")
    whole = add(graph, "Cast", [neg], name="whole", spec=Spec(DType.INT_32, (3,)))
    back = add(graph, "Cast", [whole], name="back", spec=Spec(DType.FLOAT_32, (3,)))
    output(add(graph, "ElementWiseAbs", [back], name="y"))
    made = quantized(graph, [np.array([1.5, -2.5, 4])])
    assert [n.op_type for n in made.nodes] == [
        "ElementWiseNeg", "Convert", "Cast", "Cast", "Convert", "ElementWiseAbs",
    ]  # fmt: skip
    assert made.tensor("back").dtype is DType.FLOAT_32
    assert encoding(made, "y") == ScaleOffset(1 / 32)  # 0 to 4, with points at whole numbers


def test_a_third_party_op_says_its_own_roles() -> None:
    from dovetail.api.quantization import quantize

    mine = OpPackage("my.ops")

    @mine.op("Scale")
    class Scale(Op):
        """x * weight + bias."""

        inputs = (In("in[0]"), In("in[1]"), In("in[2]"))
        quantization_roles: ClassVar = {1: Weight(0, Granularity.CHANNEL), 2: Bias(0, 1)}

        def infer(self, x: Spec, w: Spec, b: Spec, out: Spec | None) -> Spec:
            return x if out is None else out

        def reference(self, x: Any, w: Any, b: Any) -> Any:
            return x * w + b

    graph, x = new_graph((2,))
    weight = static(graph, "w", np.array([1, 4], np.float32))
    bias = static(graph, "b", np.array([1, -1], np.float32))
    y = output(graph.add_tensor(Tensor("y", DType.FLOAT_32, (2,))))
    graph.add_node(Node("scale", "my.ops", "Scale", [x, weight, bias], [y]))
    ops = OpRegistry.of(mine, PACKAGE)
    model = Model.of(graph, producer=Producer("test", "0"), registry=ops)
    made = quantize(
        model, [np.array([1, 2])], ops=ops, use_per_channel_quantization=True, bias_bitwidth=32
    ).graphs["net"]
    for name in ("w", "b"):
        assert isinstance(made.tensor(name).encoding, AxisScaleOffset)


def test_ops_of_others_state_what_they_do_to_ranges() -> None:
    class Elementwise(Op):
        inputs = (In("in[0]"),)

        def infer(self, x: Spec, out: Spec | None) -> Spec:
            return Spec(x.dtype, x.shape) if out is None else out

    mine = OpPackage("my.ops")

    @mine.op("Below")
    class Below(Elementwise):
        """min(max(x, 0), limit)."""

        clips = True
        limit = float32(4.0)

        @property
        def value_range(self) -> Range:
            return 0.0, self.limit

        def reference(self, x: Any) -> Any:
            return np.clip(x, 0, self.limit)

    @mine.op("SoftSign")
    class SoftSign(Elementwise):
        """x / (1 + |x|)."""

        value_range = (-1.0, 1.0)

        def reference(self, x: Any) -> Any:
            return x / (1 + np.abs(x))

    @mine.op("Sorted")
    class Sorted(Elementwise):
        """The elements along the last axis in ascending order."""

        keeps = (0,)

        def reference(self, x: Any) -> Any:
            return np.sort(x)

    graph, x = new_graph((1, 3))
    negative = add(graph, "ElementWiseNeg", [x], name="negative")
    for op_type, name, read in (
        ("Below", "below", negative),
        ("Sorted", "sorted", graph.add_tensor(Tensor("below", DType.FLOAT_32, (1, 3)))),
        ("SoftSign", "soft", graph.add_tensor(Tensor("sorted", DType.FLOAT_32, (1, 3)))),
    ):
        made = graph.tensors.get(name) or graph.add_tensor(Tensor(name, DType.FLOAT_32, (1, 3)))
        graph.add_node(Node(name, "my.ops", op_type, [read], [made]))
    output(made)
    ops = OpRegistry.of(mine, PACKAGE)
    model = Model.of(graph, producer=Producer("test", "0"), registry=ops)
    samples = [np.array([[-3, 1, 7]]), np.array([[-2, 3, -1]])]
    (done,) = dt.quantize(model, samples, ops=ops).graphs.values()
    # what is clipped needs no place, what is sorted keeps its grid, and the rest is known
    for name in ("negative", "below", "sorted"):
        assert encoding(done, name) == ScaleOffset(3 / 255)
    assert encoding(done, "soft") == ScaleOffset(2 / 255, -128)


@pytest.mark.parametrize(
    "grid",
    [
        AxisScaleOffset(0, np.full(5, 0.02, np.float32)),
        AxisScaleOffset(1, np.full(4, 0.02, np.float32)),
        Block((1, 2), np.full((5, 2), 0.02, np.float32)),
    ],
    ids=["rows", "columns", "blocks"],
)
def test_rows_of_a_table_with_several_scales_get_one(grid: Encoding) -> None:
    """The rows, (1, 3, 4), cannot have the scales of the table."""
    stored = np.arange(-10, 10, dtype=np.int8).reshape(5, 4)
    graph, x = new_graph((1, 4))
    table = static(graph, "table", dequantize(stored, grid))
    graph.source_encodings["table"] = Spec(DType.SFIXED_POINT_8, (5, 4), grid)
    indices = static(graph, "i", np.array([[0, 4, 2]], np.int32))
    rows = add(graph, "Gather", [table, indices], name="rows", axis=0)
    output(add(graph, "ElementWiseAdd", [rows, x], name="y"))
    found = quantized(graph, np.ones((2, 1, 4), np.float32))
    assert encoding(found, "rows") == encoding(found, "table")
    report = quantize_with_report(model_of(graph), np.ones((2, 1, 4), np.float32)).report
    assert any("several scales in the model" in note for note in report.notes)
