"""Facts of graphs that are loaded when they run."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from dovetail.runtime.base import PreparedBase
from dovetail.runtime.contract import Restored, RunControl
from dovetail.runtime.interface import Interface
from dovetail.runtime.residency import LazyPrepared, Residency


class Copying(PreparedBase):
    """A graph that copies its input."""

    @property
    def io_buffers(self) -> Mapping[str, int]:
        return {"x": 24}

    def run(self, inputs: Any, outputs: Any, control: RunControl) -> None: ...


class Stored:
    """A graph in a binary that counts how often it is loaded."""

    name = "g"
    entry = SimpleNamespace(memory_bytes=8)
    file = SimpleNamespace(release=lambda: None)

    def __init__(self) -> None:
        self.loads = 0

    def load(self, control: RunControl | None = None) -> Restored:
        self.loads += 1
        return Restored(Interface("g", {}, {}), Copying())


def lazy(residency: Residency) -> tuple[LazyPrepared, Stored]:
    stored: Any = Stored()
    return LazyPrepared(stored, residency), stored


def test_facts_of_a_graph_are_known_after_its_first_load() -> None:
    residency = Residency(limit_bytes=0)
    (first, stored), (second, _) = lazy(residency), lazy(residency)
    first.run({}, {}, RunControl())
    second.run({}, {}, RunControl())
    assert not first.is_loaded
    assert (first.io_buffers, first.placement) == ({"x": 24}, None)
    assert (first.is_loaded, stored.loads) == (False, 1)


def test_facts_are_loaded_if_they_are_unknown() -> None:
    graph, stored = lazy(Residency(limit_bytes=100))
    assert graph.io_buffers == {"x": 24}
    graph.run({}, {}, RunControl())
    assert stored.loads == 1
