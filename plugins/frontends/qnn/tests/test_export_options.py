"""Options of the exporters: what each changes in the files."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import msgspec
import numpy as np
import pytest
from dlc_files import assert_same, members_of, write_members
from same_graphs import description
from small_graphs import convolution

from dovetail.errors import FrontendError
from dovetail.ir import DType, Graph, Node, ScaleOffset, Spec, Tensor, TensorKind, run_passes
from dovetail_opset.passes import SingleOps
from dovetail_qnn import (
    QnnCppExporter,
    QnnCppFrontend,
    QnnCppOptions,
    QnnExportOptions,
    QnnJsonExporter,
    QnnJsonFrontend,
)
from dovetail_qnn.dlc import DlcExporter, DlcFrontend

NOTE = "Copyright (c) 2024\n// dovetail {}\n*/ #error"


def functions() -> Graph:
    """Return a graph with an activation and a sum as single ops."""
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2,), TensorKind.APP_WRITE))
    t = graph.add_tensor(Tensor("t", DType.FLOAT_32, (2,), source="hidden"))
    w = graph.add_tensor(Tensor.static("0", np.ones(2, np.float32)))
    y = graph.add_tensor(Tensor("y", DType.FLOAT_32, (2,), TensorKind.APP_READ))
    graph.add_node(Node("relu", "qti.aisw", "Relu", [x], [t]))
    graph.add_node(Node("add", "qti.aisw", "ElementWiseAdd", [t, w], [y], sources=("a", "b")))
    graph.removed_sources = frozenset({"gone"})
    graph.source_encodings = {"elsewhere": Spec(DType.UFIXED_POINT_8, (1,), ScaleOffset(0.25))}
    return graph


def exported(options: QnnCppOptions, folder: Path) -> list[Graph]:
    """Return a graph as it is read from each of the three formats."""
    QnnCppExporter().export(functions(), folder / "net.cpp", options)
    QnnJsonExporter().export(functions(), folder / "alone_net.json", options)
    DlcExporter().export(functions(), folder / "net.dlc", options)
    return [
        *QnnCppFrontend().read(folder / "net.cpp"),
        *QnnJsonFrontend().read(folder / "net_net.json"),
        *QnnJsonFrontend().read(folder / "alone_net.json"),
        *DlcFrontend().read(folder / "net.dlc"),
    ]


def test_styles_of_ops(tmp_path: Path) -> None:
    cpp, json_of_cpp, alone, _ = exported(QnnCppOptions(op_style="2.27"), tmp_path)
    for graph in (cpp, json_of_cpp, alone):
        types = [node.op_type for node in graph.nodes]
        assert types == ["ElementWiseNeuron", "ElementWiseBinary"]
        run_passes(graph, [SingleOps()])
        assert [node.op_type for node in graph.nodes] == ["Relu", "ElementWiseAdd"]
    for graph in exported(QnnCppOptions(op_style="2.18"), tmp_path):
        assert [node.op_type for node in graph.nodes] == ["Relu", "ElementWiseAdd"]


def test_copyright_and_version_are_in_every_file(tmp_path: Path) -> None:
    options = QnnCppOptions(copyright=NOTE, model_version="7.b")
    for graph in exported(options, tmp_path):
        graph.name = "net"
        assert description(graph) == description(functions())
    head = (tmp_path / "net.cpp").read_text("utf-8").splitlines()[:5]
    assert head[:4] == [
        "// Copyright:",
        "//   Copyright (c) 2024",
        "//   // dovetail {}",
        "//   */ #error",
    ]
    assert head[4] == "// Model version: 7.b"
    for name in ("net_net.json", "alone_net.json"):
        data = json.loads((tmp_path / name).read_text("utf-8"))
        assert (data["copyright_str"], data["model_version"]) == (NOTE, "7.b")
    lines = members_of(tmp_path / "net.dlc")["dlc.metadata"].decode().splitlines()
    assert "model-version=7.b" in lines
    assert r"model-copyright=Copyright (c) 2024\n// dovetail {}\n*/ #error" in lines


def test_the_package_of_all_nodes(tmp_path: Path) -> None:
    for graph in exported(QnnCppOptions(package_name="my.ops"), tmp_path):
        assert [(node.package, node.op_type) for node in graph.nodes] == [
            ("my.ops", "Relu"),
            ("my.ops", "ElementWiseAdd"),
        ]


def test_numbered_tensors_have_no_names_of_the_source_model(tmp_path: Path) -> None:
    for graph in exported(QnnCppOptions(exclude_named_tensors=True), tmp_path):
        assert sorted(graph.tensors) == ["0", "1", "x", "y"]
        assert {t.source for t in graph.tensors.values()} == {"0", "1", "x", "y"}
        assert graph.tensor("1").values().tolist() == [1, 1]
    files = [p.read_bytes() for p in tmp_path.iterdir() if p.suffix != ".bin"]
    assert len(files) == 4
    assert not any(b"hidden" in data or b"gone" in data for data in files)


def test_names_of_the_file_are_those_of_the_graph(tmp_path: Path) -> None:
    graph = functions()
    tensor, node = graph.tensor("x"), graph.nodes[0]
    graph.rename({tensor: "1/x:0"}, {node: "a.b"})
    tensor.source = "1/x:0"
    for suffix, exporter, frontend in (
        (".json", QnnJsonExporter(), QnnJsonFrontend()),
        (".cpp", QnnCppExporter(), QnnCppFrontend()),
        (".dlc", DlcExporter(), DlcFrontend()),
    ):
        path = tmp_path / f"net{suffix}"
        exporter.export(graph, path, QnnCppOptions(c_names=True))
        (found,) = frontend.read(path)
        assert (found.inputs[0].name, found.inputs[0].source) == ("_1_x_0", "1/x:0")
        assert found.nodes[0].name == "a_b"


def test_functions_named_after_the_file(tmp_path: Path) -> None:
    path = tmp_path / "my-net.cpp"
    QnnCppExporter().export(convolution(), path, QnnCppOptions(overwrite_model_prefix=True))
    text = path.read_text("utf-8")
    assert "ModelError_t my_net_composeGraphs(" in text
    assert "ModelError_t my_net_freeGraphsInfo(" in text
    assert "QnnModel_" not in text
    (found,) = QnnCppFrontend().read(path)
    assert description(found) == description(convolution())


def test_a_dlc_keeps_everything(tmp_path: Path) -> None:
    for make in (functions, convolution):
        notes = DlcExporter().export(make(), tmp_path / "net.dlc", QnnExportOptions())
        assert notes == ()
        (found,) = DlcFrontend().read(tmp_path / "net.dlc")
        assert description(found) == description(make())


def test_a_dlc_without_further_facts_has_no_further_member(tmp_path: Path) -> None:
    graph = functions()
    graph.removed_sources, graph.source_encodings = frozenset(), {}
    graph.tensor("t").source = "t"
    graph.node("add").sources = ("add",)
    DlcExporter().export(graph, tmp_path / "net.dlc", QnnExportOptions())
    with zipfile.ZipFile(tmp_path / "net.dlc") as archive:
        assert "dovetail.json" not in archive.namelist()


def test_a_dlc_without_the_member_is_read(tmp_path: Path) -> None:
    DlcExporter().export(functions(), tmp_path / "net.dlc", QnnExportOptions())
    members = members_of(tmp_path / "net.dlc")
    del members["dovetail.json"]
    (found,) = DlcFrontend().read(write_members(tmp_path / "other.dlc", members))
    assert_same(found, functions())
    assert found.tensor("t").source == "t"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"{", "not JSON"),
        (b"[1]", "not JSON"),
        (b'{"net": {"color": 1}}', "unknown key"),
        (b'{"net": {"tensors": {"t": {"source_perm": [1]}}}}', "not a permutation"),
        (b'{"net": {"tensors": {"t": {"name": "u"}}}}', "cannot be renamed in place"),
        (
            b'{"net": {"grids": {"t": {"dtype": 3, "shape": [], "encoding": {}}}}}',
            "missing required field",
        ),
        (b"[" * 5000, "not JSON"),
    ],
)
def test_faults_of_the_member(content: bytes, text: str, tmp_path: Path) -> None:
    DlcExporter().export(functions(), tmp_path / "net.dlc", QnnExportOptions())
    members = members_of(tmp_path / "net.dlc") | {"dovetail.json": content}
    with pytest.raises(FrontendError) as caught:
        DlcFrontend().read(write_members(tmp_path / "bad.dlc", members))
    assert text in str(caught.value)


def test_options_are_plain_data() -> None:
    made = msgspec.convert({"op_style": "2.18", "package_name": "p"}, QnnExportOptions)
    assert (made.op_style, made.package_name, made.exclude_named_tensors) == ("2.18", "p", False)
