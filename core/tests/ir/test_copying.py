"""Copies of graphs: equal, apart, and with more outputs where these are asked for."""

from __future__ import annotations

import numpy as np

from dovetail.ir import (
    DataFormat,
    DType,
    Graph,
    MemoryType,
    Node,
    ScaleOffset,
    Spec,
    Tensor,
    TensorKind,
    add_like,
    copy_graph,
    copy_tensor,
    to_text,
)


def network() -> Graph:
    graph = Graph("net")
    x = graph.add_tensor(
        Tensor(
            "x",
            DType.FLOAT_32,
            (2,),
            TensorKind.APP_WRITE,
            dynamic=[True],
            memory_type=MemoryType.MEMHANDLE,
            data_format=DataFormat.MX,
        )
    )
    w = graph.add_tensor(Tensor.static("w", np.ones(2, np.float32)))
    kinds = (TensorKind.NATIVE, TensorKind.UPDATEABLE_NATIVE, TensorKind.APP_READ)
    for i, kind in enumerate(kinds):
        y = graph.add_tensor(Tensor(f"y{i}", DType.FLOAT_32, (2,), kind, source=f"of the user {i}"))
        graph.add_node(Node(f"n{i}", "p", "Add", [x, w, None], [y]))
        x = y
    return graph


def test_a_copy_is_equal_and_apart() -> None:
    graph = network()
    made = copy_graph(graph)
    assert to_text(made) == to_text(graph)
    assert "FLOAT_32[<=2] MX MEMHANDLE" in to_text(made)
    assert made.tensor("w").data is graph.tensor("w").data
    made.remove_node(made.nodes[-1])
    made.tensor("y0").dtype = DType.FLOAT_16
    assert len(graph.nodes) == 3
    assert graph.tensor("y0").dtype is DType.FLOAT_32


def test_inner_tensors_become_outputs_of_their_kind() -> None:
    made = copy_graph(network(), outputs=("y0", "y1", "y2", "x", "w"))
    assert [made.tensor(name).kind.name for name in ("x", "w", "y0", "y1", "y2")] == [
        "APP_WRITE",
        "STATIC",
        "APP_READ",
        "UPDATEABLE_APP_READ",
        "APP_READ",
    ]


def test_a_copy_of_a_tensor_with_another_kind_and_name() -> None:
    x = network().tensor("x")
    made = copy_tensor(x, TensorKind.NATIVE, name="inner")
    assert (made.name, made.kind, made.source) == ("inner", TensorKind.NATIVE, "x")
    assert (made.spec, made.dynamic, made.data_format) == (x.spec, x.dynamic, x.data_format)
    assert copy_tensor(x).name == "x"


def test_a_tensor_like_another_has_its_origin_but_neither_data_nor_encoding() -> None:
    graph, scale = Graph("net"), ScaleOffset(0.5)
    values, dtype = np.ones((2, 3), np.int8), DType.SFIXED_POINT_8
    w = graph.add_tensor(
        Tensor.static("w", values, dtype, encoding=scale, source="weights", source_perm=(1, 0))
    )
    first = add_like(graph, w, "w", kind=TensorKind.STATIC)
    second = add_like(graph, w, "w.real", Spec(DType.UFIXED_POINT_8, (6,), scale))
    assert list(graph.tensors.values()) == [w, first, second]
    assert (first.name, first.kind, first.data) == ("w_1", TensorKind.STATIC, None)
    assert first.spec == Spec(dtype, (2, 3))
    assert (second.name, second.kind) == ("w.real", TensorKind.NATIVE)
    assert second.spec == Spec(DType.UFIXED_POINT_8, (6,), scale)
    assert {(t.source, t.source_perm) for t in (first, second)} == {("weights", (1, 0))}


def test_a_copy_of_a_node_with_other_tensors_and_name() -> None:
    graph = network()
    node, y = graph.nodes[0], graph.tensor("y1")
    made = node.with_tensors([y, None], [y], name="again")
    assert (made.name, made.inputs, made.outputs) == ("again", (y, None), (y,))
    assert (made.package, made.op_type, made.sources) == ("p", "Add", node.sources)
    assert node.with_tensors([], []).name == "n0"
