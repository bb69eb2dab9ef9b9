"""`X.cpp` with `X.bin` gives a graph back, and so does the `X_net.json` next to it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from graph_strategies import graphs
from hypothesis import HealthCheck, assume, given, settings
from plain_values import with_plain_values
from same_graphs import description
from small_graphs import convolution

from dovetail.container import MappedBlob
from dovetail.errors import UnsupportedOpError
from dovetail.ir import (
    AxisScaleOffset,
    Block,
    DType,
    EncodingKind,
    Graph,
    Node,
    Scalar,
    Tensor,
    TensorKind,
)
from dovetail_qnn import QnnCppExporter, QnnCppFrontend, QnnCppOptions, QnnJsonFrontend
from dovetail_qnn._export_options import OpStyle

EXPRESSIBLE = [k for k in EncodingKind if k <= EncodingKind.BW_AXIS_SCALE_OFFSET]


def is_expressible(graph: Graph) -> bool:
    params = (p for node in graph.nodes for p in node.params.values() if isinstance(p, Tensor))
    tensors = [*graph.tensors.values(), *params]
    return all(t.encoding is None or t.encoding.kind in EXPRESSIBLE for t in tensors)


def with_exact_scalars(graph: Graph) -> Graph:
    """Give scalars values that their types hold exactly, as C++ does."""
    kinds = {DType.FLOAT_32: np.float32, DType.FLOAT_16: np.float16, DType.BFLOAT_16: np.float16}
    for node in graph.nodes:
        for name, param in node.params.items():
            if isinstance(param, Scalar) and param.dtype in kinds:
                value = float(kinds[param.dtype](min(max(float(param.value), -1e3), 1e3)))
                if param.dtype is DType.BFLOAT_16:
                    value = float(np.sign(value))
                node.params[name] = Scalar(param.dtype, value)
    return graph


@settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)
@given(graphs().map(with_plain_values).map(with_exact_scalars))
@pytest.mark.parametrize("op_style", [None, "2.18"])
def test_every_graph_that_it_can_express_comes_back(op_style: OpStyle | None, graph: Graph) -> None:
    assume(is_expressible(graph))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.cpp"
        QnnCppExporter().export(graph, path, QnnCppOptions(op_style=op_style))
        (found,) = QnnCppFrontend().read(path)
        assert description(found) == description(graph)
        (other,) = QnnJsonFrontend().read(path.with_name("net_net.json"))
        assert description(other) == description(graph)


def test_three_files_are_written(tmp_path: Path) -> None:
    QnnCppExporter().export(convolution(), tmp_path / "net.cpp", QnnCppOptions())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.bin", "net.cpp", "net_net.json"]
    (graph,) = QnnCppFrontend().read(tmp_path / "net.cpp")
    assert isinstance(graph.tensor("conv.weight").data, MappedBlob)


def test_the_older_form_has_single_ops(tmp_path: Path) -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2,), TensorKind.APP_WRITE))
    y = graph.add_tensor(Tensor("y", DType.FLOAT_32, (2,), TensorKind.APP_READ))
    operation = {"operation": Scalar(DType.UINT_32, 4)}
    graph.add_node(Node("n", "qti.aisw", "ElementWiseNeuron", [x], [y], operation))
    styles: tuple[tuple[OpStyle | None, str], ...] = ((None, "ElementWiseNeuron"), ("2.18", "Relu"))
    for style, expected in styles:
        QnnCppExporter().export(graph, tmp_path / "net.cpp", QnnCppOptions(op_style=style))
        (found,) = QnnCppFrontend().read(tmp_path / "net.cpp")
        assert found.node("n").op_type == expected
    assert graph.node("n").op_type == "ElementWiseNeuron"


def test_encodings_that_cpp_cannot_express_are_listed(tmp_path: Path) -> None:
    graph = convolution()
    block = Block((3, 3, 3, 1), np.ones((1, 1, 1, 2), np.float32))
    for name in ("conv.weight",):
        graph.tensor(name).encoding = block
    with pytest.raises(UnsupportedOpError) as caught:
        QnnCppExporter().export(graph, tmp_path / "net.cpp", QnnCppOptions())
    assert "tensor 'conv.weight': encoding of kind BLOCK" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_least_and_the_largest_offset_come_back(tmp_path: Path) -> None:
    graph = convolution()
    limits = AxisScaleOffset(3, np.float32([0.1, 0.2]), np.int32([-(2**31), 2**31 - 1]))
    graph.tensor("conv.weight").encoding = limits
    QnnCppExporter().export(graph, tmp_path / "net.cpp", QnnCppOptions())
    (found,) = QnnCppFrontend().read(tmp_path / "net.cpp")
    assert found.tensor("conv.weight").encoding == limits
    (other,) = QnnJsonFrontend().read(tmp_path / "net_net.json")
    assert other.tensor("conv.weight").encoding == limits


def test_narrow_encodings_along_an_axis_come_back(tmp_path: Path) -> None:
    graph = convolution()
    narrow = AxisScaleOffset(3, np.float32([0.1, 1e-7]), None, 4)
    weight = graph.tensor("conv.weight")
    weight.encoding = narrow
    weight.data = Tensor.static("w", np.full((3, 3, 3, 2), -3, np.int8)).data
    QnnCppExporter().export(graph, tmp_path / "net.cpp", QnnCppOptions())
    (found,) = QnnCppFrontend().read(tmp_path / "net.cpp")
    assert found.tensor("conv.weight").encoding == narrow
    assert np.all(found.tensor("conv.weight").values() == -3)
