"""Quantized graphs as ONNX with Q/DQ: what is stored how, and what ONNX Runtime makes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from exported import export, feeds_of, run, stored_outputs
from onnx import ModelProto, TensorProto, numpy_helper
from reference_values import run_node

from dovetail.ir import (
    Array,
    AxisScaleOffset,
    Block,
    BlockwiseExpansion,
    DType,
    Encoding,
    Graph,
    Node,
    ScaleOffset,
    Shape,
    Tensor,
    TensorKind,
    dequantize,
    quantize,
)
from dovetail.ops import OpRegistry, find_op_faults
from dovetail_onnx import OnnxFrontend
from dovetail_onnx.exporter import OnnxExportOptions, OnnxQdqExporter
from dovetail_opset import PACKAGE
from dovetail_opset.build import add, static

U8, U16 = DType.UFIXED_POINT_8, DType.UFIXED_POINT_16
S4, S8, S16, S32 = (
    DType.SFIXED_POINT_4,
    DType.SFIXED_POINT_8,
    DType.SFIXED_POINT_16,
    DType.SFIXED_POINT_32,
)
Evaluate = Callable[..., dict[str, Array]]
STEPS: dict[str, Any] = {"stride": (1, 1), "pad_amount": [[1, 1], [1, 1]]}


def made(name: str, dtype: DType, shape: Shape, encoding: Encoding, kind: str = "NATIVE") -> Tensor:
    return Tensor(name, dtype, shape, TensorKind[kind], encoding=encoding)


def integers(rng: np.random.Generator, low: int, high: int, *shape: int) -> Array:
    return rng.integers(low, high, shape).astype(np.int32)


def network(rng: np.random.Generator) -> Graph:
    """A network of the user's (1, 3, 8, 8) images in which every kind of encoding takes part."""
    graph = Graph("network")
    scales = rng.uniform(0.01, 0.03, 4).astype(np.float32)
    fine = ScaleOffset(0.0005)
    coarse = ScaleOffset(0.04, -100)
    image = graph.add_tensor(made("x", U8, (1, 3, 8, 8), ScaleOffset(0.02, -128), "APP_WRITE"))
    x = add(graph, "Transpose", [image], name="last", perm=(0, 2, 3, 1))
    weight = static(
        graph, "w", integers(rng, -127, 128, 3, 3, 3, 4), S8, encoding=AxisScaleOffset(3, scales)
    )
    by_channel = AxisScaleOffset(0, scales * np.float32(0.02))
    bias = static(graph, "b", integers(rng, -900, 900, 4), S32, encoding=by_channel)
    y = made("y", U8, (1, 8, 8, 4), ScaleOffset(0.05, -120))
    x = add(graph, "Conv2d", [x, weight, bias], name="conv", outputs=y, **STEPS)
    x = add(graph, "Relu", [x], name="relu", outputs=made("r", U8, y.shape, ScaleOffset(0.025)))
    narrow = AxisScaleOffset(3, scales, bitwidth=4)
    weight = static(graph, "dw", integers(rng, -8, 8, 3, 3, 1, 4), S8, encoding=narrow)
    deep = made("d", S16, y.shape, fine)
    x = add(graph, "DepthWiseConv2d", [x, weight], name="deep", outputs=deep, **STEPS)
    pooled = made("p", S16, (1, 4, 8, 4), fine)
    window: dict[str, Any] = {"filter_size": (2, 1), "stride": (2, 1)}
    window["pad_amount"] = [[0, 0], [0, 0]]
    x = add(graph, "PoolMax2d", [x], name="pool", outputs=pooled, **window)
    x = add(graph, "Convert", [x], name="convert", outputs=made("c", U8, pooled.shape, coarse))
    x = add(graph, "Reshape", [x], name="flat", outputs=made("f", U8, (1, 128), coarse))
    blocks = Block((1, 16), rng.uniform(0.01, 0.1, (5, 8)).astype(np.float32))
    weight = static(graph, "fw", integers(rng, -8, 8, 5, 128), S4, encoding=blocks)
    logits = made("o", U16, (1, 5), ScaleOffset(0.001, -30000))
    x = add(graph, "FullyConnected", [x, weight], name="fc", outputs=logits)
    shares = made("s", U16, (1, 5), ScaleOffset(1 / 65535), "APP_READ")
    add(graph, "Softmax", [x], name="softmax", outputs=shares)
    assert find_op_faults(graph, OpRegistry.of(PACKAGE)) == []
    return graph


def weighted(weight: Array, dtype: DType, encoding: Encoding) -> Graph:
    """A FullyConnected of float rows of 8 with quantized weights."""
    graph = Graph("weighted")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 8), TensorKind.APP_WRITE))
    w = static(graph, "w", weight, dtype, encoding=encoding)
    out = Tensor("y", DType.FLOAT_32, (2, len(weight)), TensorKind.APP_READ)
    add(graph, "FullyConnected", [x, w], name="fc", outputs=out)
    return graph


def quantizing(dtype: DType, encoding: Encoding) -> Graph:
    """A Quantize of a float (20, 3)."""
    graph = Graph("quantizing")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (20, 3), TensorKind.APP_WRITE))
    y = made("y", dtype, (20, 3), encoding, "APP_READ")
    add(graph, "Quantize", [x], name="quantize", outputs=y)
    return graph


def node_counts(model: ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def weight_types(model: ModelProto) -> dict[str, int]:
    return {i.name: i.data_type for i in model.graph.initializer}


def every_quantized(model: ModelProto, feeds: dict[str, Array]) -> dict[str, Array]:
    """Return the integers of every quantized tensor, by its name in the graph; channels last."""
    stored = [n.output[0] for n in model.graph.node if n.op_type == "QuantizeLinear"]
    watched = ModelProto()
    watched.CopyFrom(onnx.shape_inference.infer_shapes(model))
    known = {info.name: info for info in watched.graph.value_info}
    watched.graph.ClearField("output")
    watched.graph.output.extend(known[name] for name in stored)
    names = [name.removesuffix("/quantize") for name in stored]
    return dict(zip(names, run(watched, feeds), strict=True))


def test_every_node_gives_what_ours_gives(rng: np.random.Generator, tmp_path: Path) -> None:
    """Each of our nodes, on what ONNX Runtime computed before it, within a step.

    Sums of another order may be on the other side of the middle between two steps: in a whole
    network such a step would grow from layer to layer.
    """
    graph = network(rng)
    model = export(graph, tmp_path / "net.onnx")
    for _ in range(5):
        real = rng.normal(0, 1.2, (1, 3, 8, 8)).astype(np.float32)
        found = every_quantized(model, {"x": real})
        np.testing.assert_array_equal(found["x"], quantize(real, ScaleOffset(0.02, -128), U8))
        found["last"] = found["x"].transpose(0, 2, 3, 1)
        for node in graph.nodes[1:]:
            (ours,) = meaning(node, found)
            theirs = found[node.outputs[0].name]
            if theirs.shape != ours.shape:  # channels first
                theirs = found[node.outputs[0].name] = theirs.transpose(0, 2, 3, 1)
            assert np.abs(theirs.astype(int) - ours).max() <= 1, node.name
            assert len(np.unique(ours)) > 2, "outputs that are all alike show nothing"


def meaning(node: Node, stored: dict[str, Array]) -> tuple[Array, ...]:
    """Return what our node makes of stored values."""
    ins = [
        None if t is None else t.stored() if t.kind.is_static else stored[t.name]
        for t in node.inputs
    ]
    return run_node(node, ins, OpRegistry.of(PACKAGE))


def test_onnxruntime_may_compute_it_in_integers(
    rng: np.random.Generator, tmp_path: Path, evaluate: Evaluate
) -> None:
    """With its fusions on, shares within 1 %: a few steps of the 8-bit tensors before them."""
    graph = network(rng)
    model = export(graph, tmp_path / "net.onnx")
    for _ in range(5):
        real = rng.normal(0, 1.2, (1, 3, 8, 8)).astype(np.float32)
        (found,) = run(model, {"x": real}, optimized=True)
        ours = evaluate(graph, {"x": quantize(real, ScaleOffset(0.02, -128), U8)})["s"]
        np.testing.assert_allclose(found, dequantize(ours, ScaleOffset(1 / 65535)), atol=0.01)


def test_the_model_takes_and_gives_real_values_under_the_users_names(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    model = export(network(rng), tmp_path / "net.onnx")
    (x,), (y,) = model.graph.input, model.graph.output
    assert (x.name, x.type.tensor_type.elem_type) == ("x", TensorProto.FLOAT)
    assert [d.dim_value for d in x.type.tensor_type.shape.dim] == [1, 3, 8, 8]
    assert (y.name, y.type.tensor_type.elem_type) == ("s", TensorProto.FLOAT)


def test_weights_stay_integers_of_their_width(rng: np.random.Generator, tmp_path: Path) -> None:
    graph = network(rng)
    model = export(graph, tmp_path / "net.onnx")
    found = {i.name: i for i in model.graph.initializer}
    assert found["w"].data_type == TensorProto.INT8
    assert found["dw"].data_type == TensorProto.INT4  # 4 bits used of 8 stored
    assert found["fw"].data_type == TensorProto.INT4
    assert found["b"].data_type == TensorProto.INT32
    weight = graph.tensor("w").stored()
    np.testing.assert_array_equal(numpy_helper.to_array(found["w"]), weight.transpose(3, 2, 0, 1))
    (dequantize_w,) = (n for n in model.graph.node if n.input[0] == "w")
    assert {a.name: a.i for a in dequantize_w.attribute} == {"axis": 0}
    (dequantize_fw,) = (n for n in model.graph.node if n.input[0] == "fw")
    assert {a.name: a.i for a in dequantize_fw.attribute} == {"axis": 1, "block_size": 16}


def test_a_network_with_weights_of_four_bits_comes_back(
    rng: np.random.Generator, tmp_path: Path, evaluate: Evaluate
) -> None:
    path = tmp_path / "net.onnx"
    model = export(network(rng), path)
    (again,) = OnnxFrontend().read(path)
    for _ in range(3):
        real = rng.normal(0, 1.2, (1, 3, 8, 8)).astype(np.float32)
        (wanted,) = run(model, {"x": real})
        (found,) = evaluate(again, {"x": real}).values()
        # where sums of floats lie between two steps, either is right, and later layers move with it
        np.testing.assert_allclose(found, wanted, atol=0.01)


def test_only_the_flattening_costs_a_transpose(rng: np.random.Generator, tmp_path: Path) -> None:
    counts = node_counts(export(network(rng), tmp_path / "net.onnx"))
    assert counts["Transpose"] == 1  # of (1, 4, 4, 8), whose elements the weights take channel last
    assert counts["QuantizeLinear"] == 9  # one for each computed tensor, transposed ones aside


@pytest.mark.parametrize(
    ("stored", "encoding", "code"),
    [
        (S8, ScaleOffset(0.1), TensorProto.INT8),
        (S8, ScaleOffset(0.1, bitwidth=4), TensorProto.INT4),
        (S8, ScaleOffset(0.1, 3), TensorProto.INT8),
        (U8, ScaleOffset(0.1, -7), TensorProto.UINT8),
        (S16, ScaleOffset(0.1), TensorProto.INT16),
        (U16, ScaleOffset(0.1, -7), TensorProto.UINT16),
        (S4, ScaleOffset(0.1), TensorProto.INT4),
        (DType.UFIXED_POINT_4, ScaleOffset(0.1, -7), TensorProto.UINT4),
        (S32, ScaleOffset(0.001, 5), TensorProto.INT32),  # ONNX has no such zero points
        (S8, AxisScaleOffset(0, np.array([0.1, 0.2, 0.4], np.float32)), TensorProto.INT8),
        (S8, AxisScaleOffset(1, np.arange(1, 9, dtype=np.float32)), TensorProto.INT8),
        (
            U8,
            AxisScaleOffset(
                0, np.array([0.1, 0.2, 0.4], np.float32), np.array([-1, -2, -3], np.int32)
            ),
            TensorProto.UINT8,
        ),
        (S8, Block((1, 4), np.arange(1, 7, dtype=np.float32).reshape(3, 2)), TensorProto.INT8),
        (
            S8,
            BlockwiseExpansion(
                0,
                np.array([0.1, 0.2, 0.4], np.float32),
                np.array([[1, 2], [3, 4], [5, 6]], np.uint8),
            ),
            TensorProto.INT4,
        ),
    ],
    ids=lambda value: value.name if isinstance(value, DType) else type(value).__name__,
)
def test_a_weights_encoding(
    rng: np.random.Generator, tmp_path: Path, stored: DType, encoding: Encoding, code: int
) -> None:
    low, high = stored.stored_range(encoding.bitwidth)
    weight = rng.integers(max(low, -900), min(high, 900) + 1, (3, 8)).astype(stored.storage)
    model = export(weighted(weight, stored, encoding), tmp_path / "one.onnx")
    assert weight_types(model)["w"] == code
    x = np.eye(8, dtype=np.float32)[:2]
    (found,) = run(model, {"x": x})
    np.testing.assert_array_equal(found, dequantize(weight, encoding).T[:2])


def test_blocks_along_two_axes_become_floats_and_a_note(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    encoding = Block((2, 4), np.arange(1, 5, dtype=np.float32).reshape(2, 2))
    weight = rng.integers(-100, 100, (4, 8)).astype(np.int8)
    path = tmp_path / "one.onnx"
    notes = OnnxQdqExporter().export(weighted(weight, S8, encoding), path, OnnxExportOptions())
    assert notes == (
        "constant 'w' is written as float numbers: the blocks extend along more than one axis",
    )
    (found,) = run(onnx.load(path), {"x": np.eye(8, dtype=np.float32)[:2]})
    np.testing.assert_array_equal(found, dequantize(weight, encoding).T[:2])


@pytest.mark.parametrize(
    ("dtype", "encoding"),
    [
        (U8, ScaleOffset(0.25, -128)),
        (S8, ScaleOffset(0.25)),
        (U16, ScaleOffset(0.001, -30000)),
        (S16, ScaleOffset(0.001)),
        (DType.UFIXED_POINT_4, ScaleOffset(2, -7)),
        (U8, ScaleOffset(2, -7, bitwidth=4)),
        (U8, ScaleOffset(0.5, -60, bitwidth=7)),  # no type of ONNX's: a Clip keeps the range
        (S16, ScaleOffset(0.01, bitwidth=12)),
        (U8, AxisScaleOffset(1, np.array([0.1, 0.5, 0.25], np.float32), np.full(3, -99, np.int32))),
    ],
    ids=str,
)
def test_an_activations_encoding(
    rng: np.random.Generator, tmp_path: Path, evaluate: Evaluate, dtype: DType, encoding: Encoding
) -> None:
    graph = quantizing(dtype, encoding)
    model = export(graph, tmp_path / "one.onnx")
    x = rng.normal(0, 30, (20, 3)).astype(np.float32)  # reaches beyond most of the ranges
    (found,) = stored_outputs(graph, run(model, {"x": x})).values()
    # ties: ours divides in float64, ONNX Runtime in float32
    assert np.abs(found.astype(int) - evaluate(graph, {"x": x})["y"].astype(int)).max() <= 1


def test_a_range_of_seven_bits_is_said(tmp_path: Path) -> None:
    graph = quantizing(U8, ScaleOffset(0.5, -60, bitwidth=7))
    notes = OnnxQdqExporter().export(graph, tmp_path / "one.onnx", OnnxExportOptions())
    assert notes == ("'y' has 7 bits, which ONNX lacks: a Clip limits its range",)


def test_a_convert_is_a_pair_of_nodes(tmp_path: Path, evaluate: Evaluate) -> None:
    graph = Graph("convert")
    x = graph.add_tensor(made("x", U8, (2, 5), ScaleOffset(0.1, -50), "APP_WRITE"))
    y = made("y", S16, (2, 5), ScaleOffset(0.003), "APP_READ")
    add(graph, "Convert", [x], name="convert", outputs=y)
    model = export(graph, tmp_path / "convert.onnx")
    kinds = [node.op_type for node in model.graph.node]
    assert kinds == ["QuantizeLinear", "DequantizeLinear"] * 2
    stored = {"x": np.arange(0, 250, 25, dtype=np.uint8).reshape(2, 5)}
    (found,) = stored_outputs(graph, run(model, feeds_of(graph, stored))).values()
    np.testing.assert_array_equal(found, evaluate(graph, stored)["y"])


def test_a_transposed_tensor_is_quantized_once(tmp_path: Path) -> None:
    graph = Graph("turned")
    x = graph.add_tensor(made("x", U8, (2, 3, 4), ScaleOffset(0.1, -50), "APP_WRITE"))
    turned = add(graph, "Transpose", [x], name="turn", perm=(2, 0, 1))
    y: Any = made("y", U8, (4, 2, 3), ScaleOffset(0.1, -50), "APP_READ")
    add(graph, "Relu", [turned], name="relu", outputs=y)
    counts = node_counts(export(graph, tmp_path / "turned.onnx"))
    assert counts == {"QuantizeLinear": 2, "DequantizeLinear": 2, "Relu": 1, "Transpose": 1}


def test_onnxruntime_takes_signed_activations_behind_a_transpose(
    rng: np.random.Generator, tmp_path: Path, evaluate: Evaluate
) -> None:
    """With its fusions on, which make such integers unsigned: they are written so."""
    graph = Graph("turned")
    x = graph.add_tensor(made("x", S8, (2, 3, 4), ScaleOffset(0.02), "APP_WRITE"))
    t = add(graph, "Tanh", [x], name="t", outputs=made("t", S8, x.shape, ScaleOffset(0.01, 20)))
    y = made("y", S8, (2, 3, 3), ScaleOffset(0.05), "APP_READ")
    add(graph, "MatMul", [x, t], name="m", outputs=y, transpose_in1=True)
    model = export(graph, tmp_path / "turned.onnx")
    assert "Transpose" in node_counts(model)
    points = {
        i.name: int(numpy_helper.to_array(i))
        for i in model.graph.initializer
        if i.name.startswith("zero_point")
    }
    assert set(points.values()) == {128, 108}  # of the offsets 0 and 20
    assert {i.data_type for i in model.graph.initializer if i.name in points} == {TensorProto.UINT8}
    for _ in range(3):
        stored = rng.integers(-128, 128, (2, 3, 4)).astype(np.int8)
        (found,) = run(model, {"x": dequantize(stored, ScaleOffset(0.02))}, optimized=True)
        ours = dequantize(evaluate(graph, {"x": stored})["y"], ScaleOffset(0.05))
        np.testing.assert_allclose(found, ours, atol=0.0501)  # a step
