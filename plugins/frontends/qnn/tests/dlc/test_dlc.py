"""DLC files: round trips, several graphs, forms of archives and of payloads."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dlc_files import (
    PREFIX_BYTES,
    assert_same,
    float_graph,
    members_of,
    small_graph,
    without_crcs,
    write_dlc,
    write_members,
)

import dovetail
from dovetail.container import MappedBlob, Model, Producer
from dovetail.errors import ConfigError, GraphError, UnsupportedOpError
from dovetail.ir import (
    AxisScaleOffset,
    Block,
    BlockwiseExpansion,
    DType,
    Encoding,
    Graph,
    Node,
    Scalar,
    ScaleOffset,
    Spec,
    Tensor,
    TensorKind,
)
from dovetail.ops.frontend import FrontendOptions
from dovetail.plugins.ops import installed_ops
from dovetail.testing import OpCase, bind
from dovetail_opset import PACKAGE
from dovetail_opset.testing import CASES
from dovetail_qnn._export_options import QnnExportOptions
from dovetail_qnn.dlc import DlcExporter, DlcFrontend
from dovetail_qnn.dlc._streams import pack_stream
from dovetail_qnn.dlc._tables import (
    GRAPHS,
    PARAMS,
    WIDE_PARAMS,
    BufferTable,
    GraphPayloadsTable,
    ModelTable,
    NodePayloadsTable,
    PayloadsTable,
    PayloadTable,
    WidePayloadsTable,
)
from dovetail_qnn.dlc.flatbuffers import FaultList, decode, encode


def read(path: Path) -> Graph:
    (graph,) = DlcFrontend().read(path)
    return graph


@pytest.mark.parametrize("make", [small_graph, float_graph])
def test_a_graph_is_read_as_it_was_written(make: Callable[[], Graph], tmp_path: Path) -> None:
    path = write_dlc(make(), tmp_path / "net.dlc")
    assert_same(read(path), make())
    again = write_dlc(read(path), tmp_path / "again.dlc")
    assert again.read_bytes() == path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None


def test_the_order_of_params_is_not_written(tmp_path: Path) -> None:
    found = []
    for order in (1, -1):
        graph = small_graph()
        (node,) = (node for node in graph.nodes if node.op_type == "Conv2d")
        for i, param in enumerate(p for p in node.params.values() if isinstance(p, Tensor)):
            param.name = f"own{i}"  # a name that only the extras have
        node.params = dict([*node.params.items()][::order])
        found.append(members_of(write_dlc(graph, tmp_path / "net.dlc"))["dovetail.json"])
    assert found[0] == found[1]


def cases_of_ops() -> dict[str, OpCase]:
    """Return a case for each op of the standard set."""
    return {case.op_type: case for case in reversed(CASES)}


def test_a_node_of_each_op_is_read_as_it_was_written(tmp_path: Path) -> None:
    cases = cases_of_ops()
    assert len(cases) > 100
    for op_type, case in cases.items():
        graph = bind(case).graph(PACKAGE.schemas[op_type], op_type)
        assert_same(read(write_dlc(graph, tmp_path / "net.dlc")), graph)


def test_outputs_are_those_of_the_graph(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    for graph, shape in ((small_graph(), (1, 4, 4, 2)), (float_graph(), (2, 8))):
        path = write_dlc(graph, tmp_path / "net.dlc")
        dovetail.convert(path).save(tmp_path / "net.dvt")
        x = draw.normal(size=shape).astype(np.float32)
        for model in (path, tmp_path / "net.dvt"):
            with dovetail.Session(model, backend="cpu") as session:
                (found,) = session.run({"x": x}).values()
            expected = _expected(graph, x)
            # float: sums of 8 products; quantized: one step of the output where sums tie
            np.testing.assert_allclose(found, expected, atol=1e-5 if shape == (2, 8) else 2.0)


def _expected(graph: Graph, x: Any) -> Any:
    """Compute the small graphs in NumPy."""
    if "fc" in {node.name for node in graph.nodes}:
        y = x @ graph.tensor("w").values().T
        return np.where(y > 0, y, 0.75 * np.expm1(y))
    x = np.clip(np.rint(x / 0.125) * 0.125, -16, 15.875)
    scales = np.array([0.5, 0.25, 0.125])
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.stack([padded[:, i : i + 4, j : j + 4] for i in range(3) for j in range(3)], 3)
    kernel = graph.tensor("w").values().reshape(9, 2, 3) * scales
    y = np.einsum("nhwkc,kco->nhwo", windows, kernel) + np.arange(3) * scales / 8
    z = np.clip(np.rint(y), 0, 155)
    return np.clip(2 * np.rint(2 * z / 2), 0, 510)


def test_several_graphs_with_a_shared_weight(tmp_path: Path) -> None:
    """A file with the tables of two files, whose payloads are one after the other."""
    paths = [write_dlc(float_graph(name), tmp_path / f"{name}.dlc") for name in ("a", "b")]
    parts = [members_of(path) for path in paths]
    models = [_tables(each["model"], ModelTable) for each in parts]
    payloads = [_tables(each["model.params"], PayloadsTable) for each in parts]
    merged = {
        "model": _stream(ModelTable(sum((m.graphs for m in models), ())), GRAPHS),
        "model.params": _stream(PayloadsTable(sum((p.graphs for p in payloads), ())), PARAMS),
        "model.params.bin": parts[0]["model.params.bin"],
    }
    found = DlcFrontend().read(write_members(tmp_path / "both.dlc", merged))
    assert [graph.name for graph in found] == ["a", "b"]
    for graph in found:
        assert_same(graph, float_graph(graph.name))
    assert found[0].tensor("w").data is found[1].tensor("w").data
    model = dovetail.convert(tmp_path / "both.dlc")
    assert list(model.graphs) == ["a", "b"]


def test_all_graphs_of_a_model_are_written(tmp_path: Path) -> None:
    graphs = [float_graph("a"), small_graph(), float_graph("c")]
    graphs[2].tensor("x").source = "the input"
    graphs[2].tensor("w").data = graphs[0].tensor("w").data
    model = Model.of(*graphs, producer=Producer("tests", "1"), registry=installed_ops())
    assert dovetail.export(model, tmp_path / "all.dlc") == ()
    found = DlcFrontend().read(tmp_path / "all.dlc")
    assert [graph.name for graph in found] == [graph.name for graph in graphs]
    for graph, written in zip(found, graphs, strict=True):
        assert_same(graph, written)
        assert graph.inputs[0].source == written.inputs[0].source
    assert found[0].tensor("w").data is found[2].tensor("w").data
    dovetail.export(model, tmp_path / "one.dlc", graph="c")
    assert [graph.name for graph in DlcFrontend().read(tmp_path / "one.dlc")] == ["c"]


def _tables(stream: bytes, declared: type[Any]) -> Any:
    faults = FaultList()
    found = decode(memoryview(stream)[PREFIX_BYTES:], declared, "stream", faults)
    assert faults.problems == []
    return found


def _stream(root: object, identifier: bytes) -> bytes:
    return pack_stream(encode(root, identifier))


def inline(members: dict[str, bytes]) -> dict[str, bytes]:
    """Return members with the payloads in the stream, as old files have them."""
    outside = members["model.params.bin"]

    def filled(given: tuple[PayloadTable, ...]) -> tuple[PayloadTable, ...]:
        return tuple(
            replace(p, location=None, bytes=outside[p.location.offset :][: p.location.size])
            for p in given
            if p.location is not None
        )

    root = PayloadsTable(
        tuple(
            GraphPayloadsTable(
                graph.name,
                filled(graph.tensors),
                tuple(NodePayloadsTable(filled(node.tensors)) for node in graph.nodes),
            )
            for graph in _tables(members["model.params"], PayloadsTable).graphs
        )
    )
    rest = {name: data for name, data in members.items() if name != "model.params.bin"}
    return rest | {"model.params": _stream(root, PARAMS)}


def in_buffers(members: dict[str, bytes]) -> dict[str, bytes]:
    """Return members with the payloads in the buffers of NR64."""
    (graph,) = _tables(inline(members)["model.params"], PayloadsTable).graphs
    records = [*graph.tensors, *(p for node in graph.nodes for p in node.tensors)]
    named = GraphPayloadsTable(
        graph.name,
        tuple(PayloadTable(p.name) for p in graph.tensors),
        tuple(
            NodePayloadsTable(tuple(PayloadTable(p.name) for p in node.tensors))
            for node in graph.nodes
        ),
    )
    params = memoryview(encode(PayloadsTable((named,)), PARAMS))
    root = WidePayloadsTable(tuple(BufferTable(p.bytes) for p in records), params)
    return inline(members) | {"model.params": _stream(root, WIDE_PARAMS)}


def with_versions(members: dict[str, bytes]) -> dict[str, bytes]:
    """Return members whose names end with a version, the newest last, among others."""
    renamed = {f"{name}2.10.0": data for name, data in members.items()}
    return {"model2.9.0": b"older", "notes.txt": b"more"} | renamed


@pytest.mark.parametrize("change", [dict, inline, in_buffers, with_versions])
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("has_crcs", [True, False])
def test_forms_of_files(change: Any, compression: int, has_crcs: bool, tmp_path: Path) -> None:
    members = change(members_of(write_dlc(small_graph(), tmp_path / "net.dlc")))
    path = write_members(tmp_path / "other", members, compression)
    if not has_crcs and compression == zipfile.ZIP_STORED:
        path.write_bytes(without_crcs(path.read_bytes()))
    assert DlcFrontend().recognises(path)
    assert_same(read(path), small_graph())


def test_weights_are_mapped_from_the_file(tmp_path: Path) -> None:
    path = write_dlc(small_graph(), tmp_path / "net.dlc")
    graph = read(path)
    stored = [t.data for t in graph.tensors.values() if t.data is not None]
    assert len(stored) == 2
    assert all(isinstance(blob, MappedBlob) for blob in stored)
    large = Graph("large")
    weights = np.arange(70_000, dtype=np.float32)
    for tensor in (
        Tensor("x", DType.FLOAT_32, (70_000,), TensorKind.APP_WRITE),
        Tensor.static("w", weights),
        Tensor("y", DType.FLOAT_32, (70_000,), TensorKind.APP_READ),
    ):
        large.add_tensor(tensor)
    x, w, y = large.tensors.values()
    large.add_node(Node("add", PACKAGE.name, "ElementWiseAdd", [x, w], [y]))
    values = read(write_dlc(large, path)).tensor("w").values()
    assert values.ctypes.data % 64 == 0
    assert not values.flags.owndata
    np.testing.assert_array_equal(values, weights)
    # the same weights at an odd address of the file
    moved = {"odd": b"x"} | members_of(path)
    values = read(write_members(tmp_path / "odd.dlc", moved)).tensor("w").values()
    assert values.ctypes.data % 4 == 0
    np.testing.assert_array_equal(values, weights)


def test_encodings_of_float_tensors_are_kept_for_the_quantizer(tmp_path: Path) -> None:
    graph = float_graph()
    graph.source_encodings = {
        "y": Spec(DType.UFIXED_POINT_8, (2, 300), ScaleOffset(0.25, -100)),
        "w": Spec(
            DType.SFIXED_POINT_8, (300, 8), AxisScaleOffset(0, np.full(300, 0.5, np.float32))
        ),
        "elsewhere": Spec(DType.UFIXED_POINT_8, (1,), ScaleOffset(0.25)),
    }
    found = read(write_dlc(graph, tmp_path / "net.dlc"))
    assert_same(found, graph)
    assert found.source_encodings == graph.source_encodings


def test_omitted_inputs_and_scalars_of_all_types(tmp_path: Path) -> None:
    graph = Graph("mine")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1,), TensorKind.APP_WRITE))
    y = graph.add_tensor(Tensor("y", DType.FLOAT_32, (1,), TensorKind.APP_READ))
    scalars = {
        "a": Scalar(DType.INT_8, -3),
        "b": Scalar(DType.UINT_32, 2**32 - 1),
        "c": Scalar(DType.INT_64, -(2**63)),
        "d": Scalar(DType.UINT_64, 2**64 - 1),
        "e": Scalar(DType.FLOAT_32, -0.5),
        "f": Scalar(DType.FLOAT_64, 1e300),
        "g": Scalar(DType.BOOL_8, True),
        "h": Scalar(DType.STRING, "ä text"),
        "operation": Scalar(DType.UINT_32, 7),
    }
    scalars["i"], scalars["j"] = Scalar(DType.FLOAT_32, 0.0), Scalar(DType.INT_32, 0)
    graph.add_node(Node("node", "my.pkg", "Pool", [None, x, None], [y], scalars))
    made = read(write_dlc(graph, tmp_path / "net.dlc"))
    assert_same(made, graph)
    params = made.nodes[0].params
    assert {n: type(params[n].value) for n in scalars} == {
        n: type(each.value) for n, each in scalars.items()
    }


@pytest.mark.parametrize(
    "encoding",
    [
        BlockwiseExpansion(0, np.ones(300, np.float32), np.ones((300, 2), np.uint8)),
        Block((1, 4), np.full((300, 2), 0.5, np.float32)),
    ],
)
def test_encodings_of_blocks_are_extras(encoding: Encoding, tmp_path: Path) -> None:
    graph = float_graph()
    w = graph.tensor("w")
    w.dtype, w.encoding = DType.SFIXED_POINT_8, encoding
    w.data = Tensor.static("w", np.zeros((300, 8), np.int8)).data
    notes = DlcExporter().export(graph, tmp_path / "net.dlc", QnnExportOptions())
    kind = encoding.kind.name
    assert notes == (f"encodings of kind {kind} are in dovetail.json, which only Dovetail reads",)
    assert_same(read(tmp_path / "net.dlc"), graph)


def test_what_a_dlc_cannot_express_is_listed(tmp_path: Path) -> None:
    graph = float_graph()
    graph.tensor("x").dynamic = (True, False)
    with pytest.raises(UnsupportedOpError) as caught:
        write_dlc(graph, tmp_path / "net.dlc")
    assert [p.where for p in caught.value.problems] == ["tensor 'x'"]
    graph = float_graph()
    graph.rename({graph.tensor("y"): "\ud800"}, {})
    with pytest.raises(UnsupportedOpError, match="surrogate"):
        write_dlc(graph, tmp_path / "net.dlc")
    graph.tensor("\ud800").shape = (3, 3)
    graph.tensor("w").data = None
    with pytest.raises(GraphError):
        write_dlc(graph, tmp_path / "net.dlc")
    assert list(tmp_path.iterdir()) == []


def test_options(tmp_path: Path) -> None:
    path = write_dlc(float_graph(), tmp_path / "net.dlc")
    (cut,) = DlcFrontend().read(path, FrontendOptions(out_names=("y",), batch=2))
    assert [t.name for t in cut.outputs] == ["y"]
    assert [node.name for node in cut.nodes] == ["fc"]
    wrong = FrontendOptions(input_dims={"x": (3, 9), "xx": (1,)}, out_names=("yy", "w"), batch=2)
    with pytest.raises(ConfigError) as caught:
        DlcFrontend().read(path, wrong)
    assert [p.where for p in caught.value.problems] == [
        "--input-dim x",
        "--input-dim xx",
        "--out-name yy",
        "--out-name w",
    ]


@pytest.mark.parametrize("options", [{"batch": 5}, {"input_dims": {"x": (5, 8)}}])
def test_the_batch_is_changed_when_a_file_is_read(options: Any, tmp_path: Path) -> None:
    path = write_dlc(float_graph(), tmp_path / "net.dlc")
    (graph,) = DlcFrontend().read(path, FrontendOptions(**options))
    assert [graph.tensor(name).shape for name in "xyz"] == [(5, 8), (5, 300), (5, 300)]


def test_nodes_that_cannot_have_another_batch_are_listed(tmp_path: Path) -> None:
    graph = float_graph()
    elu = graph.nodes[1]
    elu.op_type, elu.package = "Shrink", "acme"
    path = write_dlc(graph, tmp_path / "net.dlc")
    with pytest.raises(ConfigError) as caught:
        DlcFrontend().read(path, FrontendOptions(batch=5))
    (problem,) = caught.value.problems
    assert "elu" in problem.where
    assert "cannot have another batch" in caught.value.message
    assert "with this batch" in caught.value.hint
    path = write_dlc(float_graph(), tmp_path / "net.dlc")
    with pytest.raises(ConfigError, match="cannot have the batch 0"):
        DlcFrontend().read(path, FrontendOptions(input_dims={"x": (0, 8)}))
    with pytest.raises(ConfigError, match="--batch: impossible value 0"):
        DlcFrontend().read(path, FrontendOptions(batch=0))


def test_a_survey(tmp_path: Path) -> None:
    graph = float_graph()
    graph.nodes[1].package, graph.nodes[1].op_type = "my.pkg", "Mine"
    found = DlcFrontend().dry_run(write_dlc(graph, tmp_path / "net.dlc"))
    assert [(op.domain, op.op_type, op.count, op.supported) for op in found.operators] == [
        ("my.pkg", "Mine", 1, False),
        ("qti.aisw", "FullyConnected", 1, True),
    ]
    assert len(found.problems) == 1


@pytest.mark.parametrize("make", [small_graph, float_graph])
def test_rules_of_the_viewer_netron(make: Callable[[], Graph], tmp_path: Path) -> None:
    """Source: Netron's dlc.js and dlc-schema.js, as facts."""
    members = members_of(write_dlc(make(), tmp_path / "net.dlc"))
    for name, identifier in (("model", b"NETD"), ("model.params", b"NETP")):
        assert members[name][:4] == b"\xd5\x0a\x04\x00"
        assert members[name][5:7] == b"\0\0"
        assert members[name][12:16] == identifier
    graphs = _tables(members["model"], ModelTable).graphs
    payloads = _tables(members["model.params"], PayloadsTable).graphs
    assert [graph.name for graph in graphs] == [graph.name for graph in payloads]
    for graph, given in zip(graphs, payloads, strict=True):
        assert len(given.nodes) == len(graph.nodes)
        stored = {payload.name for payload in given.tensors}
        assert {t.name for t in graph.tensors if t.kind == TensorKind.STATIC} == stored
        tensors = [*graph.tensors]
        for node, of_node in zip(graph.nodes, given.nodes, strict=True):
            inner = [a.tensor for a in node.attributes if a.tensor is not None]
            assert {t.name for t in inner} == {payload.name for payload in of_node.tensors}
            assert all(a.kind == (a.tensor is not None) for a in node.attributes)
            kinds = {a.value.kind for a in node.attributes if a.value is not None}
            assert kinds <= {0x0032, 0x0108, 0x0132, 0x0232, 0x0508, 0x0608}
            tensors += inner
        assert all(DType(t.dtype) and DType(t.source_dtype) for t in tensors)
    lines = members["dlc.metadata"].decode().splitlines()
    assert all("=" in line for line in lines)
