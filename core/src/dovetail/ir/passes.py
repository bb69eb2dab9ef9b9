"""Graph passes, and the runner that checks the graph after each of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

import numpy as np

from dovetail.errors import GraphError, Problem, counted
from dovetail.ir.check import find_faults
from dovetail.ir.graph import Graph

# The phases of a conversion, at whose ends third parties' passes join.
PHASES = ("early", "layout", "fusion", "late")


@runtime_checkable
class Pass(Protocol):
    """A rewrite of a valid graph to a valid graph.

    Implementations are frozen dataclasses whose fields are their options.
    """

    @property
    def name(self) -> str:
        """Its name, which `convert --dry-run` prints."""

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place and return whether it changed."""


Finished = Callable[[str, bool, float], None]


def run_passes(
    graph: Graph,
    passes: Iterable[Pass],
    *,
    check: Callable[[Graph], list[Problem]] | None = find_faults,
    finished: Finished | None = None,
) -> bool:
    """Run passes in order, checking the graph after each that changed it.

    Args:
        graph: Rewritten in place.
        passes: The passes in order.
        check: Returns the faults of a graph; None runs the passes unchecked.
        finished: Called with each pass's name, whether it changed the graph, and its milliseconds.

    Returns:
        Whether any pass changed the graph.

    Raises:
        GraphError: A pass left a graph that is not well formed; the pass is named.
    """
    changed = False
    for step in passes:
        start = time.perf_counter()
        try:
            with np.errstate(all="ignore"):  # inf and NaN are valid constants
                did = bool(step.run(graph))
        except Exception as error:
            error.add_note(f"in the pass '{step.name}' on graph '{graph.name}'")
            raise
        if did and check is not None and (faults := check(graph)):
            raise GraphError(
                f"the pass '{step.name}' left a graph with {counted(len(faults), 'fault')}",
                code="PASS_BROKE_GRAPH",
                where=f"graph '{graph.name}'",
                problems=faults,
            )
        if finished is not None:
            finished(step.name, did, (time.perf_counter() - start) * 1e3)
        changed |= did
    return changed
