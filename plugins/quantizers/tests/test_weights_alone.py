"""Weights of nodes that stay float, and computed weights of 16 bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quantizing import dense, encoding, model_of, new_graph, output, quantized

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.ir import AxisScaleOffset, DType, Graph, ScaleOffset
from dovetail_opset.build import add

RNG = np.random.default_rng(41)
WEIGHT = RNG.standard_normal((3, 4)).astype(np.float32)


def layer() -> Graph:
    return dense(WEIGHT, np.ones(3, np.float32))


@pytest.mark.parametrize("bits", [16, 32])
def test_only_weights(bits: int) -> None:
    model = dt.quantize(
        model_of(layer()),
        float_bitwidth=bits,
        keep_weights_quantized=True,
        use_per_row_quantization=True,
    )
    graph = model.graphs["net"]
    float_type = {16: DType.FLOAT_16, 32: DType.FLOAT_32}[bits]
    assert {graph.tensor(n).dtype for n in ("x", "b", "fc", "y")} == {float_type}
    scales = np.abs(WEIGHT).max(axis=1) / np.float32(127)
    assert graph.tensor("w").encoding == AxisScaleOffset(0, scales)
    rounded = np.clip(np.rint(WEIGHT / scales[:, None]), -128, 127) * scales[:, None]
    x = RNG.standard_normal((1, 4)).astype(np.float32)
    with dt.Session(model) as session:
        found = session.run({"x": x})["y"]
    # halves have 11 bits
    tolerance = 1e-5 if bits == 32 else 1e-2
    np.testing.assert_allclose(found, np.maximum(x @ rounded.T + 1, 0), atol=tolerance)


def test_weights_keep_given_encodings_in_nodes_of_the_fallback(tmp_path: Path) -> None:
    path = tmp_path / "given.json"
    given = {"w": {"bitwidth": 8, "scale": 0.02, "offset": -128}}
    path.write_text(json.dumps({"activation_encodings": {}, "param_encodings": given}))
    options: dict[str, Any] = {"quantization_overrides": path, "float_fallback": True}
    made = quantized(layer(), None, **options)
    assert made.tensor("w").dtype is DType.FLOAT_32
    made = quantized(layer(), None, keep_weights_quantized=True, **options)
    assert encoding(made, "w") == ScaleOffset(float(np.float32(0.02)), -128)
    assert made.tensor("fc").dtype is made.tensor("b").dtype is DType.FLOAT_32


def test_four_bits_in_half_a_byte() -> None:
    made = quantized(
        layer(), None, keep_weights_quantized=True, weights_bitwidth=4, pack_4_bit_weights=True
    )
    assert made.tensor("w").dtype is DType.UFIXED_POINT_4
    assert made.tensor("y").dtype is DType.FLOAT_32


def products() -> Graph:
    """a = -x and x in a MatMul: both are computed."""
    graph, x = new_graph((4, 4))
    other = add(graph, "ElementWiseNeg", [x], name="a")
    output(add(graph, "MatMul", [x, other], name="y"))
    return graph


def test_a_computed_weight_of_16_bits() -> None:
    samples = RNG.standard_normal((4, 4, 4)).astype(np.float32)
    made = quantized(products(), samples, act_bitwidth=16, use_dynamic_16_bit_weights=True)
    node = next(n for n in made.nodes if n.op_type == "MatMul")
    left, right = (t for t in node.inputs if t is not None)
    assert left.dtype is DType.UFIXED_POINT_16
    assert right.dtype is DType.SFIXED_POINT_16
    most = np.abs(samples).max()
    assert right.encoding == ScaleOffset(float(np.float32(most / 32767)))
    plain = quantized(products(), samples, act_bitwidth=16)
    assert [n.op_type for n in plain.nodes] == ["ElementWiseNeg", "MatMul"]


def test_steps_of_a_computed_weight() -> None:
    samples = RNG.standard_normal((4, 4, 4)).astype(np.float32)
    made = quantized(
        products(),
        samples,
        act_bitwidth=16,
        use_dynamic_16_bit_weights=True,
        restrict_quantization_steps="-0x8000 0x7F7F",
    )
    node = next(n for n in made.nodes if n.op_type == "MatMul")
    right = node.inputs[1]
    assert right is not None
    assert right.encoding == ScaleOffset(float(np.float32(np.abs(samples).max() / 0x7F7F)))


def test_without_computed_weights_there_is_a_note() -> None:
    made = quantize_with_report(
        model_of(layer()), np.ones((1, 1, 4), np.float32), use_dynamic_16_bit_weights=True
    )
    (note,) = [n for n in made.report.notes if "use_dynamic_16_bit_weights" in n]
    assert "had no effect" in note
