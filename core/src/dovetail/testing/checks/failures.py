"""Failures: unsupported and failing ops reach the caller as errors that name the node.

These need the capability `op_packages`: a backend cannot know the kit's own ops.
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
    """Check that an op without a kernel returns the results of its reference."""
    with bench.create() as backend:
        graph, bound = _composed(backend, ops.HALVE)
        graph.finalize()
        judge_outputs(graph.execute(bound.feeds()), bound)


def chains_give_their_answer(bench: Bench) -> None:
    """Check that nodes run in order, each on the output of the one before."""
    with bench.create() as backend:
        _, bound = _composed(backend, ops.HALVE[:1])
        graph = compose(backend.create_context(), _chain(bound, 3))
        graph.finalize()
        (found,) = graph.execute(bound.feeds()).values()
        wanted = bound.feeds()["x0"] / 8
        demand((found == wanted).all(), "three halvings in a row do not return an eighth")


def an_op_that_fails_is_an_error(bench: Bench) -> None:
    """Check that a failure in an op reaches the caller as a BackendError that names the node."""
    with bench.create() as backend:
        graph, bound = _composed(backend, ops.FAIL)
        graph.finalize()
        for _ in range(2):  # a second run of a failed graph must fail again
            error = refusal(lambda: graph.execute(bound.feeds()), "BACKEND_FAILED", BackendError)
            demand("node" in error.where, f"the error does not name the node: {error!s}")
            demand("this op always fails" in str(error), f"the cause is lost: {error!s}")


def an_op_that_fails_in_the_queue_is_an_error(bench: Bench) -> None:
    """Check that a failure of an asynchronous run is raised by `wait` and passed to `notify`."""
    with bench.create() as backend:
        if not backend.capabilities.asynchronous:
            raise Unsupported("the backend does not run asynchronously")
        graph, bound = _composed(backend, ops.FAIL)
        graph.finalize()
        received, buffer = list[BaseException | None](), bound.expected[0].values.copy()
        outputs = {graph.outputs[0].name: buffer}
        run = graph.execute_async(bound.feeds(), outputs, notify=received.append)
        refusal(lambda: run.wait(30), "BACKEND_FAILED", BackendError)
        graph.context.free()
        demand(
            len(received) == 1 and isinstance(received[0], BackendError),
            f"notify received {received}",
        )


CHECKS = (
    ops_of_others_give_their_answer,
    chains_give_their_answer,
    an_op_that_fails_is_an_error,
    an_op_that_fails_in_the_queue_is_an_error,
)


def _composed(
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


def _chain(bound: BoundCase, length: int) -> Graph:
    """Return the graph x0 -> Halve -> Halve ... -> y0, with the types of a case."""
    graph, expected = Graph("chain"), bound.expected[0]
    shape, dtype = expected.values.shape, expected.dtype
    last = graph.add_tensor(Tensor("x0", dtype, shape, TensorKind.APP_WRITE))
    for i in range(length):
        kind = TensorKind.APP_READ if i == length - 1 else TensorKind.NATIVE
        made = graph.add_tensor(Tensor(f"t{i}", dtype, shape, kind))
        graph.add_node(Node(f"halve{i}", ops.PACKAGE.name, "Halve", [last], [made]))
        last = made
    return graph
