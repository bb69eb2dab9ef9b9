"""Runs op cases on a backend, through the handles that an application uses."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from dovetail import runtime
from dovetail.errors import DovetailError, UnsupportedOpError
from dovetail.ir import Array
from dovetail.runtime.contract import Support
from dovetail.testing.bench import Bench, compose, rubbish
from dovetail.testing.binding import BoundCase, bind, schema_of
from dovetail.testing.case import OpCase
from dovetail.testing.comparison import difference
from dovetail.testing.outcome import (
    COMPUTES_NOTHING,
    Failure,
    Outcome,
    Unsupported,
    demand,
    expect_error,
    outcome_of,
)


def run_case(bench: Bench, case: OpCase) -> Outcome:
    """Run a case and return its outcome.

    A case fails if the op rejects it, if the backend accepts it in `validate` but cannot prepare or
    run it, if the outputs differ from the expected ones, if another run in the same buffers returns
    something else, also after one with other values, or if an input was written. A backend that
    rejects it must give all parts of the reason, and `finalize` must raise the same.
    """
    bound = bind(case)  # a fault of the case itself is not an outcome

    def run() -> None:
        with bench.create() as backend, backend.create_context() as context:
            try:
                schema = schema_of(case, backend.ops)
            except UnsupportedOpError as error:
                raise Failure(f"the case's op is not installed: {error.message}") from error
            graph = compose(context, bound.graph(schema))
            support = backend.validate_op(graph.ir.nodes[0])
            if not support.ok:
                _judge_unsupported(graph, support)
                raise Unsupported(str(support))
            if backend.capabilities.records_only:
                _judge_zeros(graph, bound)
                raise Unsupported(COMPUTES_NOTHING)
            _judge_runs(graph, bound, is_pure=schema.op.is_pure)

    return outcome_of(run)


def _judge_unsupported(graph: runtime.Graph, support: Support) -> None:
    for part in ("rule", "field", "found"):
        demand(getattr(support, part), f"the support verdict has no {part}: {support!r}")
    error = expect_error(graph.finalize, UnsupportedOpError.default_code, UnsupportedOpError)
    named = any(graph.ir.nodes[0].name in problem.where for problem in error.problems)
    demand(named, f"finalize does not name the unsupported node: {error}")


def _judge_zeros(graph: runtime.Graph, bound: BoundCase) -> None:
    """Raise a Failure unless a graph can be finalized and executed, and its outputs are zeros."""
    graph.finalize()
    outputs = {
        f"y{i}": rubbish(y.values.shape, y.values.dtype) for i, y in enumerate(bound.expected)
    }
    for name, array in graph.execute(bound.feeds(), outputs).items():
        demand(not _bytes(array).any(), f"output '{name}' is not all zeros")


def _judge_runs(graph: runtime.Graph, bound: BoundCase, *, is_pure: bool) -> None:
    graph.finalize()
    given = bound.feeds()
    copies = {name: array.copy() for name, array in given.items()}
    first = graph.execute(given)
    judge_outputs(first, bound)
    for name, copy in copies.items():
        demand(np.array_equal(_bytes(copy), _bytes(given[name])), f"input '{name}' was written")
    for i, call in enumerate(bound.later_calls, 2):
        judge_outputs(graph.execute(call.feeds()), call, f"in call {i}, ")
    if is_pure:
        again = {name: rubbish(y.shape, y.dtype) for name, y in first.items()}
        judge_outputs(graph.execute(given, again), bound, "in a second run, ")
        _judge_new_values(graph, bound, again)


def _judge_new_values(graph: runtime.Graph, bound: BoundCase, outputs: dict[str, Array]) -> None:
    """Raise a Failure unless a run reads what its buffers hold now, and not in an earlier run."""
    values = bound.feeds()
    buffers = {name: np.zeros_like(array) for name, array in values.items()}
    with suppress(DovetailError):  # the op may reject zeros
        graph.execute(buffers, outputs)
    for name, buffer in buffers.items():
        np.copyto(buffer, values[name])
    judge_outputs(graph.execute(buffers, outputs), bound, "after other values in the buffers, ")


def judge_outputs(found: Mapping[str, Array], bound: BoundCase, when: str = "") -> None:
    """Raise a Failure unless the outputs of a run are the expected ones.

    Args:
        found: Stored outputs by tensor name.
        bound: The case.
        when: Beginning of the reason, if it is a particular run.
    """
    for i, expected in enumerate(bound.expected):
        text = difference(found[f"y{i}"], expected, bound.case)
        demand(not text, f"{when}out[{i}]: {text}")


def _bytes(array: Array) -> Array:
    """Return the bytes of an array, in which NaN is equal to itself."""
    return np.frombuffer(array.tobytes(), np.uint8)
