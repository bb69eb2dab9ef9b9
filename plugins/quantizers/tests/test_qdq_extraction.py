"""What quantizing did in a model beside quantizing: clipping, and what is fixed-point for good."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from quantizing import dense, model_of, new_graph, output, quantized

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.errors import QuantizationError
from dovetail.ir import Array, AxisScaleOffset, DType, Graph, ScaleOffset, Spec, Tensor
from dovetail_opset.build import add, add_all, static

RNG = np.random.default_rng(12)
SAMPLES = RNG.standard_normal((16, 1, 4)).astype(np.float32)
WEIGHTS = RNG.standard_normal((2, 4, 4)).astype(np.float32)


def paired(graph: Graph, x: Tensor, scale: float, offset: int) -> Tensor:
    """x behind a Quantize and a Dequantize."""
    spec = Spec(DType.UFIXED_POINT_8, x.shape, ScaleOffset(scale, offset))
    stored = add(graph, "Quantize", [x], name=f"{x.name}.quantized", spec=spec)
    return add(graph, "Dequantize", [stored], name=f"{x.name}.again")


def network(scale: float, offset: int, between: str | None = None) -> Graph:
    """x -> FullyConnected a -> between -> pair -> FullyConnected y."""
    graph, x = new_graph((1, 4))
    made = add(graph, "FullyConnected", [x, static(graph, "v", WEIGHTS[0])], name="a")
    if between is not None:
        made = add(graph, between, [made], name="between")
    made = paired(graph, made, scale, offset)
    output(add(graph, "FullyConnected", [made, static(graph, "w", WEIGHTS[1])], name="y"))
    return graph


def results(model: Any) -> Array:
    """Of all samples, (16, 4)."""
    with dt.Session(model) as session:
        return np.concatenate([session.run({"x": sample})["y"] for sample in SAMPLES])


@pytest.mark.parametrize(
    "options",
    [
        {"ignore_encodings": True, "act_bitwidth": 16, "weights_bitwidth": 16},
        {"float_bitwidth": 16},
    ],
)
@pytest.mark.parametrize(("scale", "most"), [(0.05, np.inf), (6 / 255, 6.0)])
def test_a_grid_from_zero_clips_when_it_is_gone(
    options: dict[str, Any], scale: float, most: float
) -> None:
    graph = network(scale, 0)
    graph.tensor("v").data = Tensor.static("v", 3 * WEIGHTS[0]).data
    samples = None if "float_bitwidth" in options else SAMPLES
    found = results(dt.quantize(model_of(graph), samples, **options))
    inner = SAMPLES[:, 0] @ (3 * WEIGHTS[0]).T
    assert inner.max() > 6.5  # so that a clip at 6 shows
    wanted = np.clip(inner, 0, most) @ WEIGHTS[1].T
    # half floats have 11 bits; 16 bits of a range of some 20 have steps of 0.0003
    assert np.abs(found - wanted).max() < 0.02


def ops_of(graph: Graph, **options: Any) -> list[str]:
    """Name of the ops that are left."""
    made = dt.quantize(model_of(graph), None, float_bitwidth=16, **options)
    return [node.op_type for node in made.graphs["net"].nodes]


@pytest.mark.parametrize("between", ["Relu", "Relu6", "Sigmoid", "ElementWiseAbs"])
def test_what_is_never_below_zero_needs_no_clip(between: str) -> None:
    assert ops_of(network(0.05, 0, between)) == ["FullyConnected", between, "FullyConnected"]


def test_a_grid_with_negative_points_is_no_relu() -> None:
    assert "Relu" not in ops_of(network(0.05, -1))
    assert "Relu" in ops_of(network(0.05, 0, "Tanh"))


@pytest.mark.parametrize(
    ("scale", "behind", "clip"),
    [
        (0.05, "Relu", None),
        (0.05, "Relu6", None),
        (0.05, "Tanh", "Relu"),
        (0.05, "Sigmoid", "Relu"),  # never below zero, but another function without the clip
        (6 / 255, "Relu6", None),
        (6 / 255, "Relu", "Relu6"),
    ],
)
def test_what_is_clipped_behind_needs_no_clip(scale: float, behind: str, clip: str | None) -> None:
    graph, x = new_graph((1, 4))
    made = add(graph, "FullyConnected", [x, static(graph, "v", WEIGHTS[0])], name="a")
    output(add(graph, behind, [paired(graph, made, scale, 0)], name="y"))
    assert ops_of(graph) == ["FullyConnected", *([clip] if clip else []), behind]


def test_the_clip_has_the_encoding_of_what_it_cuts_off() -> None:
    graph = network(0.05, 0)
    made = dt.quantize(model_of(graph), SAMPLES).graphs["net"]
    (relu,) = [node for node in made.nodes if node.op_type == "Relu"]
    (before,), (after,) = relu.inputs, relu.outputs
    assert before is not None
    assert before.encoding == after.encoding == ScaleOffset(0.05)
    assert before.source == after.source == "a"


def test_an_output_of_the_graph_is_clipped_too() -> None:
    graph, x = new_graph((1, 4))
    made = add(graph, "FullyConnected", [x, static(graph, "v", WEIGHTS[0])], name="a")
    spec = Spec(DType.UFIXED_POINT_8, made.shape, ScaleOffset(0.05))
    stored = add(graph, "Quantize", [made], name="stored", spec=spec)
    output(add(graph, "Dequantize", [stored], name="y"))
    found = results(dt.quantize(model_of(graph), None, float_bitwidth=16))
    # 11 bits of what is at most 8
    np.testing.assert_allclose(found, np.maximum(SAMPLES[:, 0] @ WEIGHTS[0].T, 0), atol=0.01)


def pooled() -> Graph:
    """x (1, 2, 2, 4) -> PoolMax2d -> y: an op that only moves values."""
    graph, x = new_graph((1, 2, 2, 4))
    pads = [(0, 0), (0, 0)]
    output(
        add(graph, "PoolMax2d", [x], name="y", filter_size=[2, 2], stride=[1, 1], pad_amount=pads)
    )
    return graph


@pytest.mark.parametrize(
    "options", [{}, {"float_fallback": True}, {"float_bitwidth": 16}, {"act_bitwidth": 16}]
)
def test_what_is_fixed_point_already_stays(options: dict[str, Any]) -> None:
    samples = RNG.standard_normal((4, 1, 2, 2, 4)).astype(np.float32)
    once = dt.quantize(model_of(pooled()), samples)
    again = quantize_with_report(once, None, **options)
    specs = [
        {t.name: t.spec for t in model.graphs["net"].tensors.values()}
        for model in (once, again.model)
    ]
    assert specs[0] == specs[1]
    assert any("fixed-point already" in note for note in again.report.notes)


def test_algorithms_refuse_what_is_fixed_point_already() -> None:
    once = dt.quantize(model_of(dense(WEIGHTS[0], None)), SAMPLES)
    with pytest.raises(QuantizationError, match="fixed-point already"):
        dt.quantize(once, SAMPLES, algorithms=["bias-correction"])


def test_integers_are_pooled_without_an_encoding() -> None:
    graph, x = new_graph((1, 3), DType.INT_32)
    output(add(graph, "ReduceMax", [x], name="y", axes=[1], keep_dims=True))
    made = dt.quantize(model_of(graph), [np.array([[1, 2, 3]])])
    assert made.graphs["net"].tensor("y").dtype is DType.INT_32


def notes(graph: Graph, samples: Any, **options: Any) -> str:
    """All notes, one a line."""
    return "\n".join(quantize_with_report(model_of(graph), samples, **options).report.notes)


def test_options_without_effect_are_noted() -> None:
    graph = dense(WEIGHTS[0], None)
    assert "divides no axis" in notes(graph, SAMPLES, weights_block_size=3)
    assert "weights_block_size" not in notes(graph, SAMPLES, weights_block_size=2)
    steps = "-0x8000 0x7FFF"
    assert "restrict_quantization_steps had no" in notes(
        graph, SAMPLES, restrict_quantization_steps=steps
    )
    assert "restrict_quantization_steps" not in notes(
        graph, SAMPLES, restrict_quantization_steps=steps, act_bitwidth=16
    )
    assert "no encodings were given" in notes(graph, None, float_fallback=True)


def test_joined_tensors_of_unlike_ranges_are_noted() -> None:
    graph, x = new_graph((1, 4))
    factor = static(graph, "factor", np.full(1, 40, np.float32))
    large = add(graph, "ElementWiseMultiply", [x, factor], name="large")
    small = add(graph, "ElementWiseAbs", [x], name="small")
    joined = add(graph, "Concat", [large, small], name="joined", axis=1)
    output(add(graph, "ElementWiseNeg", [joined], name="y"))
    told = notes(graph, SAMPLES)
    assert "concat=requantize" in told
    assert "'small'" in told
    assert "requantize" not in notes(graph, SAMPLES, concat="requantize")
    assert "requantize" not in notes(graph, SAMPLES, act_bitwidth=16)  # steps enough


@pytest.mark.parametrize("between", ["Relu", None])
def test_nodes_that_quantize_are_kept_as_converts(between: str | None) -> None:
    given = network(0.05, 0 if between else -100, between)
    kept, removed = (
        dt.quantize(model_of(given), SAMPLES, keep_quant_nodes=keep) for keep in (True, False)
    )
    (convert,) = (n for n in kept.graphs["net"].nodes if n.op_type == "Convert")
    quantize = next(n for n in given.nodes if n.op_type == "Quantize")
    assert convert.name == quantize.name
    assert {t.encoding for t in (*convert.inputs, *convert.outputs)} == {
        quantize.outputs[0].encoding
    }
    assert "Convert" not in [n.op_type for n in removed.graphs["net"].nodes]
    np.testing.assert_array_equal(results(kept), results(removed))


def test_inputs_and_outputs_of_the_graph_keep_their_quantizing_nodes() -> None:
    graph, x = new_graph((1, 4))
    output(paired(graph, paired(graph, x, 0.05, -100), 0.1, -100))
    (made,) = dt.quantize(model_of(graph), keep_quant_nodes=True).graphs.values()
    names = [n.name for n in graph.nodes if n.op_type == "Quantize"]
    assert [(n.name, n.op_type) for n in made.nodes] == [(name, "Convert") for name in names]
    assert [t.name for t in (*made.inputs, *made.outputs)] == ["x", graph.outputs[0].name]


def flattened(graph: Graph, integers: Tensor) -> Tensor:
    spec = Spec(integers.dtype, (1, 6), integers.encoding)
    return add(graph, "Reshape", [integers], name="flat", spec=spec)


def turned(graph: Graph, integers: Tensor) -> Tensor:
    return add(graph, "Transpose", [integers], name="moved", perm=[1, 0])


def first_piece(graph: Graph, integers: Tensor) -> Tensor:
    pieces = add_all(graph, "Split", [integers], name="moved", axis=1, split_index=[2])
    spec = Spec(integers.dtype, (3, 1), integers.encoding)
    return add(graph, "Reshape", [pieces[1]], name="column", spec=spec)


@pytest.mark.parametrize("move", [turned, first_piece])
@pytest.mark.parametrize("offset", [-128, 0])
@pytest.mark.parametrize("options", [{}, {"algorithms": ["cle"]}, {"float_fallback": True}])
def test_moved_integers_of_several_outputs(move: Any, offset: int, options: dict[str, Any]) -> None:
    """Outputs a and b are the same moved integers, c and d others that are moved on or not."""
    graph, x = new_graph((3, 3) if move is first_piece else (2, 3))
    x = add(graph, "ElementWiseNeg", [x], name="negative")
    spec = Spec(DType.UFIXED_POINT_8, x.shape, ScaleOffset(0.1, offset))
    stored = add(graph, "Quantize", [x], name="stored", spec=spec)
    moved = move(graph, stored)
    ends = {"inner": stored, "a": moved, "b": moved, "d": stored}
    if move is turned:
        ends["c"] = flattened(graph, moved)
    for name, integers in ends.items():
        real = add(graph, "Dequantize", [integers], name=name)
        output(add(graph, "ElementWiseAbs", [real], name="y") if name == "inner" else real)
    sample = RNG.integers(-9, 9, x.shape).astype(np.float32) / np.float32(2)
    expected = run_of(model_of(graph), sample)
    samples = None if "float_fallback" in options else [sample]
    found = run_of(dt.quantize(model_of(graph), samples, **options), sample)
    assert found.keys() == expected.keys() == {"y", *ends} - {"inner"}
    for name, values in expected.items():
        # all samples are points of the grid, but y has one of its own
        np.testing.assert_allclose(found[name], values, atol=0.02, err_msg=name)


def run_of(model: Any, sample: Array) -> Any:
    with dt.Session(model) as session:
        return session.run({"x": sample})


# The second grid is narrower, coarser, or starts at 0. No point of one is in the middle of two of
# the next, because the quotients of their scales have odd denominators.
CHAINS = [
    [(0.027, -128), (0.011, -100)],
    [(0.011, -100), (0.069, -128)],
    [(0.027, -128), (0.011, 0)],
    [(0.027, 0), (0.011, -3)],
    [(0.027, 0), (0.011, 0)],
    [(0.027, -128), (0.011, -100), (0.027, -128)],
]
WAYS: list[dict[str, Any]] = [
    {},
    {"keep_quant_nodes": True},
    {"float_fallback": True},
    {"algorithms": ["cle"]},
]


@pytest.mark.parametrize("grids", CHAINS)
@pytest.mark.parametrize("options", WAYS)
def test_pairs_in_a_row_all_round_and_clip(
    grids: list[tuple[float, int]], options: dict[str, Any]
) -> None:
    graph, x = new_graph((1, 4))
    x = paired(graph, x, 0.02, -128)
    for scale, offset in grids:
        x = paired(graph, x, scale, offset)
    output(x)
    samples = None if "float_fallback" in options else SAMPLES
    found = outputs(dt.quantize(model_of(graph), samples, **options))
    for name, expected in outputs(model_of(graph)).items():
        # both are the same points of the grid, computed in float32
        np.testing.assert_allclose(found[name], expected, atol=1e-6)


@pytest.mark.parametrize(
    "grids",
    [
        [(0.02, -128), (0.011, -100)],
        [(0.011, -100), (0.02, -128)],
        [(0.02, -60), (0.02, -200)],  # neither spans the other
        [(0.02, 0), (0.011, -128)],  # one clips like a Relu
        [(0.02, 0), (0.011, 0)],
    ],
)
@pytest.mark.parametrize("options", WAYS)
def test_pairs_of_one_tensor_that_differ(
    grids: list[tuple[float, int]], options: dict[str, Any]
) -> None:
    graph, x = new_graph((1, 4))
    x = add(graph, "ElementWiseNeg", [x], name="negative")
    for scale, offset in grids:
        output(paired(graph, x, scale, offset))
    samples = None if "float_fallback" in options else SAMPLES
    found = outputs(dt.quantize(model_of(graph), samples, **options))
    for name, expected in outputs(model_of(graph)).items():
        # half a step of the encoding of the tensor, whose range is 5 to 7, and a step of the pair
        np.testing.assert_allclose(found[name], expected, atol=0.014 + 0.021)


def test_a_restored_clip_leaves_other_consumers_alone() -> None:
    graph, x = new_graph((1, 4))
    x = add(graph, "ElementWiseNeg", [x], name="negative")
    output(add(graph, "ElementWiseAbs", [paired(graph, x, 0.02, 0)], name="clipped"))
    output(add(graph, "ElementWiseAbs", [x], name="whole"))
    found = outputs(dt.quantize(model_of(graph), SAMPLES))
    for name, expected in outputs(model_of(graph)).items():
        # two steps of at most 0.02
        np.testing.assert_allclose(found[name], expected, atol=0.04)


def test_a_restored_clip_is_not_moved_to_where_others_read() -> None:
    """x -> Transpose -> pair from 0, and x -> other consumers."""
    graph, x = new_graph((1, 4))
    output(paired(graph, add(graph, "Transpose", [x], name="moved", perm=[1, 0]), 0.02, 0))
    output(paired(graph, add(graph, "ElementWiseNeg", [x], name="negative"), 0.02, -128))
    found = outputs(dt.quantize(model_of(graph), SAMPLES))
    for name, expected in outputs(model_of(graph)).items():
        # half a step of x, whose range is 5 to 7, and a step of the pair
        np.testing.assert_allclose(found[name], expected, atol=0.014 + 0.021)


def test_an_output_that_repeats_another_is_rounded_alone() -> None:
    """The pair clips at 1.3, the other output does not."""
    graph, x = new_graph((1, 4))
    x = output(add(graph, "ElementWiseNeg", [x], name="negative"))
    output(paired(graph, x, 0.01, -128))
    made = dt.quantize(model_of(graph), SAMPLES)
    assert [node.op_type for node in made.graphs["net"].nodes] == ["ElementWiseNeg", "Convert"]
    found = outputs(made)
    for name, expected in outputs(model_of(graph)).items():
        # half a step of both encodings; samples are below 3
        np.testing.assert_allclose(found[name], expected, atol=0.02)


@pytest.mark.parametrize("options", WAYS)
def test_outputs_of_the_same_integers(options: dict[str, Any]) -> None:
    graph, x = new_graph((1, 4))
    x = add(graph, "ElementWiseNeg", [paired(graph, x, 0.02, -128)], name="negative")
    spec = Spec(DType.UFIXED_POINT_8, x.shape, ScaleOffset(0.027, -100))
    stored = add(graph, "Quantize", [x], name="stored", spec=spec)
    for name in ("a", "b", "c"):
        real = add(graph, "Dequantize", [stored], name=name)
        output(add(graph, "ElementWiseAbs", [real], name="size") if name == "c" else real)
    samples = None if "float_fallback" in options else SAMPLES
    found = outputs(dt.quantize(model_of(graph), samples, **options))
    expected = outputs(model_of(graph))
    assert found.keys() == expected.keys() == {"a", "b", "size"}
    for name, values in expected.items():
        # all are points of the grid, but the sizes have one of their own
        np.testing.assert_allclose(found[name], values, atol=0.014 if name == "size" else 1e-6)


def test_no_convert_stays_if_encodings_are_ignored() -> None:
    graph, x = new_graph((1, 4))
    made = add(graph, "Tanh", [paired(graph, paired(graph, x, 0.02, -128), 0.01, -9)], name="y")
    output(made)
    assert [n.op_type for n in quantized(graph, SAMPLES, ignore_encodings=True).nodes] == ["Tanh"]


def test_scales_of_channels_are_ignored_too() -> None:
    graph, x = new_graph((1, 4))
    encoding = AxisScaleOffset(1, np.float32([0.1, 0.2, 0.3, 0.4]), np.int32([-128] * 4))
    spec = Spec(DType.UFIXED_POINT_8, (1, 4), encoding)
    stored = add(graph, "Quantize", [x], name="stored", spec=spec)
    output(add(graph, "Tanh", [add(graph, "Dequantize", [stored], name="real")], name="y"))
    assert [n.op_type for n in quantized(graph, SAMPLES, ignore_encodings=True).nodes] == ["Tanh"]


def outputs(model: Any) -> dict[str, Array]:
    """All outputs for all samples, each (16, 4)."""
    with dt.Session(model) as session:
        each = [session.run({"x": sample}) for sample in SAMPLES]
    return {name: np.concatenate([one[name] for one in each]) for name in each[0]}


def test_two_outputs_of_one_quantizing_node_that_is_kept() -> None:
    graph, x = new_graph((1, 4))
    x = add(graph, "ElementWiseNeg", [x], name="negative")
    spec = Spec(DType.UFIXED_POINT_8, x.shape, ScaleOffset(0.05, -128))
    stored = add(graph, "Quantize", [x], name="stored", spec=spec)
    for name in ("first", "second"):
        output(add(graph, "Dequantize", [stored], name=name))
    made = dt.quantize(model_of(graph), SAMPLES, keep_quant_nodes=True)
    found = outputs(made)
    for name, expected in outputs(model_of(graph)).items():
        # half a step of the input and one of the pair
        np.testing.assert_allclose(found[name], expected, atol=0.06, err_msg=name)
    converts = {node.name for node in made.graphs["net"].nodes if node.op_type == "Convert"}
    assert converts == {"stored", "stored_1"}


@pytest.mark.parametrize("offset", [0, -128])
def test_integers_of_the_application_leave_other_consumers_alone(offset: int) -> None:
    """Integers from 0 on are those of a Relu, which another consumer does not read."""
    graph, x = new_graph((1, 4))
    x = add(graph, "ElementWiseNeg", [x], name="negative")
    spec = Spec(DType.UFIXED_POINT_8, x.shape, ScaleOffset(0.05, offset))
    stored = add(graph, "Quantize", [x], name="stored", spec=spec)
    integers = add(graph, "Cast", [stored], name="integers", spec=Spec(DType.UINT_8, x.shape))
    output(integers)
    output(add(graph, "ElementWiseAbs", [x], name="whole"))
    found = outputs(dt.quantize(model_of(graph), SAMPLES))
    for name, expected in outputs(model_of(graph)).items():
        # a step of the integers, or two of the tensor
        atol = 1 if name == "integers" else 0.1
        np.testing.assert_allclose(found[name].astype(float), expected, atol=atol, err_msg=name)


@pytest.mark.parametrize("samples", [SAMPLES, None])
@pytest.mark.parametrize("offsets", [(0, -128), (-128, 0)])
def test_integers_of_the_application_with_another_grid_than_a_pair(
    offsets: tuple[int, int], samples: Array | None
) -> None:
    graph, x = new_graph((1, 4))
    output(paired(graph, x, 0.02, offsets[0]))
    spec = Spec(DType.UFIXED_POINT_8, x.shape, ScaleOffset(0.05, offsets[1]))
    stored = add(graph, "Quantize", [x], name="stored", spec=spec)
    output(add(graph, "Cast", [stored], name="integers", spec=Spec(DType.UINT_8, x.shape)))
    found = outputs(dt.quantize(model_of(graph), samples))
    for name, expected in outputs(model_of(graph)).items():
        # a step of the integers, or half a step of the wider grid and one of the pair
        atol = 1 if name == "integers" else 0.045
        np.testing.assert_allclose(found[name].astype(float), expected, atol=atol, err_msg=name)


def test_a_clip_that_is_restored_comes_before_a_kept_node() -> None:
    """What is before the clip has a grid of its own, also for another consumer."""
    graph, x = new_graph((1, 4))
    spec = Spec(DType.FLOAT_32, (2, 2))
    moved = add(graph, "Reshape", [x], name="moved", spec=spec)
    output(add(graph, "ElementWiseAbs", [paired(graph, moved, 0.02, 0)], name="clipped"))
    output(paired(graph, add(graph, "ElementWiseNeg", [x], name="n"), 0.05, -128))
    output(paired(graph, x, 0.03, -128))
    made = dt.quantize(model_of(graph), SAMPLES, keep_quant_nodes=True)
    found = outputs(made)
    for name, expected in outputs(model_of(graph)).items():
        # half a step of the input and two steps of other grids
        np.testing.assert_allclose(found[name], expected, atol=0.1, err_msg=name)
    (clip,) = (node for node in made.graphs["net"].nodes if node.op_type == "Relu")
    (reader,) = made.graphs["net"].consumers(clip.outputs[0])
    assert reader.op_type == "Convert"
