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
from dovetail_opset.build import add, add_all, static

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


def with_one_type(op_type: str, inputs: int, **params: Any) -> Graph:
    """Return a graph of an op whose inputs have the same type, then a FullyConnected."""
    graph, x = new_graph((1, 2, 2, 3))
    others = [static(graph, f"w{i}", np.ones(3, np.float32)) for i in range(1, inputs)]
    made = add(graph, op_type, [x, *others], name="one", **params)
    weight = static(graph, "w", np.ones((2, 12), np.float32))
    bias = static(graph, "b", np.ones(2, np.float32))
    output(add(graph, "FullyConnected", [made, weight, bias], name="y"))
    return graph


ONE_TYPE: dict[str, tuple[int, dict[str, Any]]] = {
    "InstanceNorm": (3, {}),
    "GroupNorm": (3, {"epsilon": 1e-5, "group": 3}),
    "RmsNorm": (3, {"axes": [3]}),
    "Prelu": (2, {}),
}


@pytest.mark.parametrize("op_type", ONE_TYPE)
def test_ops_of_one_type_keep_it(op_type: str) -> None:
    inputs, params = ONE_TYPE[op_type]
    options: dict[str, Any] = {
        "float_bitwidth": 16, "float_bias_bitwidth": 32, "keep_weights_quantized": True,
    }  # fmt: skip
    made = quantize_with_report(model_of(with_one_type(op_type, inputs, **params)), **options)
    graph = made.model.graphs["net"]
    assert {graph.tensor(f"w{i}").dtype for i in range(1, inputs)} == {DType.FLOAT_16}
    assert graph.tensor("w").dtype is DType.UFIXED_POINT_8
    assert graph.tensor("b").dtype is DType.FLOAT_32
    told = ["keep_weights_quantized", *["float_bias_bitwidth"] * (inputs == 3)]
    assert [note.split(" does not apply to ")[0] for note in made.report.notes] == told
    assert all(f"{op_type} node 'one'" in note for note in made.report.notes)
    with dt.Session(made.model) as session:
        session.run({"x": np.ones((1, 2, 2, 3), np.float16)})


@pytest.mark.parametrize(("op_type", "biases"), [("Lstm", 3), ("Gru", 6)])
@pytest.mark.parametrize("bits", [16, 32])
def test_recurrent_layers_keep_one_type(op_type: str, biases: int, bits: int) -> None:
    graph, x = new_graph((3, 1, 4))
    shapes = [*[(5, 4)] * 3, *[(5, 5)] * 3, *[(5,)] * biases]
    params = [
        static(graph, f"p{i}", RNG.standard_normal(s).astype(np.float32))
        for i, s in enumerate(shapes)
    ]
    output(add_all(graph, op_type, [x, *params], name="y")[0])
    made = quantize_with_report(
        model_of(graph), float_bitwidth=bits, float_bias_bitwidth=32, keep_weights_quantized=True
    )
    quantized = made.model.graphs["net"]
    assert {t.dtype for t in quantized.tensors.values()} == {DType[f"FLOAT_{bits}"]}
    told = ["keep_weights_quantized", *["float_bias_bitwidth"] * (bits == 16)]
    assert [note.split(" does not apply to ")[0] for note in made.report.notes] == told
