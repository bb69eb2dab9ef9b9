"""Failures: what a backend cannot run and what fails while it runs reaches the caller, named.

These need the capability `op_packages`: the kit's own ops are what a backend cannot know.
"""

from __future__ import annotations

from dovetail import runtime
from dovetail.errors import BackendError
from dovetail.ir import Graph, Node, Tensor, TensorKind
from dovetail.testing import ops
from dovetail.testing.bench import Bench, compose
from dovetail.testing.binding import BoundCase, bind, schema_of
from dovetail.testing.case import OpCase
from dovetail.testing.outcome import Unsupported, demand, refusal
from dovetail.testing.runner import judge_outputs


def ops_of_others_give_their_answer(bench: Bench) -> None:
    """An op that the backend has no kernel for gives what its reference gives."""
    with bench.create() as backend:
        graph, bound = _composed(backend, ops.HALVE)
        graph.finalize()
        judge_outputs(graph.execute(bound.feeds()), bound)


def chains_give_their_answer(bench: Bench) -> None:
    """Nodes run one after the other, each on what the one before gave."""
    with bench.create() as backend:
        _, bound = _composed(backend, ops.HALVE[:1])
        graph = compose(backend.create_context(), _chain(bound, 3))
        graph.finalize()
        (found,) = graph.execute(bound.feeds()).values()
        wanted = bound.feeds()["x0"] / 8
        demand((found == wanted).all(), "three halvings in a row do not give an eighth")


def an_op_that_fails_is_an_error(bench: Bench) -> None:
    """A failure inside an op reaches the caller as a BackendError that names the node."""
    with bench.create() as backend:
        graph, bound = _composed(backend, ops.FAIL)
        graph.finalize()
        for _ in range(2):  # a graph that failed is neither broken nor quiet
            error = refusal(lambda: graph.execute(bound.feeds()), "BACKEND_FAILED", BackendError)
            demand("node" in error.where, f"the error does not name the node: {error!s}")
            demand("this op always fails" in str(error), f"the cause is lost: {error!s}")


def an_op_that_fails_in_the_queue_is_an_error(bench: Bench) -> None:
    """A failure of an asynchronous run reaches who waits for it, and `notify`."""
    with bench.create() as backend:
        if not backend.capabilities.asynchronous:
            raise Unsupported("the backend does not run asynchronously")
        graph, bound = _composed(backend, ops.FAIL)
        graph.finalize()
        told, buffer = list[BaseException | None](), bound.expected[0].values.copy()
        outputs = {graph.outputs[0].name: buffer}
        run = graph.execute_async(bound.feeds(), outputs, notify=told.append)
        refusal(lambda: run.wait(30), "BACKEND_FAILED", BackendError)
        graph.context.free()
        demand(len(told) == 1 and isinstance(told[0], BackendError), f"notify was told {told}")


CHECKS = (
    ops_of_others_give_their_answer,
    chains_give_their_answer,
    an_op_that_fails_is_an_error,
    an_op_that_fails_in_the_queue_is_an_error,
)


def _composed(
    backend: runtime.Backend, cases: tuple[OpCase, ...]
) -> tuple[runtime.Graph, BoundCase]:
    """Compose the first of some cases that the backend runs.

    Raises:
        Unsupported: The backend runs its own ops only, or none of the cases, and says so.
    """
    if not backend.capabilities.op_packages:
        raise Unsupported("the backend runs its own ops only")
    for case in cases:
        bound, schema = bind(case), schema_of(case, backend.ops)
        support = backend.validate_op(bound.node(schema))
        if support.ok:
            return compose(backend.create_context(), bound.graph(schema)), bound
    raise Unsupported(str(support))


def _chain(bound: BoundCase, length: int) -> Graph:
    """x0 -> Halve -> Halve ... -> y0, of the types of one node's case."""
    graph, expected = Graph("chain"), bound.expected[0]
    shape, dtype = expected.values.shape, expected.dtype
    last = graph.add_tensor(Tensor("x0", dtype, shape, TensorKind.APP_WRITE))
    for i in range(length):
        kind = TensorKind.APP_READ if i == length - 1 else TensorKind.NATIVE
        made = graph.add_tensor(Tensor(f"t{i}", dtype, shape, kind))
        graph.add_node(Node(f"halve{i}", ops.PACKAGE.name, "Halve", [last], [made]))
        last = made
    return graph
