"""Life cycle, capabilities, errors and failures of the backend that `--backend` names."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.testing.bench import Bench
from dovetail.testing.checks import Check, run_check
from dovetail.testing.outcome import Outcome


def test_check(bench: Bench, check: Check, conclude: Callable[[Outcome], None]) -> None:
    """Check that the backend meets a requirement on every backend."""
    conclude(run_check(bench, check))
