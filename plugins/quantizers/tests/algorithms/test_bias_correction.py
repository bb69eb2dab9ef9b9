"""Bias correction: mean errors go, in this layer and in what reads it."""

from __future__ import annotations

import numpy as np
import pytest
from quantizing import dense, encoding, model_of, new_graph, output, quantized

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.errors import ConfigError
from dovetail.ir import Array, Graph
from dovetail_opset.build import add, static

RNG = np.random.default_rng(5)
SAMPLES = RNG.uniform(0, 1, (24, 1, 16)).astype(np.float32)
# Rounded to 4 bits on a grid of steps of 1, every weight loses its 0.4 but the last.
PLANTED = np.full((3, 16), 0.4, np.float32)
PLANTED[:, -1] = 7
FOUR_BITS = {"weights_bitwidth": 4, "param_quantizer_schema": "symmetric", "bias_bitwidth": 32}


def mean_error(graph: Graph, made: Graph, name: str) -> Array:
    """What the quantized network's results have less, on the mean over the samples."""
    with dt.Session(model_of(graph)) as exact, dt.Session(model_of(made)) as near:
        pairs = [(exact.run({"x": s})[name], near.run({"x": s})[name]) for s in SAMPLES]
    errors = [(a - b).reshape(-1, a.shape[-1]).mean(axis=0) for a, b in pairs]
    return np.asarray(np.mean(errors, axis=0))


@pytest.mark.parametrize("bias", [True, False])
def test_a_planted_mean_error_goes(bias: bool) -> None:
    graph = dense(PLANTED, np.ones(3, np.float32) if bias else None, relu=False)
    plain = quantized(graph, list(SAMPLES), **FOUR_BITS)
    lost = 0.4 * SAMPLES[..., :-1].sum(axis=-1).mean()
    np.testing.assert_allclose(mean_error(graph, plain, "fc"), lost, rtol=0.05)
    made = quantized(graph, list(SAMPLES), algorithms=["bias-correction"], **FOUR_BITS)
    # each result is rounded to a step; their mean over 24 samples lies closer than half of one
    assert np.abs(mean_error(graph, made, "fc")).max() < encoding(made, "fc").scale / 2


def test_a_later_layer_makes_up_for_what_its_inputs_lost() -> None:
    graph, made = new_graph((1, 16))
    for name in "ab":
        weight = static(graph, f"w{name}", np.tile(PLANTED[:1], (16, 1)))
        made = add(graph, "FullyConnected", [made, weight], name=f"fc{name}")
        made = add(graph, "Relu", [made], name=name)
    output(made)
    result = quantized(graph, list(SAMPLES), algorithms=["bias-correction"], **FOUR_BITS)
    assert np.abs(mean_error(graph, result, "b")).max() < encoding(result, "b").scale / 2


def test_convolutions_are_corrected_by_output_channel() -> None:
    graph, x = new_graph((1, 4, 4, 1))
    weight = np.zeros((3, 3, 1, 2), np.float32)
    weight[..., 0], weight[1, 1, 0, 1] = 0.4, 7
    pads = [[1, 1], [1, 1]]
    filters = static(graph, "w", weight)
    made = add(graph, "Conv2d", [x, filters], name="conv", stride=[1, 1], pad_amount=pads)
    output(made)
    samples = list(SAMPLES.reshape(-1, 1, 4, 4, 1))
    report = quantize_with_report(
        model_of(graph), samples, algorithms=["bias-correction"], **FOUR_BITS
    )
    note, verdict = report.report.notes
    assert "kept" in verdict
    assert "bias added" in note
    (node,) = report.model.graphs["net"].nodes
    assert node.inputs[2] is not None
    first, second = node.inputs[2].encoding, node.inputs[2].stored()
    added = second * first.scale  # type: ignore[union-attr]
    # 0.4 of 9 pixels of 0.5 on the mean, less where the padding is; the other channel fits
    assert 0.8 < added[0] < 1.8
    assert abs(added[1]) < 0.01


def test_the_bias_that_is_stored_is_what_is_corrected() -> None:
    # 8 bits of a range of its own: the bias itself is rounded by up to 0.1 of these
    bias = np.array([-20, 0.09, 20], np.float32)
    graph = dense(PLANTED, bias, relu=False)
    options = FOUR_BITS | {"bias_bitwidth": 8}
    made = quantized(graph, list(SAMPLES), algorithms=["bias-correction"], **options)
    (node,) = made.nodes
    step = node.inputs[2].encoding.scale  # type: ignore[union-attr]
    left = step / 2 + encoding(made, "fc").scale / 2
    assert np.abs(mean_error(graph, made, "fc")).max() < left


def test_parameters_are_checked() -> None:
    graph = dense(PLANTED, None)
    for wrong in ({"samples": 0}, {"sample": 3}, {"samples": "many"}):
        with pytest.raises(ConfigError, match="invalid parameters"):
            quantized(
                graph,
                list(SAMPLES),
                algorithms=["bias-correction"],
                algorithm_params={"bias-correction": wrong},
            )
    with pytest.raises(ConfigError, match="contradict"):
        quantized(graph, list(SAMPLES), algorithm_params={"bias-correction": {"samples": 3}})
