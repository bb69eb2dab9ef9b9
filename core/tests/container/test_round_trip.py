"""Whatever a graph can be, a file gives it back."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_strategies import graphs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail.container import Model, Producer
from dovetail.errors import ContainerError, GraphError
from dovetail.ir import (
    AxisScaleOffset,
    DType,
    Encoding,
    Graph,
    Node,
    Param,
    Scalar,
    Tensor,
    TensorKind,
    pack,
)
from dovetail.ops import OpPackage, OpRegistry

MADE_BY = Producer("test", "1")


def facts_of_encoding(encoding: Encoding | None) -> Any:
    if encoding is None:
        return None
    fields = [getattr(encoding, name) for name in encoding.__struct_fields__]
    plain = [(f.dtype, f.shape, f.tobytes()) if isinstance(f, np.ndarray) else f for f in fields]
    return type(encoding), plain


def facts_of_tensor(t: Tensor) -> Any:
    data = None if t.data is None else (t.data.hash, t.data.bytes.tobytes())
    facts = (t.name, t.dtype, t.shape, t.kind, t.source, t.source_perm, data)
    storage = (t.dynamic, t.memory_type, t.data_format)
    return *facts, storage, facts_of_encoding(t.encoding)


def facts_of_param(param: Param) -> Any:
    if isinstance(param, Tensor):
        return facts_of_tensor(param)
    # repr, so that NaN is itself, -0.0 is not 0.0 and True is not 1
    return param.dtype, repr(param.value)


def facts_of(graph: Graph) -> Any:
    nodes = [
        (
            (n.name, n.package, n.op_type, n.sources),
            [None if t is None else t.name for t in n.inputs],
            [t.name for t in n.outputs],
            [(name, facts_of_param(p)) for name, p in n.params.items()],
        )
        for n in graph.nodes
    ]
    interface = [t.name for t in graph.inputs], [t.name for t in graph.outputs]
    return graph.name, [facts_of_tensor(t) for t in graph.tensors.values()], nodes, interface


def model_of(*given: Graph) -> Model:
    return Model({g.name: g for g in given}, MADE_BY, {"qti.aisw": "1", "my.pkg": "2"})


@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(st.lists(graphs(), max_size=2, unique_by=lambda g: g.name))
def test_every_graph_comes_back(given_graphs: list[Graph]) -> None:
    model = model_of(*given_graphs)
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder, "a.dvt"), Path(folder, "b.dvt")
        model.save(first)
        loaded = Model.load(first)
        loaded.save(second)
        assert first.read_bytes() == second.read_bytes()
    assert list(loaded.graphs) == list(model.graphs)
    for name, graph in model.graphs.items():
        assert facts_of(loaded.graphs[name]) == facts_of(graph)


def test_the_rest_of_a_model_comes_back(model: Model, saved: Path) -> None:
    loaded = Model.load(saved)
    assert loaded.producer == model.producer
    assert loaded.op_packages == model.op_packages
    assert [facts_of(g) for g in loaded.graphs.values()] == [
        facts_of(g) for g in model.graphs.values()
    ]


def test_values_come_back_in_their_own_terms(saved: Path) -> None:
    tensors = Model.load(saved).graphs["decode"].tensors
    assert tensors["text"].values().tolist() == ["a", "", "ü"]
    expected = np.arange(160).reshape(80, 2) % 8
    assert np.array_equal(tensors["expanded"].values(), expected - 4)
    assert np.array_equal(tensors["axis"].values(), expected)


def test_numpy_scalars_are_stored_as_what_they_are(tmp_path: Path) -> None:
    graph = Graph("g")
    out = graph.add_tensor(Tensor("out", DType.FLOAT_32, (), TensorKind.APP_READ))
    params: dict[str, Param] = {
        "a": Scalar(DType.FLOAT_32, np.float32(0.1)),  # type: ignore[arg-type]
        "b": Scalar(DType.UINT_32, np.uint32(7)),  # type: ignore[arg-type]
        "c": Scalar(DType.BOOL_8, np.bool_(True)),  # type: ignore[arg-type]
    }
    graph.add_node(Node("n", "my.pkg", "Make", [], [out], params))
    model_of(graph).save(tmp_path / "m.dvt")
    [node] = Model.load(tmp_path / "m.dvt").graphs["g"].nodes
    values = [p.value for p in node.params.values() if isinstance(p, Scalar)]
    assert list(map(repr, values)) == [repr(float(np.float32(0.1))), "7", "True"]


def test_order_of_inputs_and_outputs_is_kept(tmp_path: Path) -> None:
    graph = Graph("g")
    for name in ("z", "a", "m"):
        graph.add_tensor(Tensor(name, DType.INT_8, (1,), TensorKind.APP_WRITE))
    graph.reorder_interface(["m", "z", "a"], [])
    model_of(graph).save(tmp_path / "m.dvt")
    loaded = Model.load(tmp_path / "m.dvt").graphs["g"]
    assert [t.name for t in loaded.inputs] == ["m", "z", "a"]


def test_versions_of_op_packages_come_from_the_registry(model: Model) -> None:
    registry = OpRegistry.of(OpPackage("qti.aisw", "2.5"), OpPackage("my.pkg"), OpPackage("other"))
    made = Model.of(*model.graphs.values(), producer=MADE_BY, registry=registry)
    assert made.op_packages == {"my.pkg": "1.0.0", "qti.aisw": "2.5"}
    assert list(made.graphs) == ["prefill", "decode"]


def test_two_graphs_of_one_name_are_refused() -> None:
    with pytest.raises(GraphError, match="duplicate graph name 'g'"):
        Model.of(Graph("g"), Graph("g"), producer=MADE_BY, registry=OpRegistry.of())


def test_a_graph_under_another_name_is_refused() -> None:
    with pytest.raises(GraphError, match="'g' has the key 'h'"):
        Model({"h": Graph("g")}, MADE_BY, {})


def single(tensor: Tensor) -> Model:
    graph = Graph("g")
    graph.add_tensor(tensor)
    return model_of(graph)


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (Tensor("t", DType.INT_8, (1,) * 65), "rank 65"),
        (Tensor("t", DType.INT_8, (2**32 - 1, 2**32 - 1, 0)), "impossible shape"),
        (Tensor("t", DType.INT_8, (2, 3), source_perm=(0, 0)), "source_perm"),
        (
            Tensor(
                "t", DType.STRING, (2,), TensorKind.STATIC, data=pack(np.array(["a"]), DType.STRING)
            ),
            "2 texts",
        ),
        (
            Tensor(
                "t",
                DType.STRING,
                (1,),
                TensorKind.STATIC,
                data=pack(np.uint8([255, 0]), DType.UINT_8),
            ),
            "not UTF-8",
        ),
        (
            Tensor(
                "t", DType.SFIXED_POINT_8, (2,), encoding=AxisScaleOffset(0, np.array([0.1, 1]))
            ),
            "float64",
        ),  # type: ignore[arg-type]
    ],
)
def test_what_the_format_cannot_hold_is_refused_before_writing(
    tensor: Tensor, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(GraphError, match=reason) as caught:
        single(tensor).save(tmp_path / "m.dvt")
    assert "graph 'g'" in caught.value.where
    assert "'t'" in caught.value.where
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("scalar", "reason"),
    [
        (Scalar(DType.UINT_8, 256), "256"),
        (Scalar(DType.INT_32, 1.5), "1.5"),
        (Scalar(DType.FLOAT_32, "1"), "FLOAT_32"),
        (Scalar(DType.STRING, 1), "STRING"),
        (Scalar(DType.BOOL_8, 2), "BOOL_8"),
        (Scalar(DType.UNDEFINED, 0), "UNDEFINED"),
        (Scalar(DType.FLOAT_64, 10**400), "FLOAT_64"),
    ],
)
def test_a_scalar_that_is_not_of_its_type_is_refused(
    scalar: Scalar, reason: str, tmp_path: Path
) -> None:
    graph = Graph("g")
    out = graph.add_tensor(Tensor("out", DType.FLOAT_32, (), TensorKind.APP_READ))
    graph.add_node(Node("n", "my.pkg", "Make", [], [out], {"p": scalar}))
    with pytest.raises(GraphError, match=reason) as caught:
        model_of(graph).save(tmp_path / "m.dvt")
    assert caught.value.where == "Make node 'n'"


@pytest.mark.parametrize(
    ("producer", "place"),
    [
        (Producer("t", "1", "folder/net.onnx"), "source"),
        (Producer("t", "1", "net.onnx", "abc"), "source_sha256"),
        (Producer("t", "1", options={"a": 1}), "options"),  # type: ignore[dict-item]
    ],
)
def test_a_producer_that_could_not_be_read_is_not_written(
    producer: Producer, place: str, tmp_path: Path
) -> None:
    with pytest.raises(ContainerError) as caught:
        Model({}, producer, {}).save(tmp_path / "m.dvt")
    assert f"$.producer.{place}" in caught.value.where
    assert list(tmp_path.iterdir()) == []
