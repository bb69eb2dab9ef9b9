"""Failures: unsupported and failing ops reach the caller as errors that name the node.

These need the capability `op_packages`: a backend cannot know the kit's own ops.
"""

from __future__ import annotations

from dovetail import runtime
from dovetail.errors import BackendError
from dovetail.testing import ops
from dovetail.testing.bench import Bench, compose
from dovetail.testing.checks._kit_ops import composed_case, halvings
from dovetail.testing.checks._plugin import SubmittedRun, prepared_on
from dovetail.testing.outcome import COMPUTES_NOTHING, Unsupported, demand, expect_error
from dovetail.testing.runner import judge_outputs


def ops_of_others_give_their_answer(bench: Bench) -> None:
    """Check that an op without a kernel returns the results of its reference."""
    with bench.create() as backend:
        _require_results(backend)
        graph, bound = composed_case(backend, ops.HALVE)
        graph.finalize()
        judge_outputs(graph.execute(bound.feeds()), bound)


def chains_give_their_answer(bench: Bench) -> None:
    """Check that nodes run in order, each on the output of the one before."""
    with bench.create() as backend:
        _require_results(backend)
        _, bound = composed_case(backend, ops.HALVE[:1])
        graph = compose(backend.create_context(), halvings(bound, 3))
        graph.finalize()
        (found,) = graph.execute(bound.feeds()).values()
        wanted = bound.feeds()["x0"] / 8
        demand((found == wanted).all(), "three halvings in a row do not return an eighth")


def an_op_that_fails_is_an_error(bench: Bench) -> None:
    """Check that a failure in an op reaches the caller as a BackendError that names the node."""
    with bench.create() as backend:
        _require_results(backend)
        graph, bound = composed_case(backend, ops.FAIL)
        graph.finalize()
        for _ in range(2):  # a second run of a failed graph must fail again
            error = expect_error(
                lambda: graph.execute(bound.feeds()), "BACKEND_FAILED", BackendError
            )
            demand("node" in error.where, f"the error does not name the node: {error!s}")
            demand("this op always fails" in str(error), f"the cause is lost: {error!s}")


def an_op_that_fails_in_the_queue_is_an_error(bench: Bench) -> None:
    """Check that a failure of an asynchronous run is raised by `wait` and passed to `notify`."""
    with bench.create() as backend:
        _require_results(backend)
        if not backend.capabilities.asynchronous:
            raise Unsupported("the backend does not run asynchronously")
        graph, bound = composed_case(backend, ops.FAIL)
        graph.finalize()
        received, buffer = list[BaseException | None](), bound.expected[0].values.copy()
        outputs = {graph.outputs[0].name: buffer}
        run = graph.execute_async(bound.feeds(), outputs, notify=received.append)
        expect_error(lambda: run.wait(30), "BACKEND_FAILED", BackendError)
        graph.context.free()
        demand(
            len(received) == 1 and isinstance(received[0], BackendError),
            f"notify received {received}",
        )


def an_op_that_fails_in_a_submitted_run_is_an_error(bench: Bench) -> None:
    """Check that a failure of a submitted run is passed to `done`, once, and not raised."""
    with bench.create() as backend:
        _require_results(backend)
        graph, bound = composed_case(backend, ops.FAIL)
        outputs = {graph.outputs[0].name: bound.expected[0].values.copy()}
        run = SubmittedRun(prepared_on(backend, graph.ir), bound.feeds(), outputs)
        run.demand_error("BACKEND_FAILED")


def _require_results(backend: runtime.Backend) -> None:
    """Raise Unsupported unless the backend computes something.

    Raises:
        Unsupported: It only records calls.
    """
    if backend.capabilities.records_only:
        raise Unsupported(COMPUTES_NOTHING)


CHECKS = (
    ops_of_others_give_their_answer,
    chains_give_their_answer,
    an_op_that_fails_is_an_error,
    an_op_that_fails_in_the_queue_is_an_error,
    an_op_that_fails_in_a_submitted_run_is_an_error,
)
