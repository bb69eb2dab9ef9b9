"""Named lists of passes, with phases at which third parties' passes join."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from dovetail.errors import PluginError, suggest_name
from dovetail.ir import PHASES, Graph, Pass, run_passes


class ThirdPartyPass(Pass, Protocol):
    """A pass of the entry-point group `dovetail.passes`."""

    @property
    def phase(self) -> str:
        """One of PHASES, at whose end the pass joins."""

    @property
    def after(self) -> str | None:
        """Name of the pass before it, None for the end of the phase."""


LeaveOut = Callable[[ThirdPartyPass, PluginError], None]


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

    def expanded(
        self, extra: Iterable[ThirdPartyPass], leave_out: LeaveOut | None = None
    ) -> Pipeline:
        """Return the pipeline with third parties' passes at the positions that they declare.

        The result does not depend on the order of `extra`: passes with the same position are sorted
        by name.

        Args:
            extra: The passes; they meet the contract of their entry-point group.
            leave_out: Receives each pass that cannot join, with the reason; by default the first
                one is an error.

        Raises:
            PluginError: A name is taken, or `after` names no earlier pass.
        """
        leave_out = leave_out or _raise
        waiting: list[ThirdPartyPass] = []
        for each in sorted(extra, key=lambda p: p.name):
            fault = _name_fault(each, [*self.passes, *waiting])
            if fault is None:
                waiting.append(each)
            else:
                leave_out(each, fault)
        found = self
        while waiting:
            # one whose `after` is still waiting itself waits too
            names = {p.name for p in waiting}
            ready = [p for p in waiting if p.after not in names]
            if not ready:
                circle = " and ".join(sorted(names))
                fault = PluginError(f"the passes {circle} must each run after another of them")
                for each in waiting:
                    leave_out(each, fault)
                return found
            found = found._with(ready, leave_out)
            waiting = [p for p in waiting if p not in ready]
        return found

    def _with(self, ready: list[ThirdPartyPass], leave_out: LeaveOut) -> Pipeline:
        found = self
        for each in reversed(ready):  # each is inserted before those already at the same position
            if each.after:
                placed = found._with_after(each)
                if isinstance(placed, PluginError):
                    leave_out(each, placed)
                else:
                    found = placed
        for each in ready:
            if not each.after:
                passes: tuple[Pass, ...] = getattr(found, each.phase)
                found = found._changed(each.phase, (*passes, each))
        return found

    def _with_after(self, added: ThirdPartyPass) -> Pipeline | PluginError:
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
            return PluginError(message, where=where, hint="declare a later phase")
        hint = suggest_name(str(added.after), known)
        return PluginError(f"pass '{added.after}' to run after not found", where=where, hint=hint)

    def _changed(self, phase: str, passes: tuple[Pass, ...]) -> Pipeline:
        phases: dict[str, Any] = {phase: passes}
        return replace(self, **phases)


def _raise(each: ThirdPartyPass, fault: PluginError) -> None:
    raise fault


def _name_fault(each: ThirdPartyPass, others: list[Pass]) -> PluginError | None:
    # a pass may run in several phases; then it is the same one
    if all(other.name != each.name or other == each for other in others):
        return None
    return PluginError(f"duplicate pass name '{each.name}'", code="PLUGIN_CONFLICT")
