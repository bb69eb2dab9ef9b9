"""Ways of writing an op that the op cases do not come by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exported import export, run
from onnx import ModelProto

from dovetail.ir import (
    Array,
    AxisScaleOffset,
    DType,
    Encoding,
    Graph,
    ScaleOffset,
    Tensor,
    TensorKind,
    quantize,
)
from dovetail_onnx.exporter import OnnxExportOptions, OnnxQdqExporter
from dovetail_opset.build import add_all, static

Check = Callable[..., list[str]]


@pytest.fixture
def check(tmp_path: Path, evaluate: Callable[..., dict[str, Array]]) -> Check:
    """Export one node, compares it with our meaning and return the operators that it became.

    Inputs are arrays, (array,) for a constant and None for one that is left out.
    """

    def compare(op_type: str, inputs: Sequence[Any], count: int = 1, **params: Any) -> list[str]:
        graph = one_node(op_type, inputs, count, params)
        model = export(graph, tmp_path / "node.onnx")
        feeds = {f"x{i}": x for i, x in enumerate(inputs) if isinstance(x, np.ndarray)}
        wanted = evaluate(graph, feeds)
        found = dict(zip((t.name for t in graph.outputs), run(model, feeds), strict=True))
        for name, want in wanted.items():
            # float32 sums of some dozen products in another order
            np.testing.assert_allclose(found[name], want, rtol=1e-5, atol=1e-6)
        return operators(model)

    return compare


def one_node(op_type: str, inputs: Sequence[Any], count: int, params: dict[str, Any]) -> Graph:
    graph, tensors = Graph("node"), []
    for i, x in enumerate(inputs):
        if isinstance(x, np.ndarray):
            dtype = DType.of(x.dtype)
            made = graph.add_tensor(Tensor(f"x{i}", dtype, x.shape, TensorKind.APP_WRITE))
            tensors.append(made)
        else:
            tensors.append(None if x is None else static(graph, f"x{i}", x[0]))
    add_all(graph, op_type, tensors, name="node", outputs=[f"y{i}" for i in range(count)], **params)
    for i in range(count):
        graph.tensor(f"y{i}").kind = TensorKind.APP_READ
    return graph


def operators(model: ModelProto) -> list[str]:
    return [n.op_type for n in model.graph.node if n.op_type not in ("Transpose", "Reshape")]


def drawn(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)


@pytest.mark.parametrize("mode", [0, 1])
def test_square_blocks_of_depth(check: Check, mode: int) -> None:
    x = drawn(2, 3, 4, 12)
    assert check("DepthToSpace", [x], block_size=(2, 2), mode=mode) == ["DepthToSpace"]
    x = drawn(2, 4, 6, 3)
    made = check("SpaceToDepth", [x], block_size=(2, 2), mode=mode)
    assert made == (["SpaceToDepth"] if mode == 0 else [])


def test_a_batch_in_a_known_order(check: Check) -> None:
    x = drawn(4, 3)
    assert check("BatchPermutation", [x, (np.array([2, 0, 3], np.int32),)]) == ["Gather"]
    kept = check("BatchPermutation", [x, (np.array([2, -1, 9, 3], np.int32),)])
    assert kept == ["Gather", "Concat"]


@pytest.mark.parametrize("pads", [[[1, 1], [0, 1]], [[0, 0], [0, 0]]])
def test_the_zeros_around_a_pool_need_a_pad(check: Check, pads: Any) -> None:
    window = {"filter_size": (3, 2), "stride": (2, 1), "pad_amount": pads}
    x = drawn(1, 6, 7, 3) - 3
    made = check("PoolMax2d", [x], **window)
    assert made == (["Pad", "MaxPool"] if np.any(pads) else ["MaxPool"])


def test_zeros_around_what_is_never_negative_need_none(tmp_path: Path) -> None:
    graph = one_node("Relu", [drawn(1, 6, 7, 3)], 1, {})
    relu = graph.tensor("y0")
    relu.kind = TensorKind.NATIVE
    window = {"filter_size": (3, 3), "stride": (1, 1), "pad_amount": [[1, 1], [1, 1]]}
    y = Tensor("y", DType.FLOAT_32, (1, 6, 7, 3), TensorKind.APP_READ)
    add_all(graph, "PoolMax2d", [relu], name="pool", outputs=[y], **window)
    assert operators(export(graph, tmp_path / "pool.onnx")) == ["Relu", "MaxPool"]


def test_a_last_window_beyond_the_padding(check: Check) -> None:
    window = {"filter_size": (3, 3), "stride": (2, 2), "pad_amount": [[1, 1], [1, 0]]}
    x = drawn(1, 6, 7, 2) - 3
    assert check("PoolMax2d", [x], rounding_mode=1, **window) == ["Pad", "MaxPool"]
    for counted in (False, True):
        options = {"rounding_mode": 1, "count_pad_for_edges": counted}
        assert check("PoolAvg2d", [x], **options, **window) == ["AveragePool"]


@pytest.mark.parametrize("extra", [0, 1, 2])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_output_padding_and_what_is_taken_off(check: Check, extra: int, after: int) -> None:
    options = {
        "stride": (3, 3),
        "pad_amount": [[1, after], [0, after]],
        "output_padding": [extra] * 2,
    }
    inputs = [drawn(1, 4, 5, 2), (drawn(3, 2, 2, 4, seed=2),), (drawn(4, seed=3),)]
    assert check("TransposeConv2d", inputs, **options) == ["ConvTranspose"]


@pytest.mark.parametrize("keep", [False, True])
def test_fully_connected_of_more_dimensions(check: Check, keep: bool) -> None:
    inputs = [drawn(2, 3, 8), (drawn(5, 8, seed=2),), (drawn(5, seed=3),)]
    made = check("FullyConnected", inputs, keep_dims=keep)
    assert made == (["MatMul", "Add"] if keep else ["Gemm"])


def lstm_inputs(batch_major: bool, coupled: bool) -> list[Any]:
    x = drawn(2, 5, 3) if batch_major else drawn(5, 2, 3)
    shapes = {1: (4, 3), 2: (4, 3), 3: (4, 3), 4: (4, 4), 5: (4, 4), 6: (4, 4)}
    shapes |= {7: (4,), 8: (4,), 9: (4,), 10: (2, 4), 11: (2, 4)}
    shapes |= {} if coupled else {16: (4, 3), 17: (4, 4), 21: (4,)}
    given = {i: (drawn(*shape, seed=i),) for i, shape in shapes.items()}
    return [x, *(given.get(i) for i in range(1, max(shapes) + 1))]


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("batch_major", [False, True])
@pytest.mark.parametrize("direction", [0, 1])
def test_lstm(check: Check, batch_major: bool, coupled: bool, direction: int) -> None:
    inputs = lstm_inputs(batch_major, coupled)
    made = check("Lstm", inputs, 3, time_major=not batch_major, direction=direction)
    if coupled:  # i = 1 - f here, f = 1 - i there: weights, recurrent weights and biases turn signs
        assert (made.count("Neg"), made[-1]) == (3, "LSTM")
    else:
        assert made == ["LSTM"]


def test_a_gate_that_something_reads_is_refused(tmp_path: Path) -> None:
    graph = one_node("Lstm", lstm_inputs(False, False), 8, {})
    with pytest.raises(Exception, match=r"out\[3\] is a gate, which ONNX's LSTM does not return"):
        export(graph, tmp_path / "lstm.onnx")
    for i in range(3, 7):
        graph.tensor(f"y{i}").kind = TensorKind.NATIVE
    assert "LSTM" in operators(export(graph, tmp_path / "lstm.onnx"))


@pytest.mark.parametrize(
    "encoding", [ScaleOffset(0.02), AxisScaleOffset(0, np.full(4, 0.02, np.float32))], ids=str
)
def test_lstm_weights_stay_integers(tmp_path: Path, encoding: Encoding) -> None:
    graph = one_node("Lstm", lstm_inputs(False, False), 3, {})
    for i in (1, 4):
        tensor = graph.tensor(f"x{i}")
        stored = quantize(tensor.values(), encoding, DType.SFIXED_POINT_8)
        made = Tensor.static("made", stored, DType.SFIXED_POINT_8, encoding=encoding)
        tensor.data, tensor.dtype, tensor.encoding = made.data, made.dtype, encoding
    made = operators(export(graph, tmp_path / "lstm.onnx"))
    assert made.count("DequantizeLinear") == 2
    assert "LSTM" in made


def test_ops_that_become_several_are_noted(tmp_path: Path) -> None:
    graph = one_node("RmsNorm", [drawn(2, 8), (drawn(8),)], 1, {"axes": [1]})
    notes = OnnxQdqExporter().export(graph, tmp_path / "node.onnx", OnnxExportOptions())
    wanted = "RmsNorm is written as Mul, ReduceMean, Add, Sqrt, Div, Mul (1 of the nodes)"
    assert notes == (wanted,)


def test_an_updateable_constant_is_noted(tmp_path: Path) -> None:
    graph = one_node("Prelu", [drawn(2, 8), (drawn(8),)], 1, {})
    graph.tensor("x1").kind = TensorKind.UPDATEABLE_STATIC
    notes = OnnxQdqExporter().export(graph, tmp_path / "node.onnx", OnnxExportOptions())
    assert notes == ("'x1' can be updated in the graph, but is a constant in ONNX",)
