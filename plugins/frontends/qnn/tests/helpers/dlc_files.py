"""Small graphs, DLC files of them, and changed copies of files."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dovetail.ir import (
    AxisScaleOffset,
    DType,
    Graph,
    Node,
    Scalar,
    ScaleOffset,
    Tensor,
    TensorKind,
)
from dovetail_qnn import QnnCppOptions
from dovetail_qnn.dlc import DlcExporter

PREFIX_BYTES = 8
PACKAGE = "qti.aisw"


def small_graph(name: str = "net") -> Graph:
    """Return a quantized graph: a convolution per channel, Relu, and a sum with a constant."""
    draw = np.random.default_rng(5)
    graph = Graph(name)
    eighth = ScaleOffset(0.125, -128)
    x = graph.add_tensor(_value("x", (1, 4, 4, 2), TensorKind.APP_WRITE, eighth))
    scales = np.array([0.5, 0.25, 0.125], np.float32)
    kernel = draw.integers(-100, 100, (3, 3, 2, 3)).astype(np.int8)
    filters = graph.add_tensor(
        Tensor.static("w", kernel, DType.SFIXED_POINT_8, encoding=AxisScaleOffset(3, scales))
    )
    bias = graph.add_tensor(
        Tensor.static(
            "b",
            np.arange(3, dtype=np.int32),
            DType.SFIXED_POINT_32,
            encoding=AxisScaleOffset(0, scales / 8),
        )
    )
    y = graph.add_tensor(_value("y", (1, 4, 4, 3), TensorKind.NATIVE, ScaleOffset(1.0, -100)))
    z = graph.add_tensor(_value("z", (1, 4, 4, 3), TensorKind.NATIVE, ScaleOffset(1.0)))
    out = graph.add_tensor(_value("out", (1, 4, 4, 3), TensorKind.APP_READ, ScaleOffset(2.0)))
    params = {
        "stride": _static("conv.stride", [1, 1]),
        "pad_amount": _static("conv.pad_amount", [[1, 1], [1, 1]]),
        "group": Scalar(DType.UINT_32, 1),
    }
    graph.add_node(Node("conv", PACKAGE, "Conv2d", [x, filters, bias], [y], params))
    graph.add_node(Node("relu", PACKAGE, "Relu", [y], [z]))
    graph.add_node(Node("sum", PACKAGE, "ElementWiseAdd", [z, z], [out]))
    return graph


def float_graph(name: str = "net") -> Graph:
    """Return a float graph: FullyConnected, and Elu with a param."""
    draw = np.random.default_rng(6)
    graph = Graph(name)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 8), TensorKind.APP_WRITE))
    weights = draw.normal(size=(300, 8)).astype(np.float32)
    w = graph.add_tensor(Tensor.static("w", weights))
    y = graph.add_tensor(Tensor("y", DType.FLOAT_32, (2, 300)))
    z = graph.add_tensor(Tensor("z", DType.FLOAT_32, (2, 300), TensorKind.APP_READ))
    graph.add_node(Node("fc", PACKAGE, "FullyConnected", [x, w, None], [y]))
    alpha = {"alpha": Scalar(DType.FLOAT_32, 0.75)}
    graph.add_node(Node("elu", PACKAGE, "Elu", [y], [z], alpha))
    return graph


def write_dlc(graph: Graph, path: Path) -> Path:
    """Export a graph; return the path."""
    DlcExporter().export(graph, path, QnnCppOptions())
    return path


def members_of(path: Path) -> dict[str, bytes]:
    """Return the members of an archive."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(
    path: Path, members: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED
) -> Path:
    """Write an archive; return the path."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def without_crcs(data: bytes) -> bytes:
    """Return an archive whose CRC fields are zero, as in the vendor's files."""
    found = bytearray(data)
    for magic, offset in ((b"PK\x03\x04", 14), (b"PK\x01\x02", 16)):
        at = found.find(magic)
        while at >= 0:
            struct.pack_into("<I", found, at + offset, 0)
            at = found.find(magic, at + 4)
    return bytes(found)


def assert_same(a: Graph, b: Graph) -> None:
    """Compare names, types, shapes, encodings, kinds, params and data of two graphs."""
    assert a.name == b.name
    assert [_described(t) for t in a.tensors.values()] == [
        _described(t) for t in b.tensors.values()
    ]
    assert [_described_node(n) for n in a.nodes] == [_described_node(n) for n in b.nodes]


def _described(tensor: Tensor) -> tuple[object, ...]:
    data = None if tensor.data is None else tensor.data.bytes.tobytes()
    return tensor.name, tensor.spec, tensor.kind, data


def _described_node(node: Node) -> tuple[object, ...]:
    params = {
        name: _described(param) if isinstance(param, Tensor) else param
        for name, param in node.params.items()
    }
    inputs = [t and t.name for t in node.inputs]
    return node.name, node.package, node.op_type, inputs, [t.name for t in node.outputs], params


def _value(name: str, shape: tuple[int, ...], kind: TensorKind, encoding: ScaleOffset) -> Tensor:
    return Tensor(name, DType.UFIXED_POINT_8, shape, kind, encoding=encoding)


def _static(name: str, values: list[int] | list[list[int]]) -> Tensor:
    return Tensor.static(name, np.array(values, np.uint32))
