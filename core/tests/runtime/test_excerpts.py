"""Excerpts: what is in them, and what their nodes are checked for."""

from __future__ import annotations

import numpy as np
import pytest
from plan_ops import OPS, PACKAGE

from dovetail.container import BlobTable
from dovetail.container.entries import dump_graph, load_graph
from dovetail.errors import ContainerError, GraphError
from dovetail.ir import DType, Graph, Node, Tensor, TensorKind
from dovetail.ops import CheckedGraph, check_ops
from dovetail.runtime.plan.excerpts import checked_excerpt, excerpt_of, hashes_of


def chain() -> CheckedGraph:
    """x -> first (Add of a constant) -> second (Add of a constant) -> third (Negate) -> last."""
    graph = Graph("net")
    y = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE))
    for name, op in (("first", "Add"), ("second", "Add"), ("third", "Negate"), ("last", "Negate")):
        inputs = [y]
        if op == "Add":
            data = np.full((2, 3), len(name), np.float32)
            inputs.append(graph.add_tensor(Tensor.static(f"{name}.c", data)))
        y = graph.add_tensor(Tensor(name, DType.FLOAT_32, (2, 3)))
        graph.add_node(Node(name, PACKAGE.name, op, inputs, [y]))
    y.kind = TensorKind.APP_READ
    return check_ops(graph, OPS)


def stored(graph: Graph) -> Graph:
    """Return an excerpt that was written and read."""
    table = BlobTable()
    entry = dump_graph(graph, table, is_part=True)
    return load_graph(entry, table.blobs, "test", is_part=True)


def test_neighbors_are_there_without_their_constants() -> None:
    found = checked_excerpt(stored(excerpt_of(chain(), {"second"})), {"second"}, OPS)
    assert [view.node.name for view in found.nodes] == ["first", "second", "third"]
    first, second, third = found.nodes
    assert second.ins[1] is not None
    assert (first.node.inputs[1], first.is_opaque, third.is_opaque) == (None, True, True)
    assert found.producer(found.graph.tensor("first")) is first.node
    assert found.consumers(found.graph.tensor("second")) == (third.node,)
    whole = chain().graph.tensor("second.c").data
    assert whole is not None
    assert hashes_of(found.graph) == {whole.hash}


def test_an_excerpt_of_an_excerpt_is_equal() -> None:
    first = stored(excerpt_of(chain(), {"second", "last"}))
    second = excerpt_of(checked_excerpt(first, {"second", "last"}, OPS), {"second", "last"})
    entries = [dump_graph(graph, BlobTable(), is_part=True) for graph in (first, second)]
    assert entries[0] == entries[1]


def test_nodes_that_do_not_match_their_ops() -> None:
    excerpt = excerpt_of(chain(), {"second", "third"})
    for name in ("second", "third"):
        excerpt.node(name).op_type = "Unknown"
    with pytest.raises(ContainerError) as caught:
        checked_excerpt(excerpt, {"second", "third"}, OPS)
    assert [p.where.split("'")[1] for p in caught.value.problems if p.where] == ["second", "third"]


def test_parts_alone_may_read_what_nothing_writes() -> None:
    with pytest.raises(GraphError, match="fault"):
        dump_graph(excerpt_of(chain(), {"third"}), BlobTable())
