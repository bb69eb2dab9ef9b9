"""Outcomes of checks and cases."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from dovetail.errors import CATALOGUE, DovetailError

E = TypeVar("E", bound=DovetailError)


# The reason why outputs of a backend that only records calls are not judged.
COMPUTES_NOTHING = "the backend computes nothing: its outputs are zeros that nothing judges"


class Status(enum.StrEnum):
    """Result of a check or a case."""

    PASSED = "passed"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a check or a case, with the reason.

    Attributes:
        status: The result.
        reason: Why it is unsupported or failed; empty if it passed.
    """

    status: Status
    reason: str = ""


class Failure(AssertionError):  # noqa: N818 - it is what a test runner calls a failure
    """The subject of a test does not meet a requirement."""


class Unsupported(Exception):  # noqa: N818 - no error: it says so itself, and may
    """The subject of a test does not claim the capability that is checked."""


def demand(condition: object, message: str) -> None:
    """Raise a Failure unless `condition` holds."""
    if not condition:
        raise Failure(message)


def outcome_of(run: Callable[[], object]) -> Outcome:
    """Run a check and return its outcome, whatever it raises."""
    try:
        run()
    except Unsupported as reason:
        return Outcome(Status.UNSUPPORTED, str(reason))
    except Failure as failure:
        return Outcome(Status.FAILED, str(failure))
    except DovetailError as error:
        return Outcome(Status.FAILED, f"raised {error.code}: {error}")
    except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its failure
        return Outcome(Status.FAILED, f"raised {type(error).__name__}: {error}")
    return Outcome(Status.PASSED)


def expect_error(call: Callable[[], object], code: str, kind: type[E]) -> E:
    """Call a function that must raise an error, and return the error.

    Args:
        call: The call.
        code: Symbolic name of the error.
        kind: Its class.

    Raises:
        Failure: The call succeeded or raised something else.
    """
    try:
        call()
    except kind as error:
        demand(error.code == code, f"expected the error {code}, got {error.code}: {error}")
        entry = CATALOGUE[code]
        numbers = (error.number, int(error.exit_code))
        demand(numbers == (entry.number, entry.exit_code), f"the error {code} has {numbers}")
        demand(error.message, f"the error {code} has no message")
        return error
    except Exception as error:
        raise Failure(
            f"expected a {kind.__name__} {code}, got {type(error).__name__}: {error}"
        ) from error
    raise Failure(f"expected the error {code}, but the call succeeded")
