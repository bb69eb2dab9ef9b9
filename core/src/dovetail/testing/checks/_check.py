"""A check: a function of the bench that returns, or raises a Failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dovetail.testing.bench import Bench
from dovetail.testing.outcome import Outcome, outcome_of


@dataclass(frozen=True, slots=True)
class Check:
    """A requirement on every backend.

    Attributes:
        area: Its area.
        run: Raises a Failure or Unsupported; its docstring states the requirement.
    """

    area: str
    run: Callable[[Bench], None]

    @property
    def name(self) -> str:
        """Its name in reports."""
        return self.run.__name__

    @property
    def id(self) -> str:
        """Its name among all checks."""
        return f"{self.area.replace(' ', '_')}-{self.name}"


def run_check(bench: Bench, check: Check) -> Outcome:
    """Run a check on a backend."""
    return outcome_of(lambda: check.run(bench))
