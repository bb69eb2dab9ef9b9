"""Cost of a call of the runtime API next to the bare method, without hooks and with one.

    python -m benchmarks.api_calls

The call is `Graph.execute` on a graph whose backend does nothing; the figures are microseconds,
medians of rounds in which all forms take turns.
"""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable, Mapping
from typing import Any

from dovetail.plugins.events import ApiCall
from dovetail.plugins.hooks import hooks
from dovetail.plugins.hookspecs import hookimpl
from dovetail.runtime.handle import Handle, api_call

ROUNDS = 15
CALLS = 50_000


class Idle:
    """A hook that keeps nothing."""

    @hookimpl
    def dovetail_api_call(self, call: ApiCall) -> None: ...

    @hookimpl
    def dovetail_api_return(self, call: ApiCall) -> None: ...


class Graph(Handle):
    """A handle with the call `graph_execute`, once bare and once as the API has it."""

    kind = "graph"

    def bare(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any] | None = None,
        profile: Handle | None = None,
        signal: Handle | None = None,
        watch: Handle | None = None,
    ) -> None:
        return None

    execute = api_call("graph_execute")(bare)


def per_call_us(call: Callable[..., object], inputs: dict[str, Any]) -> float:
    """Return the time of one call."""
    return timeit.timeit(lambda: call(inputs, None, None, None), number=CALLS) / CALLS * 1e6


def main() -> None:
    graph, inputs = Graph(), dict[str, Any]()
    graph.execute(inputs)
    bare, quiet, hooked = list[float](), list[float](), list[float]()
    for _ in range(ROUNDS):
        bare.append(per_call_us(graph.bare, inputs))
        quiet.append(per_call_us(graph.execute, inputs))
        with hooks.registered(Idle()):
            hooked.append(per_call_us(graph.execute, inputs))
    base = statistics.median(bare)
    print(f"bare method        {base:6.3f} us")
    for name, times in (("without hooks", quiet), ("with an idle hook", hooked)):
        print(f"{name:18} {statistics.median(times) - base:+6.3f} us")


if __name__ == "__main__":
    main()
