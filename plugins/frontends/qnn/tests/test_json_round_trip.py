"""Whatever a graph can be, `X_net.json` with `X.bin` gives it back."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_strategies import graphs
from hypothesis import HealthCheck, given, settings
from netron_rules import broken_rules
from plain_values import with_plain_values
from same_graphs import description
from small_graphs import convolution

from dovetail.container import MappedBlob
from dovetail.errors import UnsupportedOpError
from dovetail.ir import DType, Graph, Node, ScaleOffset, Spec, Tensor, TensorKind
from dovetail_qnn import QnnCppOptions, QnnJsonExporter, QnnJsonFrontend

OPTIONS = QnnCppOptions()


def written(graph: Graph, folder: Path) -> Path:
    path = folder / "net_net.json"
    QnnJsonExporter().export(graph, path, OPTIONS)
    return path


@settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)
@given(graphs().map(with_plain_values))
def test_every_graph_comes_back(graph: Graph) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = written(graph, Path(folder))
        assert description(QnnJsonFrontend().read(path)[0]) == description(graph)


def test_source_encodings_and_removed_sources_come_back(tmp_path: Path) -> None:
    graph = convolution()
    graph.source_encodings["w"] = Spec(DType.SFIXED_POINT_8, (2, 3), ScaleOffset(0.5, 3))
    graph.removed_sources = frozenset({"old", "older"})
    assert description(QnnJsonFrontend().read(written(graph, tmp_path))[0]) == description(graph)


def test_equal_graphs_give_equal_bytes(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    files = []
    for folder in folders:
        folder.mkdir()
        path = written(convolution(), folder)
        files.append((path.read_bytes(), path.with_name("net.bin").read_bytes()))
        assert sorted(p.name for p in folder.iterdir()) == ["net.bin", "net_net.json"]
    assert files[0] == files[1]


def test_a_viewer_finds_everything(tmp_path: Path) -> None:
    path = written(convolution(), tmp_path)
    assert broken_rules(path) == []
    data = json.loads(path.read_bytes())
    assert data["op_types"] == ["Conv2d", "Relu"]
    tensors, nodes = data["graph"]["tensors"], data["graph"]["nodes"]
    assert list(tensors) == ["x", "y", "_conv_out", "conv_weight", "conv_bias"]
    assert (tensors["x"]["axis_format"], tensors["x"]["src_axis_format"]) == ("NHWC", "NCHW")
    assert tensors["conv_weight"]["params_count"] == "54 (96.43%)"
    assert tensors["x"]["quant_params"]["scale_offset"]["minimum"] == -64.0
    assert nodes["_conv"]["macs_per_inference"] == "216 (100.00%)"
    assert nodes["_conv"]["scalar_params"] == {"group": {"306": 1}}
    assert list(nodes["_conv"]["tensor_params"]["stride"]) == ["_conv_stride"]
    assert data["Total MACs per inference"] == "0.000216M"


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((), [0]),
        ((3,), [0, 1, 2]),
        ((0,), []),
        ((2, 2), [[0, 1], [2, 3]]),
        ((2, 0), [[], []]),
        ((2, 1, 2), [[0, 1], [2, 3]]),
        ((1, 2, 1, 2), [[0, 1], [2, 3]]),
    ],
)
def test_a_viewer_reads_params_of_any_rank(
    shape: tuple[int, ...], expected: list[Any], tmp_path: Path
) -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2,), TensorKind.APP_WRITE))
    y = graph.add_tensor(Tensor("y", DType.FLOAT_32, (2,), TensorKind.APP_READ))
    values = np.arange(math.prod(shape), dtype=np.uint32).reshape(shape)
    param = Tensor.static("mine.p", values)
    graph.add_node(Node("mine", "my.pkg", "Mine", [x], [y], {"p": param}))
    path = written(graph, tmp_path)
    assert broken_rules(path) == []
    (node,) = json.loads(path.read_bytes())["graph"]["nodes"].values()
    assert node["tensor_params"]["p"]["mine_p"]["data"] == expected
    assert description(QnnJsonFrontend().read(path)[0]) == description(graph)


def test_weights_are_mapped(tmp_path: Path) -> None:
    (graph,) = QnnJsonFrontend().read(written(convolution(), tmp_path))
    assert isinstance(graph.tensor("conv.weight").data, MappedBlob)


def test_names_that_become_equal_stay_different(tmp_path: Path) -> None:
    graph = Graph("net")
    add = graph.add_tensor
    names = ("a/b", "a.b", "a_b", "1")
    tensors = [add(Tensor(n, DType.FLOAT_32, (1,), TensorKind.APP_WRITE)) for n in names]
    out = add(Tensor("out", DType.FLOAT_32, (1,), TensorKind.APP_READ))
    graph.add_node(Node("n", "my.pkg", "Sum", tensors, [out]))
    path = written(graph, tmp_path)
    data = json.loads(path.read_bytes())["graph"]
    assert list(data["tensors"]) == ["a_b_1", "a_b_2", "a_b", "_1", "out"]
    assert data["nodes"]["n"]["macs_per_inference"] == ""  # nothing is known of the op
    assert description(QnnJsonFrontend().read(path)[0]) == description(graph)


def test_half_a_surrogate_pair_leaves_no_file(tmp_path: Path) -> None:
    graph = Graph("net")
    graph.add_tensor(Tensor("\ud800", DType.FLOAT_32, (1,), TensorKind.APP_WRITE))
    with pytest.raises(UnsupportedOpError, match="surrogate"):
        written(graph, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_graph_without_weights_has_no_bin(tmp_path: Path) -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2,), TensorKind.APP_WRITE))
    y = graph.add_tensor(Tensor("y", DType.FLOAT_32, (2,), TensorKind.APP_READ))
    graph.add_node(Node("relu", "qti.aisw", "Relu", [x], [y]))
    path = written(graph, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["net_net.json"]
    assert json.loads(path.read_bytes())["model.bin"] == "NA"
    assert description(QnnJsonFrontend().read(path)[0]) == description(graph)
