"""The graph: links and order stay right under edits, and what cannot be is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import GraphError
from dovetail.ir import DType, Graph, Node, Tensor, TensorKind, find_faults

F32 = DType.FLOAT_32


def tensor(graph: Graph, name: str, kind: TensorKind = TensorKind.NATIVE) -> Tensor:
    return graph.add_tensor(Tensor(name, F32, (1,), kind))


def node(graph: Graph, name: str, ins: list[Tensor | None], outs: list[Tensor]) -> Node:
    return graph.add_node(Node(name, "p", "Op", ins, outs))


def names(nodes: tuple[Node, ...]) -> list[str]:
    return [n.name for n in nodes]


def smallest_order(edges: dict[int, set[int]]) -> list[int]:
    """The order of definition wherever data flow leaves a choice, by trying from the front."""
    order: list[int] = []
    while len(order) < len(edges):
        order.append(next(n for n in edges if n not in order and edges[n] <= set(order)))
    return order


@given(data=st.data(), count=st.integers(1, 7))
def test_nodes_are_in_topological_order_and_else_in_order_of_insertion(
    data: st.DataObject, count: int
) -> None:
    graph = Graph("g")
    # node i, in an order that works, reads some nodes before it; they are added in another order
    reads = [
        data.draw(st.sets(st.integers(0, i - 1)) if i else st.just(set())) for i in range(count)
    ]
    made = [tensor(graph, f"t{i}") for i in range(count)]
    added = data.draw(st.permutations(range(count)))
    for i in added:
        node(graph, f"n{i}", [made[r] for r in sorted(reads[i])], [made[i]])
        if data.draw(st.booleans()):
            _ = graph.nodes  # asking in between must not change the outcome
    rank = {i: place for place, i in enumerate(added)}
    edges = {rank[i]: {rank[r] for r in reads[i]} for i in added}
    assert names(graph.nodes) == [f"n{added[r]}" for r in smallest_order(edges)]


class Model:
    """A graph and what its links must be, by walking over all nodes."""

    def __init__(self) -> None:
        self.graph = Graph("g")
        self.tensors: list[Tensor] = []
        self.nodes: list[Node] = []
        self.numbers = itertools.count()

    def check(self) -> None:
        assert list(self.graph.tensors.values()) == self.tensors
        for t in self.tensors:
            writers = [n for n in self.nodes if t in n.outputs]
            assert self.graph.producer(t) is (writers[0] if writers else None)
            readers = self.graph.consumers(t)
            assert len(readers) == len(set(readers))
            assert set(readers) == {n for n in self.nodes if t in n.inputs}
        used = {t for n in self.nodes for t in (*n.inputs, *n.outputs)}
        assert self.graph.unused() == [t for t in self.tensors if t not in used]
        order = self.graph.nodes
        assert sorted(names(order)) == sorted(n.name for n in self.nodes)
        place = {n: i for i, n in enumerate(order)}
        for n in self.nodes:
            made = [self.graph.producer(t) for t in n.inputs if t is not None]
            assert all(place[p] < place[n] for p in made if p is not None)
        assert names(order) == [n.name for n in sorted(self.nodes, key=place.__getitem__)]

    def later(self, n: Node) -> list[Tensor | None]:
        """Tensors that a node may read without closing a cycle."""
        behind, front = {n}, [n]
        while front:
            here = front.pop()
            for reader in {c for t in here.outputs for c in self.graph.consumers(t)} - behind:
                behind.add(reader)
                front.append(reader)
        return [t for t in self.tensors if self.graph.producer(t) not in behind] + [None]

    def add(self, data: st.DataObject) -> None:
        ins = data.draw(st.lists(st.sampled_from([*self.tensors, None]), max_size=3))
        outs = [self.new_tensor() for _ in range(data.draw(st.integers(1, 2)))]
        self.nodes.append(node(self.graph, f"n{next(self.numbers)}", ins, outs))

    def new_tensor(self) -> Tensor:
        self.tensors.append(tensor(self.graph, f"t{next(self.numbers)}"))
        return self.tensors[-1]

    def remove(self, data: st.DataObject) -> None:
        gone = data.draw(st.sampled_from(self.nodes))
        self.graph.remove_node(gone)
        self.nodes.remove(gone)

    def rewire(self, data: st.DataObject) -> None:
        changed = data.draw(st.sampled_from(self.nodes))
        ins = data.draw(st.lists(st.sampled_from(self.later(changed)), max_size=3))
        self.graph.set_inputs(changed, ins)

    def replace(self, data: st.DataObject) -> None:
        old = data.draw(st.sampled_from(self.tensors))
        allowed = [
            t for t in self.tensors if all(t in self.later(c) for c in self.graph.consumers(old))
        ]
        if allowed:
            self.graph.replace_uses(old, data.draw(st.sampled_from(allowed)))

    def redirect(self, data: st.DataObject) -> None:
        changed = data.draw(st.sampled_from(self.nodes))
        self.graph.set_outputs(changed, [self.new_tensor()])

    def drop(self, data: st.DataObject) -> None:
        used = {t for n in self.nodes for t in (*n.inputs, *n.outputs)}
        chosen = data.draw(st.sampled_from(self.tensors))
        if chosen in used:
            with pytest.raises(ValueError, match="still in use"):
                self.graph.remove_tensor(chosen)
        else:
            self.graph.remove_tensor(chosen)
            self.tensors.remove(chosen)


@given(data=st.data())
def test_links_and_order_stay_right_under_any_edits(data: st.DataObject) -> None:
    model = Model()
    model.new_tensor()
    for _ in range(data.draw(st.integers(1, 12))):
        edits = [model.add]
        if model.nodes:
            edits += [model.remove, model.rewire, model.redirect]
        if model.tensors:
            edits += [model.replace, model.drop]
        data.draw(st.sampled_from(edits))(data)
        model.check()


def test_a_node_that_reads_a_tensor_twice_counts_once() -> None:
    graph = Graph("g")
    x, y, z = (tensor(graph, n) for n in "xyz")
    first, square = node(graph, "a", [], [x]), node(graph, "b", [x, x], [y])
    assert graph.consumers(x) == (square,)
    assert graph.is_read(x)
    assert graph.nodes == (first, square)
    graph.set_inputs(square, [x, z])
    assert graph.consumers(x) == graph.consumers(z) == (square,)
    graph.replace_uses(x, z)
    assert square.inputs == (z, z)
    assert graph.consumers(x) == ()
    assert not graph.is_read(x)


def test_tensors_of_a_single_node_are_replaced() -> None:
    graph = Graph("g")
    x, y, z, other = (tensor(graph, name) for name in "xyzo")
    first = node(graph, "first", [x, x], [y])
    second = node(graph, "second", [y, x], [z])
    graph.replace_input(first, x, other)
    assert (first.inputs, second.inputs) == ((other, other), (y, x))
    assert (graph.consumers(other), graph.consumers(x)) == ((first,), (second,))
    graph.replace_input(first, other, x)
    graph.replace_output(second, z, other)
    assert (second.outputs, graph.producer(other), graph.producer(z)) == ((other,), second, None)


def cycle(length: int) -> Graph:
    graph = Graph("g")
    made = [tensor(graph, f"t{i}") for i in range(length)]
    for i in range(length):
        node(graph, f"n{i}", [made[i - 1]], [made[i]])
    return graph


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_cycle_is_reported(length: int) -> None:
    with pytest.raises(GraphError, match=f"cycle: cannot order {length} node") as caught:
        _ = cycle(length).nodes
    assert caught.value.where == "graph 'g'"
    assert [p.message for p in find_faults(cycle(length)) if "cycle" in p.message]


def test_a_cycle_made_by_an_edit_is_reported_and_can_be_undone() -> None:
    graph = Graph("g")
    x, y, z = (tensor(graph, n) for n in "xyz")
    first, second = node(graph, "a", [x], [y]), node(graph, "b", [y], [z])
    graph.set_inputs(first, [z])
    with pytest.raises(GraphError, match="cycle"):
        _ = graph.nodes
    graph.set_inputs(first, [x])
    assert graph.nodes == (first, second)


def test_what_add_refuses_leaves_the_graph_as_it_was() -> None:
    graph = Graph("g")
    x, y, z = (tensor(graph, n) for n in "xyz")
    first = node(graph, "a", [x], [y])
    stranger, namesake = Tensor("s", F32, ()), Tensor("x", F32, ())
    refused = [
        (Node("a", "p", "Op", [x], [z]), "duplicate node name 'a'"),
        (Node("b", "p", "Op", [stranger], [z]), "tensor 's' is not in graph 'g'"),
        (Node("b", "p", "Op", [x], [stranger]), "tensor 's' is not in graph 'g'"),
        (Node("b", "p", "Op", [namesake], [z]), "tensor 'x' is not in graph 'g'"),
        (Node("b", "p", "Op", [x], [z, y]), "'y' is already written by Op node 'a'"),
        (Node("b", "p", "Op", [x], [z, z]), "twice"),
    ]
    for bad, message in refused:
        with pytest.raises(GraphError, match=message):
            graph.add_node(bad)
    with pytest.raises(GraphError, match="duplicate tensor name 'x'") as caught:
        graph.add_tensor(namesake)
    assert caught.value.code == "TENSOR_ERROR_ALREADY_EXISTS"
    assert graph.nodes == (first,)
    assert graph.producer(z) is None
    assert graph.consumers(x) == (first,)
    assert list(graph.tensors.values()) == [x, y, z]


def test_what_is_not_there_is_suggested() -> None:
    graph = Graph("g")
    node(graph, "conv_1", [], [tensor(graph, "output")])
    with pytest.raises(GraphError, match="tensor 'ouput' not found") as caught:
        graph.tensor("ouput")
    assert caught.value.hint == "did you mean 'output'?"
    with pytest.raises(GraphError, match="node 'conv_2' not found") as caught:
        graph.node("conv_2")
    assert caught.value.hint == "did you mean 'conv_1'?"
    assert graph.tensor("output").name == "output"
    assert graph.node("conv_1").name == "conv_1"


def test_the_interface_is_in_the_order_asked_for() -> None:
    graph = Graph("g")
    kinds = [TensorKind.APP_WRITE, TensorKind.APP_READ, TensorKind.NATIVE]
    for kind, letter in itertools.product(kinds, "abc"):
        tensor(graph, f"{letter}{int(kind)}", kind)
    before = set(graph.tensors)
    graph.reorder_interface(["c0", "a0"], ["b1", "a1"])
    assert [t.name for t in graph.inputs] == ["c0", "a0", "b0"]
    assert [t.name for t in graph.outputs] == ["b1", "a1", "c1"]
    assert set(graph.tensors) == before
    with pytest.raises(GraphError, match="tensor 'd0' not found"):
        graph.reorder_interface(["d0"], [])
    assert set(graph.tensors) == before


@pytest.mark.parametrize("kind", [k for k in TensorKind if k.name.endswith("APP_READWRITE")])
def test_a_tensor_for_both_is_an_output_where_a_node_writes_it(kind: TensorKind) -> None:
    graph = Graph("g")
    x, y = tensor(graph, "x", TensorKind.APP_WRITE), tensor(graph, "y", TensorKind.APP_READ)
    state = tensor(graph, "state", kind)
    node(graph, "read", [x, state], [y])
    assert (graph.inputs, graph.outputs) == ((x, state), (y,))
    assert not find_faults(graph)
    writer = node(graph, "write", [x], [state])
    assert (graph.inputs, graph.outputs) == ((x,), (y, state))
    assert not find_faults(graph)
    graph.remove_node(writer)
    assert (graph.inputs, graph.outputs) == ((x, state), (y,))


def test_fresh_names_are_no_tensors_and_no_nodes() -> None:
    graph = Graph("g")
    node(graph, "x_1", [], [tensor(graph, "x")])
    assert graph.fresh_name("y") == "y"
    assert graph.fresh_name("x") == "x_2"
    assert graph.fresh_name("x") == "x_2"
    tensor(graph, "x_2")
    assert graph.fresh_name("x") == "x_3"
    graph.remove_tensor(graph.tensor("x_2"))
    assert graph.fresh_name("x") == "x_2"


def test_a_node_is_named_in_the_users_terms() -> None:
    graph = Graph("g")
    out = tensor(graph, "y")
    fused = Node("conv", "p", "Conv2d", [], [out], sources=["/a/Conv", "/a/Relu"])
    assert fused.where == "Conv2d node 'conv' (from /a/Conv, /a/Relu)"
    assert node(graph, "n", [], [out]).where == "Op node 'n'"


def test_rename() -> None:
    graph = Graph("g")
    a, b = tensor(graph, "a", TensorKind.APP_WRITE), tensor(graph, "b")
    made = node(graph, "n", [a], [b])
    made.params = {
        "perm": Tensor.static("n.perm", np.zeros(1)),
        "own": Tensor.static("x", np.ones(1)),
    }
    graph.rename({a: "b", b: "a"}, {made: "m"})  # names may change places
    assert {name: t.name for name, t in graph.tensors.items()} == {"b": "b", "a": "a"}
    assert graph.tensor("b") is a
    assert graph.producer(b) is made
    assert graph.node("m") is made
    assert [p.name for p in made.params.values() if isinstance(p, Tensor)] == ["m.perm", "x"]
    assert find_faults(graph) == []
    with pytest.raises(GraphError, match="duplicate tensor name 'b'"):
        graph.rename({b: "b"}, {})
    assert b.name == "a"
