"""Cross-layer equalization: ranges become equal, the function stays, and what is left out."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quantizing import model_of, new_graph, output, quantized
from rewriting import assert_same_function, outputs, rewritten

from dovetail.api.quantization import quantize_with_report
from dovetail.errors import ConfigError, QuantizationError
from dovetail.ir import Array, DType, Graph, ScaleOffset, Spec, Tensor, TensorKind, dequantize
from dovetail_opset.build import add, static
from dovetail_quantizers.algorithms.cle import CrossLayerEqualization

RNG = np.random.default_rng(61)
SAMPLES = list(RNG.standard_normal((4, 1, 8, 8, 4)).astype(np.float32))
VECTORS = list(RNG.standard_normal((8, 1, 6)).astype(np.float32))


def drawn(*shape: int) -> Array:
    """Weights whose last axis spans six orders of magnitude."""
    scales = 10.0 ** RNG.uniform(-3, 3, shape[-1])
    return (RNG.standard_normal(shape) * scales).astype(np.float32)


def layer(
    graph: Graph, op_type: str, x: Tensor, name: str, weight: Array, made: int, **params: Any
) -> Tensor:
    """Add a layer `name` with weights `name.w` and a bias `name.b` of `made` channels."""
    bias = static(graph, f"{name}.b", RNG.standard_normal(made).astype(np.float32))
    return add(graph, op_type, [x, static(graph, f"{name}.w", weight), bias], name=name, **params)


def relu(graph: Graph, x: Tensor) -> Tensor:
    return add(graph, "Relu", [x], name=f"{x.name}.relu")


def dense_pair(
    first: Array, bias: Array, second: Array, between: str = "Relu", rows: int = 1
) -> Graph:
    """x (rows, k) through FullyConnected `one`, an activation and FullyConnected `two`."""
    graph, x = new_graph((rows, first.shape[1]))
    inputs = [x, static(graph, "one.w", first), static(graph, "one.b", bias)]
    x = add(graph, "FullyConnected", inputs, name="one")
    x = add(graph, between, [x], name="act")
    output(add(graph, "FullyConnected", [x, static(graph, "two.w", second)], name="two"))
    return graph


def all_kinds() -> Graph:
    """x (1, 8, 8, 4) through every kind of layer, and all that may be between them."""
    graph, x = new_graph((1, 8, 8, 4))
    window = {"stride": [1, 1], "pad_amount": [[1, 1], [1, 1]]}
    pool = {"filter_size": [2, 2], "stride": [2, 2], "pad_amount": [[0, 0], [0, 0]]}
    x = relu(graph, layer(graph, "Conv2d", x, "grouped", drawn(3, 3, 2, 6), 6, group=2, **window))
    deep = drawn(3, 3, 1, 12)
    x = relu(graph, layer(graph, "DepthWiseConv2d", x, "deep", deep, 12, **window))
    x = add(graph, "PoolMax2d", [x], name="max", **pool)
    up = {"stride": [2, 2], "pad_amount": [[0, 0], [0, 0]], "group": 3}
    x = relu(graph, layer(graph, "TransposeConv2d", x, "up", drawn(2, 2, 12, 2), 6, **up))
    x = layer(graph, "Conv2d", x, "plain", drawn(3, 3, 6, 5), 5, **window)
    x = relu(graph, add(graph, "PoolAvg2d", [x], name="avg", **pool))
    x = layer(graph, "FullyConnected", x, "flat", drawn(7, 80), 7)
    x = relu(graph, x)
    x = layer(graph, "MatMul", x, "turned", drawn(6, 7), 6, transpose_in1=True)
    x = add(graph, "Transpose", [relu(graph, x)], name="swapped", perm=[1, 0])
    x = layer(graph, "MatMul", x, "last", drawn(6, 3), 3, transpose_in0=True)
    output(x)
    return graph


def ranges(graph: Graph, name: str) -> tuple[Array, Array]:
    """The greatest weights of a layer of `all_kinds`, by output and by input channel."""
    weight = np.abs(graph.tensor(f"{name}.w").values().astype(np.float64))
    if name == "grouped":  # channels 0 and 1 make 0, 1, 2; channels 2 and 3 the others
        taken = [weight[:, :, i % 2, 3 * (i // 2) : 3 * (i // 2) + 3].max() for i in range(4)]
    elif name == "deep":  # channel i makes 2 i and 2 i + 1
        taken = [weight[..., 2 * i : 2 * i + 2].max() for i in range(6)]
    elif name == "up":  # four channels of each group make two
        taken = [weight[:, :, i].max() for i in range(12)]
        made = [weight[:, :, 4 * (i // 2) : 4 * (i // 2) + 4, i % 2].max() for i in range(6)]
        return np.array(made), np.array(taken)
    elif name == "flat":  # five channels at each of 16 places
        return weight.max(axis=1), np.array([weight[:, i::5].max() for i in range(5)])
    elif name == "turned":
        return weight.max(axis=1), weight.max(axis=0)
    elif name == "plain":
        taken = [weight[:, :, i].max() for i in range(6)]
    else:
        return weight.max(axis=0), weight.max(axis=1)
    made = [weight[..., i].max() for i in range(weight.shape[-1])]
    return np.array(made), np.array(taken)


NAMES = ["grouped", "deep", "up", "plain", "flat", "turned", "last"]


def test_ranges_of_neighbors_become_equal_and_the_function_stays() -> None:
    graph = all_kinds()
    # a bias counts as a share of a weight, which this is not about
    for name in NAMES:
        bias = graph.tensor(f"{name}.b")
        bias.data = Tensor.static("b", np.zeros(bias.shape, np.float32)).data
    made, notes = rewritten(graph, SAMPLES, CrossLayerEqualization())
    for first, second in itertools.pairwise(NAMES):
        before = ranges(graph, first)[0] / ranges(graph, second)[1]
        assert max(before.max(), 1 / before.min()) > 10, first
        # a round that moves ranges by 0.5 % at most is the last
        np.testing.assert_allclose(ranges(made, first)[0], ranges(made, second)[1], rtol=0.02)
        assert any(f"'{first}' -> " in n and f"'{second}'" in n for n in notes)
    assert_same_function(graph, made, SAMPLES)
    assert not any("still changed" in note for note in notes)


def test_biases_go_with_their_channels() -> None:
    graph = all_kinds()
    made, _ = rewritten(graph, SAMPLES, CrossLayerEqualization(absorb_biases=False))
    assert_same_function(graph, made, SAMPLES)
    assert not np.allclose(graph.tensor("plain.b").values(), made.tensor("plain.b").values())


def test_rounds_that_do_not_suffice_are_told() -> None:
    _, notes = rewritten(all_kinds(), SAMPLES, CrossLayerEqualization(rounds=1))
    assert any("still changed" in note and "round 1" in note for note in notes)


def test_channels_of_zeros_are_scaled_only_as_the_layer_is() -> None:
    first, second = drawn(5, 6), drawn(3, 5)
    first[1], second[:, 3] = 0, 0
    graph = dense_pair(first, np.zeros(5, np.float32), second)
    made, _ = rewritten(graph, VECTORS, CrossLayerEqualization())
    growth = made.tensor("two.w").values()[:, 1] / second[:, 1]
    np.testing.assert_allclose(growth, growth[0], rtol=1e-6)
    np.testing.assert_allclose(made.tensor("one.w").values()[3] * growth[0], first[3], rtol=1e-6)
    assert_same_function(graph, made, VECTORS)


def test_hardly_any_weights_do_not_blow_a_bias_up() -> None:
    first, second = np.ones((2, 6), np.float32), np.ones((3, 2), np.float32)
    first[0] *= 1e-12  # what folding leaves of a channel that is switched off
    graph = dense_pair(first, np.array([-0.5, -0.5], np.float32), second)
    made, _ = rewritten(graph, VECTORS, CrossLayerEqualization())
    # equal ranges of weights alone would make it 5e5
    assert np.abs(made.tensor("one.b").values()).max() < 10


def test_high_biases_are_absorbed_by_what_no_sample_falls_below() -> None:
    first = RNG.uniform(-1, 1, (4, 6)).astype(np.float32)
    second = RNG.uniform(-1, 1, (3, 4)).astype(np.float32)
    bias = np.array([100, 0, 50, -100], np.float32)
    graph = dense_pair(first, bias, second, rows=300)
    samples = list(RNG.standard_normal((4, 300, 6)).astype(np.float32))
    made, notes = rewritten(graph, samples, CrossLayerEqualization())
    assert any("2 high biases moved" in note for note in notes)
    assert_same_function(graph, made, samples)

    rows = np.concatenate(samples).astype(np.float64) @ first.astype(np.float64).T + bias
    low = np.minimum(rows.mean(axis=0) - 3 * rows.std(axis=0), rows.min(axis=0))
    factors = first[:, 0] / made.tensor("one.w").values()[:, 0]
    wanted = (bias - np.maximum(low, 0)) / factors
    # float32 sums near 100 in the statistics
    np.testing.assert_allclose(made.tensor("one.b").values(), wanted, atol=1e-4)
    added = made.node("two").inputs[2]
    assert added is not None
    shift = second.astype(np.float64) @ np.maximum(low, 0)
    np.testing.assert_allclose(added.values(), shift, rtol=1e-5)

    # 900 values of a channel say too little of those to come
    _, notes = rewritten(graph, samples[:3], CrossLayerEqualization())
    assert not any("biases moved" in note for note in notes)


@pytest.mark.parametrize("padding", [0, 1])
def test_high_biases_are_absorbed_where_nothing_pads(padding: int) -> None:
    graph, x = new_graph((1, 8, 8, 4))
    still = {"stride": [1, 1], "pad_amount": [[0, 0], [0, 0]]}
    padded = {"stride": [1, 1], "pad_amount": [[padding, 0], [0, 0]]}
    first = RNG.standard_normal((1, 1, 4, 6)).astype(np.float32)
    second = RNG.standard_normal((3, 3, 2, 8)).astype(np.float32)
    high = static(graph, "one.b", np.full(6, 40, np.float32))
    x = add(graph, "Conv2d", [x, static(graph, "one.w", first), high], name="one", **still)
    x = add(graph, "PoolMax2d", [relu(graph, x)], name="max", filter_size=[2, 2], **still)
    output(layer(graph, "Conv2d", x, "two", second[:, :, :, :6], 6, group=3, **padded))
    samples = list(RNG.standard_normal((20, 1, 8, 8, 4)).astype(np.float32))
    made, notes = rewritten(graph, samples, CrossLayerEqualization())
    assert any("biases moved" in note for note in notes) is (padding == 0)
    assert_same_function(graph, made, samples)


@pytest.mark.parametrize("spelling", ["Relu6", "ReluMinMax", "ElementWiseNeuron"])
def test_relu6_becomes_relu_and_what_it_cut_off_is_told(spelling: str) -> None:
    params: dict[str, Any] = {"min_value": 0.0, "max_value": 6.0} if spelling != "Relu6" else {}
    if spelling == "ElementWiseNeuron":
        params["operation"] = 5
    graph, x = new_graph((1, 6))
    x = layer(graph, "FullyConnected", x, "one", np.eye(6, dtype=np.float32), 6)
    zero = graph.tensor("one.b")
    zero.data = Tensor.static("b", np.zeros(6, np.float32)).data
    x = add(graph, spelling, [x], name="cut", **params)
    output(layer(graph, "FullyConnected", x, "two", drawn(3, 6), 3))

    low = [np.full((1, 6), v, np.float32) for v in (-1, 5)]
    made, notes = rewritten(graph, low, CrossLayerEqualization())
    assert made.node("cut").op_type == "Relu"
    assert any(
        "'cut' was replaced by Relu; the Relu6 clipped nothing (at most 5)" in n for n in notes
    )
    assert_same_function(graph, made, low)

    _, notes = rewritten(graph, [np.full((1, 6), 8, np.float32)], CrossLayerEqualization())
    assert any(
        "'cut' was replaced by Relu; the Relu6 clipped up to 2 in the samples" in n for n in notes
    )

    made, notes = rewritten(graph, low, CrossLayerEqualization(replace_relu6=False))
    assert made.node("cut").op_type == spelling
    assert "no two layers could be equalized" in notes


def test_other_clips_end_a_chain() -> None:
    graph, x = new_graph((1, 6))
    x = layer(graph, "FullyConnected", x, "one", drawn(6, 6), 6)
    x = add(graph, "ReluMinMax", [x], name="cut", min_value=-1.0, max_value=6.0)
    output(layer(graph, "FullyConnected", x, "two", drawn(3, 6), 3))
    made, notes = rewritten(graph, VECTORS, CrossLayerEqualization())
    assert "FullyConnected 'one' is unchanged: ReluMinMax 'cut' does not pass on" in notes[0]
    np.testing.assert_array_equal(outputs(made, VECTORS), outputs(graph, VECTORS))


def test_layers_left_alone_for_like_reasons_have_one_note() -> None:
    graph, made = new_graph((1, 6))
    for i in range(9):
        weight = static(graph, f"w{i}", drawn(6, 6))
        made = add(graph, "FullyConnected", [made, weight], name=f"layer{i}")
        made = add(graph, "Sigmoid", [made], name=f"act{i}")
    output(made)
    notes = quantize_with_report(
        model_of(graph), [drawn(1, 6)], algorithms=["cle"], skip_algorithm_check=True
    ).report.notes
    (note,) = [note for note in notes if "is unchanged" in note]
    assert "'layer0' is unchanged: Sigmoid 'act0' does not pass on" in note
    assert "; so are 8 more for such a reason, as FullyConnected 'layer1'" in note


def unchanged(graph: Graph, reason: str) -> None:
    """Check that nothing is equalized, and that the notes say why."""
    before = {t.name: t.data for t in graph.tensors.values()}
    made, notes = rewritten(graph, VECTORS, CrossLayerEqualization())
    assert any("'one' is unchanged" in note and reason in note for note in notes), notes
    assert {t.name: t.data for t in made.tensors.values()} == before


def test_other_activations_end_a_chain() -> None:
    unchanged(dense_pair(drawn(5, 6), drawn(5), drawn(3, 5), between="Sigmoid"), "Sigmoid 'act'")


def test_two_readers_end_a_chain() -> None:
    graph = dense_pair(drawn(6, 6), drawn(6), drawn(6, 6))
    two, act = graph.tensor("two"), graph.tensor("act")
    two.kind = TensorKind.NATIVE
    output(add(graph, "ElementWiseAdd", [two, act], name="sum"))
    unchanged(graph, "2 nodes read 'act'")


def test_what_the_application_reads_ends_a_chain() -> None:
    graph = dense_pair(drawn(5, 6), drawn(5), drawn(3, 5))
    output(graph.tensor("one"))
    unchanged(graph, "'one' is an output of the graph")


def test_shared_weights_are_left() -> None:
    graph, x = new_graph((1, 6))
    shared = static(graph, "w", drawn(6, 6))
    for name in ("one", "two"):
        x = relu(graph, add(graph, "FullyConnected", [x, shared], name=name))
    output(x)
    unchanged(graph, "other nodes share the weights 'w'")


def test_what_is_quantized_already_is_left() -> None:
    graph, x = new_graph((1, 6))
    x = layer(graph, "FullyConnected", x, "one", drawn(6, 6), 6)
    spec = Spec(DType.UFIXED_POINT_8, x.shape, ScaleOffset(0.5, -128))
    x = add(graph, "Dequantize", [add(graph, "Quantize", [x], name="q", spec=spec)], name="dq")
    output(layer(graph, "FullyConnected", x, "two", drawn(3, 6), 3))
    unchanged(graph, "Quantize 'q' does not pass on")


def test_fixed_point_layers_are_left() -> None:
    graph, x = new_graph((1, 6))
    graph.remove_tensor(x)
    eight = ScaleOffset(0.5, -128)
    x = Tensor("x", DType.UFIXED_POINT_8, (1, 6), TensorKind.APP_WRITE, encoding=eight)
    graph.add_tensor(x)
    weight = np.full((6, 6), 130, np.uint8)
    for name in ("one", "two"):
        stored = static(graph, f"{name}.w", weight, DType.UFIXED_POINT_8, encoding=eight)
        spec = Spec(DType.UFIXED_POINT_8, (1, 6), eight)
        x = add(graph, "FullyConnected", [x, stored], name=name, spec=spec)
    output(x)
    unchanged(graph, "'one' is UFIXED_POINT_8, not FLOAT_32")


def test_a_bias_that_others_read_is_not_changed_for_them() -> None:
    graph, x = new_graph((1, 6))
    shared = static(graph, "b", RNG.standard_normal(6).astype(np.float32))
    for name in ("one", "two", "three"):
        weight = static(graph, f"{name}.w", drawn(6, 6).T)
        x = add(graph, "FullyConnected", [x, weight, shared], name=name)
        x = x if name == "three" else relu(graph, x)
    output(x)
    made, _ = rewritten(graph, VECTORS, CrossLayerEqualization())
    assert_same_function(graph, made, VECTORS)
    biases = [made.node(name).inputs[2] for name in ("one", "two", "three")]
    assert len({id(b) for b in biases}) == 3
    assert {b.source for b in biases if b is not None} == {"b"}


def test_layers_of_no_channels_are_left() -> None:
    graph, x = new_graph((1, 6))
    x = add(graph, "FullyConnected", [x, static(graph, "w", np.zeros((0, 6)).astype(np.float32))],
            name="one")  # fmt: skip
    output(relu(graph, x))
    _, notes = rewritten(graph, VECTORS, CrossLayerEqualization(absorb_biases=False))
    assert notes[0] == "FullyConnected 'one' is unchanged: the layer has no output channels"


def test_values_that_are_not_finite_are_left_for_calibration_to_name() -> None:
    graph = dense_pair(drawn(5, 6), drawn(5), drawn(3, 5))
    graph.tensor("one.w").data = Tensor.static("w", np.full((5, 6), 1e30, np.float32)).data
    sample = np.full((1, 6), 1e30, np.float32)
    with pytest.raises(QuantizationError) as caught:
        quantized(graph, [sample], algorithms=["cle"])
    assert caught.value.code == "CALIBRATION_NOT_FINITE"


def test_infinities_in_samples_are_an_error_without_warnings() -> None:
    graph = dense_pair(drawn(16, 6), np.full(16, 9, np.float32), drawn(3, 16), rows=2)
    x = np.vstack(VECTORS[:2])
    x[:, 0] = np.inf, -np.inf  # the sum of a channel is NaN
    with pytest.raises(QuantizationError) as caught:
        quantized(graph, [x], algorithms=["cle"])
    assert caught.value.code == "CALIBRATION_NOT_FINITE"


def test_quantizing_calls_it_by_name_and_gains_by_it() -> None:
    scales = (2.0 ** np.arange(-8, 8)).astype(np.float32)
    first = RNG.standard_normal((16, 6)).astype(np.float32) * scales[:, None]
    second = RNG.standard_normal((3, 16)).astype(np.float32) / scales
    graph = dense_pair(first, np.zeros(16, np.float32), second)
    wanted = outputs(graph, VECTORS)
    noise = []
    for algorithms in ([], ["cle"]):
        found = quantize_with_report(model_of(graph), VECTORS, algorithms=algorithms)
        assert any("cle: FullyConnected" in n for n in found.report.notes) is bool(algorithms)
        noise.append(np.square(outputs(found.model.graphs["net"], VECTORS) - wanted).sum())
    assert noise[1] < noise[0] / 100


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rounds": 0}, "expected 1 to"),
        ({"rounds": 2.5}, "not of type int"),
        ({"rounds": True}, "not of type int"),
        ({"tolerance": float("nan")}, "expected 0 to 1"),
        ({"replace_relu6": 1}, "not of type bool"),
        ({"deviations": -1}, "expected 0 to"),
    ],
)
def test_parameters_are_checked(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        CrossLayerEqualization(**given)
    (problem,) = caught.value.problems
    assert said in str(problem)
    assert next(iter(given)) in str(problem)


def test_users_give_parameters_by_name() -> None:
    graph = all_kinds()
    told = {"rounds": "1", "absorb_biases": "false"}  # text, as on the command line
    found = quantize_with_report(
        model_of(graph), SAMPLES, algorithms=["cle"], algorithm_params={"cle": told}
    )
    assert any("in round 1" in note for note in found.report.notes)


def test_all_wrong_parameters_are_named() -> None:
    with pytest.raises(ConfigError) as caught:
        CrossLayerEqualization(rounds=0, tolerance=2)
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize("name", ["one.w", "one", "act"])
def test_layers_with_given_encodings_stay(tmp_path: Path, name: str) -> None:
    first, second = drawn(6, 5).T.copy(), drawn(3, 5)
    graph = dense_pair(first, np.ones(5, np.float32), second)
    entry = [{"bitwidth": 8, "dtype": "int", "min": -900.0, "max": 900.0}]
    kind = "param_encodings" if name.endswith(".w") else "activation_encodings"
    sections = {"activation_encodings": {}, "param_encodings": {}} | {kind: {name: entry}}
    file = tmp_path / "given.json"
    file.write_text(json.dumps(sections))
    found = quantize_with_report(
        model_of(graph), VECTORS, algorithms=["cle"], quantization_overrides=str(file)
    )
    assert any("an encoding is given for" in note for note in found.report.notes)
    weight = next(iter(found.model.graphs.values())).tensor("two.w")
    stored = dequantize(weight.stored(), weight.encoding)
    # what was rewritten would differ by orders of magnitude, not by half a step
    step = weight.encoding.scale
    np.testing.assert_allclose(stored, second, atol=0.51 * step)
