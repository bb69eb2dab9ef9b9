"""Preparation: it can be stopped, profiled, and asked to keep tensors visible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dovetail import runtime
from dovetail.errors import BackendError, GraphError
from dovetail.ir import Array
from dovetail.ops import EVERYTHING, Observed, check_ops
from dovetail.runtime import EventType, SignalKind
from dovetail.runtime.contract import PrepareRequest, RunControl
from dovetail.testing import ops
from dovetail.testing.bench import Bench, compose
from dovetail.testing.binding import BoundCase
from dovetail.testing.checks._kit_ops import composed_case, halvings
from dovetail.testing.checks._plugin import run_sample
from dovetail.testing.outcome import Unsupported, demand, expect_error
from dovetail.testing.preparing import open_context

_INSIDE = ("t0", "t1", "t2")  # tensors of a chain between its input and its output
_CODES = ("GRAPH_ERROR_ABORTED", "GRAPH_ERROR_TIMED_OUT")


def preparations_can_be_stopped(bench: Bench) -> None:
    """Check that a stopped preparation raises, and the graph can be prepared afterwards."""
    with bench.create() as backend:
        if not backend.capabilities.cancel:
            raise Unsupported("the backend has no signals")
        graph = bench.composed(backend.create_context())
        late = backend.create_signal(SignalKind.TIMEOUT, timeout_us=0)
        expect_error(lambda: graph.finalize(signal=late), "GRAPH_ERROR_TIMED_OUT", BackendError)
        demand(not graph.is_finalized, "a graph is finalized although it was stopped")
        graph.finalize()
        wanted = graph.execute(bench.feeds())
        context, checked = open_context(backend.plugin), check_ops(graph.ir, backend.ops)
        control, config = RunControl(), backend.plugin.configs.graph()
        control.stop()
        try:
            context.prepare(checked, PrepareRequest(config, control)).close()
        except BackendError as error:
            demand(error.code in _CODES, f"a stopped preparation raised {error.code}: {error}")
        found = run_sample(bench, context.prepare(checked, PrepareRequest(config)))
        bench.demand_same(found, wanted, "a graph differs after a preparation was stopped")


def preparations_can_be_profiled(bench: Bench) -> None:
    """Check that a profile has the duration of `finalize`, with parts that are no longer."""
    with bench.create() as backend:
        graph = bench.composed(backend.create_context())
        profile = backend.create_profile()
        graph.finalize(profile)
        demand(len(profile.events) == 1, f"finalize made {len(profile.events)} events")
        (event,) = profile.events
        demand(event.type == EventType.FINALIZE, f"the event is of type {event.type!r}")
        for part in event.children:
            demand(
                np.isfinite(part.value) and part.value >= 0,
                f"the event '{part.identifier}' has the value {part.value}",
            )
            is_time = part.unit == runtime.EventUnit.MICROSEC
            demand(
                not is_time or part.value <= event.value,
                f"the part '{part.identifier}' took longer than the whole",
            )
        wanted = bench.finalized(graph.context, "other").execute(bench.feeds())
        bench.demand_same(graph.execute(bench.feeds()), wanted, "a profiled graph differs")


def observed_tensors_are_received(bench: Bench) -> None:
    """Check that a watch receives observed tensors with their values, and results are the same."""
    with bench.create() as backend:
        _, bound = composed_case(backend, ops.HALVE[:1])
        chain = halvings(bound, len(_INSIDE) + 1)
        if not backend.capabilities.watch:
            graph = compose(backend.create_context(), chain)
            code = "GRAPH_ERROR_UNSUPPORTED_FEATURE"
            expect_error(lambda: graph.finalize(observed=EVERYTHING), code, BackendError)
            raise Unsupported("raises the right error")
        graph = compose(backend.create_context(), chain)
        unknown = Observed(frozenset({"unheard_of"}))
        expect_error(lambda: graph.finalize(observed=unknown), "GRAPH_INVALID", GraphError)
        graph.finalize()
        wanted = graph.execute(bound.feeds())
        for observed in (
            Observed(frozenset(_INSIDE[:1])),
            Observed(frozenset(_INSIDE)),
            EVERYTHING,
        ):
            found, values = _watched(compose(backend.create_context(), chain), observed, bound)
            for name, array in wanted.items():
                demand((found[name] == array).all(), "observed tensors change the results")
            for i, name in enumerate(_INSIDE):
                if chain.tensors[name] not in observed:
                    continue
                demand(name in values, f"the watch does not receive tensor '{name}'")
                shorter = compose(backend.create_context(), halvings(bound, i + 1))
                shorter.finalize()
                expected = shorter.execute(bound.feeds())[name]
                demand((values[name] == expected).all(), f"tensor '{name}' has other values")


CHECKS = (
    preparations_can_be_stopped,
    preparations_can_be_profiled,
    observed_tensors_are_received,
)


@dataclass
class _Watch:
    """A watch that stores the values that it receives."""

    values: dict[str, Array] = field(default_factory=dict)

    def step_finished(
        self, nodes: tuple[str, ...], microseconds: float, outputs: Mapping[str, Array]
    ) -> None:
        self.values.update({name: array.copy() for name, array in outputs.items()})


def _watched(
    graph: runtime.Graph, observed: Observed, bound: BoundCase
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Finalize and run a graph, and return its outputs and the values that a watch receives."""
    graph.finalize(observed=observed)
    watch = _Watch()
    return graph.execute(bound.feeds(), watch=watch), watch.values
