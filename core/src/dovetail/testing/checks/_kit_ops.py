"""Graphs of the kit's own ops, for backends with the capability `op_packages`."""

from __future__ import annotations

from dovetail import runtime
from dovetail.ir import Graph, Node, Tensor, TensorKind
from dovetail.testing import ops
from dovetail.testing.bench import compose
from dovetail.testing.binding import BoundCase, bind, schema_of
from dovetail.testing.case import OpCase
from dovetail.testing.outcome import Unsupported


def composed_case(
    backend: runtime.Backend, cases: tuple[OpCase, ...]
) -> tuple[runtime.Graph, BoundCase]:
    """Compose the first of some cases that the backend supports.

    Raises:
        Unsupported: The backend supports only its own ops, or none of the cases.
    """
    if not backend.capabilities.op_packages:
        raise Unsupported("the backend supports only its own ops")
    for case in cases:
        bound, schema = bind(case), schema_of(case, backend.ops)
        support = backend.validate_op(bound.node(schema))
        if support.ok:
            return compose(backend.create_context(), bound.graph(schema)), bound
    raise Unsupported(str(support))


def halvings(bound: BoundCase, length: int) -> Graph:
    """Return the graph x0 -> Halve -> t0 -> Halve -> t1 ..., with the types of a case.

    Args:
        bound: A case of Halve in a float type.
        length: Number of nodes; the last tensor is the output.
    """
    graph, expected = Graph("chain"), bound.expected[0]
    shape, dtype = expected.values.shape, expected.dtype
    last = graph.add_tensor(Tensor("x0", dtype, shape, TensorKind.APP_WRITE))
    for i in range(length):
        kind = TensorKind.APP_READ if i == length - 1 else TensorKind.NATIVE
        made = graph.add_tensor(Tensor(f"t{i}", dtype, shape, kind))
        graph.add_node(Node(f"halve{i}", ops.PACKAGE.name, "Halve", [last], [made]))
        last = made
    return graph
