"""A check: a function of the bench that ends quietly, or says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dovetail.testing.bench import Bench
from dovetail.testing.outcome import Outcome, outcome_of


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that every backend must keep.

    Attributes:
        area: What it is about.
        run: Raises a Failure, or Unsupported; its docstring says what is demanded.
    """

    area: str
    run: Callable[[Bench], None]

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return self.run.__name__

    @property
    def id(self) -> str:
        """Name it among all checks."""
        return f"{self.area.replace(' ', '_')}-{self.name}"


def run_check(bench: Bench, check: Check) -> Outcome:
    """Run a check on a backend."""
    return outcome_of(lambda: check.run(bench))
