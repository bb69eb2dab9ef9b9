"""The cases that `--cases` names, on the backend that `--backend` names."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.testing.bench import Bench
from dovetail.testing.case import OpCase
from dovetail.testing.outcome import Outcome
from dovetail.testing.runner import run_case


def test_op_case(bench: Bench, op_case: OpCase, conclude: Callable[[Outcome], None]) -> None:
    """Check that the backend returns the expected outputs, or says in full why it cannot run it."""
    conclude(run_case(bench, op_case))
