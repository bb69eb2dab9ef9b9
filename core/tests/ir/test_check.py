"""The graph check: every fault of a broken graph, all at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dovetail.errors import GraphError
from dovetail.ir import (
    AxisScaleOffset,
    Blob,
    DataFormat,
    DType,
    Graph,
    MemoryType,
    Node,
    Scalar,
    ScaleOffset,
    Tensor,
    TensorKind,
    check,
    find_faults,
)

F32, U8 = DType.FLOAT_32, DType.UFIXED_POINT_8
WRITE, READ, NATIVE, STATIC = (
    TensorKind.APP_WRITE,
    TensorKind.APP_READ,
    TensorKind.NATIVE,
    TensorKind.STATIC,
)


def blob(count: int) -> Blob:
    return Blob(np.zeros(count, np.uint8))


def valid() -> Graph:
    """x -> a -> m -> b -> y, with weights, a param and a left-out input."""
    graph = Graph("g")
    x = graph.add_tensor(Tensor("x", U8, (2, 3), WRITE, encoding=ScaleOffset(0.1, -3)))
    w = graph.add_tensor(Tensor.static("w", np.ones((3, 2), np.float32)))
    m = graph.add_tensor(Tensor("m", F32, (2, 3)))
    y = graph.add_tensor(Tensor("y", F32, (2, 3), READ))
    graph.add_tensor(Tensor("null", DType.UNDEFINED, (), TensorKind.NULL))
    graph.add_tensor(Tensor("lora", F32, (2,), TensorKind.UPDATEABLE_STATIC, data=blob(8)))
    perm = Tensor.static("a.perm", np.array([0, 1], np.uint32))
    graph.add_node(Node("a", "p", "A", [x, None, w], [m], {"perm": perm}))
    graph.add_node(Node("b", "p", "B", [m], [y], {"axis": Scalar(DType.UINT_32, 1)}))
    return graph


def test_a_well_formed_graph_has_no_faults() -> None:
    assert find_faults(valid()) == []
    check(valid())
    check(Graph("empty"))


def tensor(graph: Graph, name: str = "t", dtype: DType = F32, **how: object) -> Tensor:
    given = {"shape": (2,), "kind": STATIC, "data": blob(8)} | how
    return graph.add_tensor(Tensor(name, dtype, **given))  # type: ignore[arg-type]


def wrong_length(graph: Graph) -> None:
    encoding = AxisScaleOffset(0, np.ones(3, np.float32))
    tensor(graph, dtype=U8, encoding=encoding, data=blob(2))


def stolen_output(graph: Graph) -> None:
    graph.set_outputs(graph.node("a"), [graph.tensor("y")])
    graph.remove_node(graph.node("b"))
    graph.add_node(Node("b", "p", "B", [graph.tensor("w")], [graph.tensor("m")]))
    graph.set_outputs(graph.node("b"), [graph.tensor("m"), graph.tensor("y")])


def renamed(graph: Graph) -> None:
    graph.tensor("lora").name = "other"


def foreign_input(graph: Graph) -> None:
    graph.set_inputs(graph.node("b"), [Tensor("s", F32, ())])


def param(value: Tensor) -> Callable[[Graph], None]:
    return lambda graph: graph.node("a").params.update(perm=value)


def unnamed_node(graph: Graph) -> None:
    graph.add_node(Node("", "p", "C", [graph.tensor("x")], []))


BREAKS: list[tuple[Callable[[Graph], object], list[tuple[str, str]]]] = [
    (lambda g: tensor(g, ""), [("tensor ''", "has no valid name")]),
    (lambda g: tensor(g, "a\0b"), [("tensor 'a\0b'", "has no valid name")]),
    (
        lambda g: tensor(g, shape=(2, -1)),
        [("tensor 't'", "has the impossible shape (2, -1)")],
    ),
    (
        lambda g: tensor(g, shape=(2**32,)),
        [("tensor 't'", "has the impossible shape (4294967296,)")],
    ),
    (
        lambda g: tensor(g, dtype=DType.UNDEFINED, data=blob(0)),
        [("tensor 't'", "has no data type")],
    ),
    (lambda g: tensor(g, data=None), [("tensor 't'", "is STATIC but has no data")]),
    (
        lambda g: tensor(g, kind=TensorKind.UPDATEABLE_STATIC, data=None),
        [
            (
                "tensor 't'",
                "is UPDATEABLE_STATIC but has no data; it needs values until the first update",
            )
        ],
    ),
    (
        lambda g: tensor(g, dynamic=(True,)),
        [("tensor 't'", "is STATIC, but has dynamic axes")],
    ),
    (
        lambda g: tensor(g, kind=WRITE, data=None, dynamic=(False, True)),
        [("tensor 't'", "has 2 marks of dynamic axes for the shape (2,)")],
    ),
    (
        lambda g: tensor(g, kind=WRITE, data=None, shape=(2, 0), dynamic=(False, True)),
        [("tensor 't'", "has a dynamic axis whose maximum is 0 in the shape (2, 0)")],
    ),
    (
        lambda g: tensor(g, memory_type=MemoryType.MEMHANDLE),
        [("tensor 't'", "is STATIC, but its memory type is MEMHANDLE")],
    ),
    (
        lambda g: tensor(g, kind=NATIVE),
        [("tensor 't'", "is NATIVE, but has data")],
    ),
    (
        lambda g: tensor(g, data=blob(7)),
        [("tensor 't'", "has 7 bytes of data, but FLOAT_32 (2,) takes 8")],
    ),
    (
        lambda g: tensor(g, dtype=DType.SFIXED_POINT_4, shape=(3,), data=blob(3)),
        [("tensor 't'", "has 3 bytes of data, but SFIXED_POINT_4 (3,) takes 2")],
    ),
    (wrong_length, [("tensor 't'", "expected scales of shape (2,) for axis 0, got (3,)")]),
    (
        lambda g: g.set_outputs(g.node("a"), [g.tensor("m"), g.tensor("lora")]),
        [("tensor 'lora'", "is UPDATEABLE_STATIC, but A node 'a' writes it")],
    ),
    (
        lambda g: g.set_outputs(g.node("a"), [g.tensor("m"), g.tensor("null")]),
        [("tensor 'null'", "is NULL, but A node 'a' writes it")],
    ),
    (
        lambda g: g.set_inputs(g.node("a"), []) or g.set_outputs(g.node("a"), [g.tensor("x")]),
        [
            ("tensor 'x'", "is a graph input, but A node 'a' writes it"),
            ("tensor 'm'", "is read by B node 'b', but no node writes it"),
        ],
    ),
    (
        lambda g: g.remove_node(g.node("b")),
        [("tensor 'y'", "is a graph output, but no node writes it")],
    ),
    (
        lambda g: g.remove_node(g.node("a")),
        [("tensor 'm'", "is read by B node 'b', but no node writes it")],
    ),
    (unnamed_node, [("C node ''", "has no name"), ("C node ''", "has no outputs")]),
    (
        lambda g: setattr(g.node("a"), "name", "c"),
        [
            (
                "A node 'c' (from a)",
                "has another key in the graph; a node cannot be renamed in place",
            )
        ],
    ),
    (foreign_input, [("B node 'b'", "uses tensor 's', which is not in the graph")]),
    (stolen_output, [("A node 'a'", "writes tensor 'y', whose producer is B node 'b'")]),
    (
        lambda g: g.set_outputs(g.node("a"), [g.tensor("m"), g.tensor("m")]),
        [("A node 'a'", "writes tensor 'm' twice")],
    ),
    (
        param(Tensor("p", DType.UINT_32, (2,), STATIC)),
        [("A node 'a'", "param 'perm' is STATIC but has no data")],
    ),
    (
        param(Tensor("p", DType.UINT_32, (2,))),
        [("A node 'a'", "param 'perm' has no data")],
    ),
    (
        param(Tensor("p", DType.UINT_32, (2,), STATIC, data=blob(9))),
        [("A node 'a'", "param 'perm' has 9 bytes of data, but UINT_32 (2,) takes 8")],
    ),
    (
        param(
            Tensor("p", DType.UINT_32, (2,), STATIC, data=blob(9), data_format=DataFormat.CODEBOOK)
        ),
        [("A node 'a'", "param 'perm' is CODEBOOK, not DENSE")],
    ),
]


@pytest.mark.parametrize(("damage", "wanted"), BREAKS)
def test_each_fault_is_found_and_nothing_else(
    damage: Callable[[Graph], object], wanted: list[tuple[str, str]]
) -> None:
    graph = valid()
    damage(graph)
    assert [(p.where, p.message) for p in find_faults(graph)] == wanted


def of_a_node(name: str, value: object) -> Callable[[Graph], object]:
    return lambda graph: setattr(graph.node("b"), name, value)


def of_a_tensor(name: str, value: object, tensor: str = "w") -> Callable[[Graph], object]:
    return lambda graph: setattr(graph.tensor(tensor), name, value)


def without_writer(graph: Graph) -> None:
    graph.remove_node(graph.node("a"))


def read_unwritten(graph: Graph) -> None:
    graph.set_inputs(graph.node("b"), [graph.add_tensor(Tensor("n", F32, (2,)))])


def of_a_param(name: str, value: object) -> Callable[[Graph], object]:
    return lambda graph: setattr(graph.node("a").params["perm"], name, value)


def without_unlinked(graph: Graph) -> None:
    node = graph.node("a")
    node.outputs = (graph.tensor("y"),)  # the graph does not know what was set directly
    graph.remove_node(node)


# Of a valid graph; the damages of BREAKS mostly add something.
CHANGES = [
    of_a_tensor("name", ""),
    of_a_tensor("name", "y"),
    of_a_tensor("dtype", DType.FLOAT_64),
    of_a_tensor("shape", (3, -2)),
    of_a_tensor("kind", NATIVE),
    of_a_tensor("encoding", ScaleOffset(0.1, 0)),
    of_a_tensor("data", None),
    of_a_tensor("dynamic", (True, False)),
    of_a_tensor("memory_type", MemoryType.MEMHANDLE),
    of_a_tensor("kind", WRITE, "m"),
    of_a_tensor("kind", READ, "null"),
    of_a_node("name", ""),
    of_a_node("inputs", (Tensor("s", F32, ()),)),
    of_a_node("outputs", ()),
    of_a_node("params", {"p": Tensor("p", F32, ())}),
    of_a_param("name", ""),
    of_a_param("shape", (3,)),
    of_a_param("data_format", DataFormat.MX),
    without_writer,
    without_unlinked,
    read_unwritten,
]


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_set_directly_is_checked(change: Callable[[Graph], object]) -> None:
    graph = valid()
    assert find_faults(graph) == []
    change(graph)
    assert find_faults(graph)


def test_inputs_may_be_dynamic_registered_and_not_dense() -> None:
    graph = valid()
    how = {"kind": WRITE, "data": None, "shape": (4, 2), "dynamic": (True, False)}
    made = tensor(graph, memory_type=MemoryType.MEMHANDLE, data_format=DataFormat.MX, **how)
    assert find_faults(graph) == []
    assert made.dynamic == (True, False)
    assert tensor(graph, "still", dynamic=[False]).dynamic == ()


def test_data_that_are_not_dense_have_any_size_and_no_values() -> None:
    graph = valid()
    made = tensor(graph, data=blob(5), data_format=DataFormat.SPARSE)
    assert find_faults(graph) == []
    for read in (made.values, made.stored):
        with pytest.raises(ValueError, match="data of tensor t are SPARSE"):
            read()


def test_a_tensor_renamed_in_place_is_found() -> None:
    graph = valid()
    renamed(graph)
    found = [(p.where, p.message) for p in find_faults(graph)]
    assert len(found) == 1
    assert found[0][0] == "tensor 'other'"
    assert "the key 'lora'" in found[0][1]


def test_all_faults_come_in_one_error() -> None:
    graph = valid()
    damages = [foreign_input, renamed, unnamed_node, wrong_length]
    damages.append(param(Tensor("p", DType.UINT_32, (2,))))
    singles = []
    for damage in damages:
        alone = valid()
        damage(alone)
        singles += find_faults(alone)
        damage(graph)
    with pytest.raises(GraphError, match="6 faults found") as caught:
        check(graph)
    assert caught.value.code == "GRAPH_INVALID"
    assert caught.value.where == "graph 'g'"
    assert set(caught.value.problems) == set(singles)
    assert all(str(problem) in str(caught.value) for problem in singles)


def test_a_cycle_hides_no_other_fault() -> None:
    graph = valid()
    param(Tensor("p", DType.UINT_32, (2,)))(graph)
    tensor(graph, data=blob(7))
    graph.set_inputs(graph.node("a"), [graph.tensor("m")])
    messages = [p.message for p in find_faults(graph)]
    assert len(messages) == 3
    assert sum("cycle" in m for m in messages) == 1
    assert "param 'perm' has no data" in messages
    assert any("7 bytes" in m for m in messages)


def test_a_single_fault_is_no_plural() -> None:
    graph = valid()
    foreign_input(graph)
    with pytest.raises(GraphError, match=r"^graph 'g': 1 fault found"):
        check(graph)
