"""The ops of the package that `--op-package` names, with the cases that `--cases` names."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.testing.outcome import Outcome
from dovetail.testing.packages import Aspect, OpSubject, run_aspect


def test_op(op_aspect: tuple[OpSubject, Aspect], conclude: Callable[[Outcome], None]) -> None:
    """Check that the op is defined, agrees with its cases, and rejects wrong nodes."""
    subject, aspect = op_aspect
    conclude(run_aspect(subject, aspect))
