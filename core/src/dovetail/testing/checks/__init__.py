"""Requirements on every backend: life cycle, capabilities, errors and more."""

from dovetail.testing.checks._check import Check, run_check
from dovetail.testing.checks.binaries import CHECKS as BINARIES
from dovetail.testing.checks.capabilities import CHECKS as CAPABILITIES
from dovetail.testing.checks.contexts import CHECKS as CONTEXTS
from dovetail.testing.checks.errors import CHECKS as ERRORS
from dovetail.testing.checks.failures import CHECKS as FAILURES
from dovetail.testing.checks.images import CHECKS as IMAGES
from dovetail.testing.checks.lifecycle import CHECKS as LIFE_CYCLE
from dovetail.testing.checks.preparation import CHECKS as PREPARATION
from dovetail.testing.checks.spaces import CHECKS as SPACES
from dovetail.testing.checks.updates import CHECKS as UPDATES

CHECKS: tuple[Check, ...] = tuple(
    Check(area, run)
    for area, functions in (
        ("life cycle", LIFE_CYCLE),
        ("contexts", CONTEXTS),
        ("preparation", PREPARATION),
        ("capabilities", CAPABILITIES),
        ("images", IMAGES),
        ("binaries", BINARIES),
        ("updates", UPDATES),
        ("spaces", SPACES),
        ("errors", ERRORS),
        ("failures", FAILURES),
    )
    for run in functions
)

__all__ = ["CHECKS", "Check", "run_check"]
