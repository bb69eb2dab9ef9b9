"""A model with a bit of everything, and a way to write files that no writer of ours would."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from dovetail.container import Model, Producer
from dovetail.ir import (
    AxisScaleOffset,
    Block,
    BlockwiseExpansion,
    DType,
    Graph,
    Node,
    Scalar,
    ScaleOffset,
    Tensor,
    TensorKind,
)

PRODUCER = Producer("a tool", "1.2.3", "net.onnx", "0" * 64, {"input-dim": "x 1,8", "a": "b"})
HEADER = struct.Struct("<8sHHIQQ32s")  # as docs/container.md says, written out once more


def rich_graph(name: str, weights: Tensor) -> Graph:
    """A graph with every class of encoding and every sort of param; 80 channels go into blobs."""
    graph = Graph(name)
    x = graph.add_tensor(
        Tensor(
            "x",
            DType.UFIXED_POINT_8,
            (1, 4, 80),
            TensorKind.APP_WRITE,
            encoding=ScaleOffset(0.1, -3),
            source="input:0",
            source_perm=(0, 2, 1),
        )
    )
    per_axis = AxisScaleOffset(0, np.arange(80, dtype=np.float32) / 64, None, 7)
    block = Block((40, 2), np.float32([[0.5], [2]]), np.int32([[0], [-1]]))
    expansion = BlockwiseExpansion(1, np.float32([0.5, 2]), np.uint8([[1, 2], [15, 0]]))
    values = np.arange(160).reshape(80, 2) % 8
    statics = [
        Tensor.static("axis", values, DType.SFIXED_POINT_8, encoding=per_axis),
        Tensor.static("block", values, DType.UFIXED_POINT_8, encoding=block),
        Tensor.static("expanded", values - 4, DType.SFIXED_POINT_4, encoding=expansion),
        Tensor.static("text", np.array(["a", "", "ü"]), DType.STRING),
        Tensor(weights.name, weights.dtype, weights.shape, TensorKind.STATIC, data=weights.data),
    ]
    for tensor in statics:
        graph.add_tensor(tensor)
    left_out = graph.add_tensor(Tensor("none", DType.UNDEFINED, (), TensorKind.NULL))
    middle = graph.add_tensor(Tensor("middle", DType.FLOAT_32, ()))
    y = graph.add_tensor(Tensor("y", DType.BFLOAT_16, (0, 3), TensorKind.APP_READ))
    params = {
        "limit": Scalar(DType.FLOAT_32, float("inf")),
        "group": Scalar(DType.UINT_32, 2),
        "mode": Scalar(DType.STRING, "inf"),
        "on": Scalar(DType.BOOL_8, True),
        "stride": Tensor.static("first.stride", np.uint32([2, 2])),
    }
    inputs = [x, None, left_out, *statics]
    graph.add_node(Node("first", "my.pkg", "Mix", inputs, [middle], params, sources=()))
    graph.add_node(Node("second", "qti.aisw", "Relu", [middle], [y], sources=["a", "b"]))
    return graph


@pytest.fixture
def model() -> Model:
    values = (np.arange(2048, dtype=np.float32).reshape(64, 32) - 1000) / 8
    weights = Tensor.static("weights", values)
    graphs = {name: rich_graph(name, weights) for name in ("prefill", "decode")}
    return Model(graphs, PRODUCER, {"qti.aisw": "1.0.0", "my.pkg": "3.1"})


@pytest.fixture
def saved(model: Model, tmp_path: Path) -> Path:
    path = tmp_path / "model.dvt"
    model.save(path)
    return path


def pack_header(manifest: bytes, file_bytes: int, *, kind: int = 1, version: int = 1) -> bytes:
    """A header whose checksums fit."""
    fields = (len(manifest), file_bytes, hashlib.sha256(manifest).digest())
    blank = HEADER.pack(b"\x89DVT\r\n\x1a\n", version, kind, 0, *fields)
    checksum = zlib.crc32(blank[:12] + blank[16:])
    return HEADER.pack(b"\x89DVT\r\n\x1a\n", version, kind, checksum, *fields)


def manifest_of(path: Path) -> Any:
    raw = path.read_bytes()
    return msgspec.json.decode(raw[64 : 64 + HEADER.unpack(raw[:64])[4]])


Forge = Callable[..., Path]


@pytest.fixture
def forge(saved: Path, tmp_path: Path) -> Forge:
    """Return a function that writes the saved model's blobs under another manifest."""
    raw = saved.read_bytes()
    size = HEADER.unpack(raw[:64])[4]
    blobs = raw[-(-(64 + size) // 64) * 64 :]

    def write(manifest: object, **header: int) -> Path:
        text = manifest if isinstance(manifest, bytes) else msgspec.json.encode(manifest)
        padded = text + bytes(-len(text) % 64)
        path = tmp_path / "forged.dvt"
        path.unlink(missing_ok=True)  # some file systems take long to write over what is mapped
        total = 64 + len(padded) + len(blobs)
        path.write_bytes(pack_header(text, total, **header) + padded + blobs)
        return path

    return write
