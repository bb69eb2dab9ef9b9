"""Requirements on every backend: life cycle, capabilities, errors, failures."""

from dovetail.testing.checks._check import Check, run_check
from dovetail.testing.checks.capabilities import CHECKS as CAPABILITIES
from dovetail.testing.checks.errors import CHECKS as ERRORS
from dovetail.testing.checks.failures import CHECKS as FAILURES
from dovetail.testing.checks.lifecycle import CHECKS as LIFE_CYCLE

CHECKS: tuple[Check, ...] = tuple(
    Check(area, run)
    for area, functions in (
        ("life cycle", LIFE_CYCLE),
        ("capabilities", CAPABILITIES),
        ("errors", ERRORS),
        ("failures", FAILURES),
    )
    for run in functions
)

__all__ = ["CHECKS", "Check", "run_check"]
