"""Named lists of passes, with phases at which third parties' passes join."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from dovetail.errors import PluginError, suggest_name
from dovetail.ir import Graph, Pass, run_passes

PHASES = ("early", "layout", "fusion", "late")


class ThirdPartyPass(Pass, Protocol):
    """A pass of the entry-point group `dovetail.passes`."""

    @property
    def phase(self) -> str:
        """One of PHASES, at whose end the pass joins."""

    @property
    def after(self) -> str | None:
        """Name of the pass before it, None for the end of the phase."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Passes in order, by phase; itself a pass.

    Attributes:
        name: The name in `convert`.
        early, layout, fusion, late: The passes of each phase.
        final: Passes after all phases, third parties' passes included.
    """

    name: str
    early: tuple[Pass, ...] = ()
    layout: tuple[Pass, ...] = ()
    fusion: tuple[Pass, ...] = ()
    late: tuple[Pass, ...] = ()
    final: tuple[Pass, ...] = ()

    @property
    def passes(self) -> tuple[Pass, ...]:
        """All passes in order."""
        return (*self.early, *self.layout, *self.fusion, *self.late, *self.final)

    def run(self, graph: Graph) -> bool:
        """Run the passes in order, checking the graph after each."""
        return run_passes(graph, self.passes)

    def expanded(self, extra: Iterable[ThirdPartyPass]) -> Pipeline:
        """Return the pipeline with third parties' passes at the positions that they declare.

        The result does not depend on the order of `extra`: passes with the same position are sorted
        by name.

        Raises:
            PluginError: A name is taken, a phase is unknown, or `after` names no earlier pass.
        """
        waiting = sorted(extra, key=lambda p: p.name)
        for each in waiting:
            _need_phase(each)
        _need_own_names([*self.passes, *waiting])
        found = self
        while waiting:
            # one whose `after` is still waiting itself waits too
            names = {p.name for p in waiting}
            ready = [p for p in waiting if p.after not in names]
            if not ready:
                circle = " and ".join(sorted(names))
                raise PluginError(f"the passes {circle} must each run after another of them")
            found = found._with(ready)
            waiting = [p for p in waiting if p not in ready]
        return found

    def _with(self, ready: list[ThirdPartyPass]) -> Pipeline:
        found = self
        for each in reversed(ready):  # each is inserted before those already at the same position
            found = found._with_after(each) if each.after else found
        for each in ready:
            if not each.after:
                passes: tuple[Pass, ...] = getattr(found, each.phase)
                found = found._changed(each.phase, (*passes, each))
        return found

    def _with_after(self, added: ThirdPartyPass) -> Pipeline:
        passes: list[Pass] = list(getattr(self, added.phase))
        names = [p.name for p in passes]
        if added.after in names:
            passes.insert(names.index(added.after) + 1, added)
            return self._changed(added.phase, tuple(passes))
        earlier = PHASES[: PHASES.index(added.phase)]
        if added.after in {p.name for phase in earlier for p in getattr(self, phase)}:
            return self._changed(added.phase, (added, *passes))
        known = [p.name for p in self.passes]
        where = f"pass '{added.name}'"
        if added.after in known:
            message = (
                f"the pass is to run after '{added.after}', which runs later than {added.phase}"
            )
            raise PluginError(message, where=where, hint="declare a later phase")
        hint = suggest_name(str(added.after), known)
        raise PluginError(f"pass '{added.after}' to run after not found", where=where, hint=hint)

    def _changed(self, phase: str, passes: tuple[Pass, ...]) -> Pipeline:
        phases: dict[str, Any] = {phase: passes}
        return replace(self, **phases)


def _need_phase(each: ThirdPartyPass) -> None:
    where = f"pass '{each.name}'"
    phase = getattr(each, "phase", None)
    if phase not in PHASES or not hasattr(each, "after"):
        raise PluginError(
            f"unknown phase {phase!r}" if hasattr(each, "after") else "missing attribute `after`",
            where=where,
            hint=suggest_name(str(phase), PHASES) + "; `after` names a pass or is None",
        )


def _need_own_names(passes: list[Pass]) -> None:
    # a pass may run in several phases; then it is the same one
    seen: dict[str, Pass] = {}
    for each in passes:
        if seen.setdefault(each.name, each) != each:
            raise PluginError(f"duplicate pass name '{each.name}'", code="PLUGIN_CONFLICT")
