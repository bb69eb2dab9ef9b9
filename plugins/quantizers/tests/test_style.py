"""The SDK's style: figures of networks that the SDK's converter quantized, digit for digit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from quantizing import decisions, dense, encoding, model_of, new_graph, output, quantized

import dovetail as dt
from dovetail.errors import ConfigError
from dovetail.ir import AxisScaleOffset, DType, Graph, ScaleOffset
from dovetail.ops import to_real
from dovetail_opset.build import add, static

RNG = np.random.default_rng(31)
SAMPLES = RNG.standard_normal((4, 1, 4)).astype(np.float32)
SDK: dict[str, Any] = {"quantization_style": "sdk", "bias_bitwidth": 32}


def block(bias: list[float]) -> Graph:
    """x -> fc -> Tanh t -> StridedSlice part -> times -1e-9: y."""
    graph, x = new_graph((1, 4))
    weight = RNG.standard_normal((4, 4)).astype(np.float32)
    inputs = [x, static(graph, "w", weight), static(graph, "b", np.array(bias, np.float32))]
    made = add(graph, "FullyConnected", inputs, name="fc")
    curved = add(graph, "Tanh", [made], name="t")
    ranges = np.array([[0, 1, 1], [0, 2, 1]], np.int32)
    part = add(graph, "StridedSlice", [curved], name="part", ranges=ranges)
    zeros = static(graph, "zeros", np.zeros((1, 2), np.float32))
    output(add(graph, "ElementWiseMultiply", [part, zeros], name="y"))
    return graph


def test_figures_of_the_sdks_converter() -> None:
    made = quantized(block([0.5, -0.75, 0, 0.25]), SAMPLES, **SDK)
    tanh = encoding(made, "t")
    assert (tanh.scale, tanh.offset) == (0.007843137718737125, -128)
    assert tanh.offset * tanh.scale == -1.003921627998352
    assert made.tensor("part").encoding == tanh
    # all zero: [0, 1e-4]
    assert encoding(made, "y") == ScaleOffset(3.921568634268624e-07, 0)


def test_weights_of_one_tensor() -> None:
    values = np.array([[0.3, -0.8], [1.1, 0.2]], np.float32)
    made = quantized(dense(values, None), SAMPLES[:, :, :2], **SDK)
    scale = np.float32((float(values.max()) - float(values.min())) / 255)
    offset = round(float(values.min()) / float(scale))
    assert encoding(made, "w") == ScaleOffset(float(scale), offset)
    other = quantized(dense(np.abs(values), None), SAMPLES[:, :, :2], **SDK)  # zero is in the range
    assert encoding(other, "w") == ScaleOffset(float(np.float32(float(values.max()) / 255)), 0)


@pytest.mark.parametrize(
    ("bias", "scale"),
    [
        ([0.5, -0.75, 0, 0.25], float(np.float32(0.75 / 2147483647))),
        ([0.3, 0.1, 0.2, 0], float(np.float32(float(np.float32(0.3)) / 2147483647))),
        ([0, 0, 0, 0], 4.656612755441457e-14),  # +-1e-4
    ],
)
def test_a_bias_of_32_bits_has_a_scale_of_its_own(bias: list[float], scale: float) -> None:
    made = quantized(block(bias), SAMPLES, **SDK)
    assert made.tensor("b").dtype is DType.SFIXED_POINT_32
    assert encoding(made, "b") == ScaleOffset(scale, 0)
    # the nearest float32 may be too small for the maximum, which is then the last integer
    np.testing.assert_allclose(
        to_real(made.tensor("b").stored(), made.tensor("b").spec), bias, rtol=1e-7
    )


def test_our_own_style_uses_the_product_of_scales() -> None:
    made = quantized(block([0.5, -0.75, 0, 0.25]), SAMPLES, bias_bitwidth=32)
    product = np.float64(encoding(made, "x").scale) * encoding(made, "w").scale
    assert encoding(made, "b").scale == np.float32(product)


@pytest.mark.parametrize("schema", ["symmetric", "asymmetric"])
def test_weights_of_small_steps_leave_room_for_the_bias(schema: str) -> None:
    bias = np.array([3000, -2000, 0], np.float32)
    graph = dense(np.array([[1e-3, 2e-3], [0, -3e-3], [1e-3, 1e-3]], np.float32), bias)
    bits = {"act_bitwidth": 16, "weights_bitwidth": 16, "bias_bitwidth": 32}
    made = quantized(graph, SAMPLES[:, :, :2], param_quantizer_schema=schema, **bits)
    b = made.tensor("b")
    np.testing.assert_allclose(to_real(b.stored(), b.spec), bias, rtol=1e-4)


def test_only_a_relu_limits_the_range_of_its_input() -> None:
    samples = SAMPLES * 40  # far beyond where Tanh is flat
    graph = block([0, 0, 0, 0])
    assert encoding(quantized(graph, samples, **SDK), "fc").scale > 13 / 255
    assert encoding(quantized(graph, samples), "fc").scale <= np.float32(13 / 255)
    cut = dense(RNG.standard_normal((3, 4)).astype(np.float32), np.ones(3, np.float32))
    made = quantized(cut, SAMPLES, **SDK)
    assert encoding(made, "fc") == encoding(made, "y")
    made = quantized(cut, SAMPLES, disable_relu_squashing=True, **SDK)
    assert encoding(made, "fc") != encoding(made, "y")


def test_channels_of_zeros_and_their_bias() -> None:
    weight = np.array([[1.27, 0], [0, 0]], np.float32)
    made = quantized(
        dense(weight, np.array([0, 1], np.float32)),
        SAMPLES[:, :, :2],
        use_per_row_quantization=True,
        **SDK,
    )
    wanted = np.array([1.27 / 127, 1e-4 / 127], np.float32)
    assert made.tensor("w").encoding == AxisScaleOffset(0, wanted)
    assert encoding(made, "b") == ScaleOffset(float(np.float32(1 / 2147483647)), 0)


def test_the_network_computes_what_its_float_counterpart_does() -> None:
    graph = dense(RNG.standard_normal((3, 4)).astype(np.float32), np.ones(3, np.float32))
    made = dt.quantize(model_of(graph), SAMPLES, act_bitwidth=16, weights_bitwidth=16, **SDK)
    with dt.Session(model_of(graph)) as one, dt.Session(made) as other:
        for sample in SAMPLES:
            exact, near = (s.run({"x": sample})["y"] for s in (one, other))
            # 16 bits over a range of 10, and sums of 4 rounded products
            np.testing.assert_allclose(near, exact, atol=1e-3)


def test_an_unknown_style() -> None:
    with pytest.raises(ConfigError, match="invalid options") as caught:
        quantized(dense(np.ones((1, 2), np.float32), None), SAMPLES, quantization_style="qnn")
    assert caught.value.problems[0].hint == "expected dovetail, sdk"


def test_the_report_gives_the_reason() -> None:
    found = decisions(block([0.5, -0.75, 0, 0.25]), SAMPLES, **SDK)
    assert found["b"].why == "the values of the tensor"
