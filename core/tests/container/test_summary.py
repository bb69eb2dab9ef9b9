"""What a file says of itself, and that its blobs are not needed for it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import numpy as np
import pytest

from dovetail.container import Model, summarize
from dovetail.errors import ContainerError
from dovetail.ir import DType, Graph, Node, Tensor, TensorKind

from .conftest import PRODUCER, Forge, manifest_of


def test_a_summary_says_what_the_file_holds(saved: Path) -> None:
    summary = summarize(saved)
    assert (summary.kind, summary.format_version) == ("model", 1)
    assert summary.producer == PRODUCER
    assert summary.op_packages == {"qti.aisw": "1.0.0", "my.pkg": "3.1"}
    assert summary.file_bytes == saved.stat().st_size
    assert [g.name for g in summary.graphs] == ["prefill", "decode"]


def test_a_summary_shows_each_graph(saved: Path) -> None:
    graph = summarize(saved).graphs[1]
    [x], [y] = graph.inputs, graph.outputs
    assert (x.name, x.dtype, x.shape) == ("x", "UFIXED_POINT_8", (1, 4, 80))
    assert x.encoding == "(scale 0.1, offset -3)"
    assert (y.name, y.dtype, y.shape, y.encoding) == ("y", "BFLOAT_16", (0, 3), None)
    assert graph.ops == {"my.pkg::Mix": 1, "qti.aisw::Relu": 1}
    assert (graph.nodes, graph.tensors) == (2, 9)
    # axis, block: 160 bytes each; expanded: 80; text: 6; weights: 8192; stride: 8
    assert graph.static_bytes == 160 + 160 + 80 + 6 + 8192 + 8


def test_a_tensor_for_both_is_an_output_where_a_node_writes_it(tmp_path: Path) -> None:
    graphs = {}
    for name, target in (("writes", "state"), ("reads", "y")):
        graph = graphs[name] = Graph(name)
        made = {
            n: graph.add_tensor(Tensor(n, DType.FLOAT_32, (2,), kind))
            for n, kind in (
                ("x", TensorKind.APP_WRITE),
                ("state", TensorKind.APP_READWRITE),
                ("y", TensorKind.APP_READ),
            )
            if name == "reads" or n != "y"
        }
        graph.add_node(Node("n", "my.pkg", "Mix", [made["x"]], [made[target]]))
    Model(graphs, PRODUCER, {"my.pkg": "1"}).save(tmp_path / "m.dvt")
    for summary in summarize(tmp_path / "m.dvt").graphs:
        ends = graphs[summary.name]
        assert [t.name for t in summary.inputs] == [t.name for t in ends.inputs]
        assert [t.name for t in summary.outputs] == [t.name for t in ends.outputs]


def test_bytes_are_told_apart_by_sharing(model: Model, tmp_path: Path) -> None:
    model.graphs["decode"].add_tensor(Tensor.static("alone", np.arange(1000, dtype=np.uint8) % 7))
    model.save(tmp_path / "m.dvt")
    summary = summarize(tmp_path / "m.dvt")
    # axis and block have the same bytes, and both graphs the same tensors: stored once
    shared = 160 + 80 + 6 + 8192 + 8
    assert summary.shared_blob_bytes == shared
    assert summary.blob_bytes == shared + 1000 + 4 * 80  # and the scales of 80 channels
    assert summary.blobs == 7


def test_a_summary_is_plain_data_for_json(saved: Path) -> None:
    summary = summarize(saved)
    back = msgspec.json.decode(msgspec.json.encode(summary), type=type(summary))
    assert back == summary


def test_blobs_are_not_touched(saved: Path) -> None:
    raw = bytearray(saved.read_bytes())
    expected = summarize(saved)
    for blob in manifest_of(saved)["blobs"]:
        # every blob is damaged somewhere; paddings are not, as blobs begin at multiples of 64
        start = next(i for i in range(0, len(raw), 64) if is_blob(raw, i, blob))
        raw[start] ^= 0xFF
    saved.write_bytes(raw)
    assert summarize(saved) == expected


def is_blob(raw: bytearray, start: int, blob: dict[str, object]) -> bool:
    size = blob["size"]
    assert isinstance(size, int)
    return hashlib.sha256(raw[start : start + size]).hexdigest() == blob["sha256"]


def test_every_class_of_encoding_has_its_text(saved: Path, forge: Forge) -> None:
    manifest = manifest_of(saved)
    tensors = manifest["graphs"][0]["tensors"]
    for tensor in tensors[1:4]:  # static tensors shown as if the application wrote them
        tensor["kind"] = 0
    texts = [t.encoding for t in summarize(forge(manifest)).graphs[0].inputs]
    assert texts == [
        "(scale 0.1, offset -3)",
        "(BW_AXIS_SCALE_OFFSET on axis 0, 7 bits)",
        "(BLOCK)",
        "(BLOCKWISE_EXPANSION on axis 1, 4 bits)",
    ]


def test_a_blob_that_is_not_there_is_refused(saved: Path, forge: Forge) -> None:
    manifest = manifest_of(saved)
    manifest["graphs"][0]["tensors"][5]["data"] = 6
    with pytest.raises(ContainerError, match="blob 6 not found"):
        summarize(forge(manifest))
