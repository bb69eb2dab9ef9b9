"""What cannot be exported is refused whole, with everything that is in the way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dovetail.errors import UnsupportedOpError
from dovetail.ir import DType, Encoding, Graph, Node, ScaleOffset, Tensor, TensorKind, pack
from dovetail_onnx.exporter import OnnxExporter, OnnxExportOptions, OnnxQdqExporter
from dovetail_opset.build import add, static

U8 = DType.UFIXED_POINT_8


def refusal(graph: Graph, path: Path, exporter: type[OnnxQdqExporter] = OnnxQdqExporter) -> str:
    with pytest.raises(UnsupportedOpError) as caught:
        exporter().export(graph, path, OnnxExportOptions())
    assert not path.exists()
    return str(caught.value)


def given(graph: Graph, name: str, dtype: DType, *shape: int, kind: str = "APP_WRITE") -> Tensor:
    return graph.add_tensor(Tensor(name, dtype, shape, TensorKind[kind]))


def test_every_node_and_tensor_is_named(tmp_path: Path) -> None:
    graph = Graph("several")
    x = given(graph, "x", DType.FLOAT_32, 2, 4)
    y = graph.add_tensor(Tensor("y", DType.FLOAT_32, (2, 4)))
    z = given(graph, "z", DType.FLOAT_32, 2, 4, kind="APP_READ")
    graph.add_node(Node("mine", "my.package", "Wobble", [x], [y]))
    graph.add_node(Node("fine", "qti.aisw", "Relu", [y], [z]))
    bare = given(graph, "bare", U8, 2, 4)
    add(graph, "Relu", [bare], name="relu", outputs=given(graph, "r", U8, 2, 4, kind="APP_READ"))
    text = refusal(graph, tmp_path / "no.onnx")
    assert "Wobble node 'mine': unsupported op my.package::Wobble" in text
    assert "tensor 'bare': UFIXED_POINT_8 without an encoding" in text
    assert "tensor 'r': UFIXED_POINT_8 without an encoding" in text
    assert "'fine'" not in text
    assert "docs/export.md" in text


def test_names_that_utf_8_cannot_express(tmp_path: Path) -> None:
    graph = Graph("half\ud800")
    x = given(graph, "x\udc00", DType.FLOAT_32, 4)
    y = given(graph, "y", DType.FLOAT_32, 4, kind="APP_READ")
    graph.add_node(Node("node\udfff", "qti.aisw", "Relu", [x], [y]))
    text = refusal(graph, tmp_path / "no.onnx")
    assert "half a surrogate pair, which ONNX cannot store" in text
    for where in (r"graph 'half\ud800'", r"tensor 'x\udc00'", r"node 'node\udfff'"):
        assert where in text


@pytest.mark.parametrize(
    ("dtype", "encoding", "reason"),
    [
        (
            DType.SFIXED_POINT_32,
            ScaleOffset(0.1),
            "QuantizeLinear produces integers of 4, 8 and 16 bits, not SFIXED_POINT_32",
        ),
        (U8, ScaleOffset(0.1, 5), "zero point -5 is out of range for UFIXED_POINT_8, 0 to 255"),
        (
            DType.SFIXED_POINT_8,
            ScaleOffset(0.1, -200),
            "zero point 200 is out of range for SFIXED_POINT_8, -128 to 127",
        ),
    ],
)
def test_an_encoding_that_onnx_has_not(
    tmp_path: Path, dtype: DType, encoding: Encoding, reason: str
) -> None:
    graph = Graph("one")
    x = given(graph, "x", DType.FLOAT_32, 3)
    y = Tensor("y", dtype, (3,), TensorKind.APP_READ, encoding=encoding)
    add(graph, "Quantize", [x], name="quantize", outputs=y)
    assert "tensor 'y': " in (text := refusal(graph, tmp_path / "no.onnx"))
    assert reason in text


def test_a_type_that_the_operator_does_not_take(tmp_path: Path) -> None:
    graph = Graph("one")
    x = given(graph, "x", DType.INT_32, 1, 4, 4, 2)
    y = given(graph, "y", DType.INT_32, 1, 4, 4, 3, kind="APP_READ")
    weight = static(graph, "w", np.ones((1, 1, 2, 3), np.int32))
    none = [[0, 0], [0, 0]]
    add(graph, "Conv2d", [x, weight], name="conv", outputs=y, stride=(1, 1), pad_amount=none)
    text = refusal(graph, tmp_path / "no.onnx")
    assert text.count("Conv2d node 'conv': ONNX's Conv does not take INT32") == 1


def test_onnx_refuses_quantized_graphs(tmp_path: Path) -> None:
    graph = Graph("one")
    x = graph.add_tensor(Tensor("x", U8, (3,), TensorKind.APP_WRITE, encoding=ScaleOffset(1)))
    add(
        graph,
        "Dequantize",
        [x],
        name="d",
        outputs=given(graph, "y", DType.FLOAT_32, 3, kind="APP_READ"),
    )
    text = refusal(graph, tmp_path / "no.onnx", OnnxExporter)
    assert "tensor 'x': type UFIXED_POINT_8" in text
    assert "export it as onnx-qdq" in text


def test_a_constant_that_onnx_has_not(tmp_path: Path) -> None:
    graph = Graph("one")
    x = graph.add_tensor(Tensor("x", U8, (3,), TensorKind.APP_WRITE, encoding=ScaleOffset(1)))
    bare = Tensor("slope", U8, (3,), TensorKind.STATIC, data=pack(np.ones(3, np.uint8), U8))
    y = Tensor("y", U8, (3,), TensorKind.APP_READ, encoding=ScaleOffset(1))
    for tensor in (bare, y):
        graph.add_tensor(tensor)
    graph.add_node(Node("prelu", "qti.aisw", "Prelu", [x, bare], [y]))
    text = refusal(graph, tmp_path / "no.onnx")
    assert "tensor 'slope': UFIXED_POINT_8 without an encoding" in text


def test_text_is_refused(tmp_path: Path) -> None:
    graph = Graph("one")
    x = given(graph, "x", DType.STRING, 3)
    y = given(graph, "y", DType.STRING, 1, 3, kind="APP_READ")
    add(graph, "Reshape", [x], name="row", outputs=y)
    text = refusal(graph, tmp_path / "no.onnx")
    assert "tensor 'x': ONNX has no tensors of STRING" in text
    assert "tensor 'y': ONNX has no tensors of STRING" in text
