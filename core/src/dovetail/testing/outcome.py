"""What came of a check or a case."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from dovetail.errors import CATALOGUE, DovetailError

E = TypeVar("E", bound=DovetailError)


class Status(enum.StrEnum):
    """How a check or a case ended."""

    PASSED = "passed"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a check or a case ended, and why.

    Attributes:
        status: How it ended.
        reason: Why it is unsupported or failed; empty where it passed.
    """

    status: Status
    reason: str = ""


class Failure(AssertionError):  # noqa: N818 - it is what a test runner calls a failure
    """What is under test is not as it must be."""


class Unsupported(Exception):  # noqa: N818 - no error: it says so itself, and may
    """What is under test does not claim what the check is about."""


def demand(condition: object, message: str) -> None:
    """Raise a Failure unless `condition` holds."""
    if not condition:
        raise Failure(message)


def outcome_of(run: Callable[[], object]) -> Outcome:
    """Run a check to its end, whatever that is."""
    try:
        run()
    except Unsupported as reason:
        return Outcome(Status.UNSUPPORTED, str(reason))
    except Failure as failure:
        return Outcome(Status.FAILED, str(failure))
    except DovetailError as error:
        return Outcome(Status.FAILED, f"refused with {error.code}: {error}")
    except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its failure
        return Outcome(Status.FAILED, f"raised {type(error).__name__}: {error}")
    return Outcome(Status.PASSED)


def refusal(call: Callable[[], object], code: str, kind: type[E]) -> E:
    """Create a call that must be refused, and return the error.

    Args:
        call: The call.
        code: Symbolic name of the error.
        kind: Its class.

    Raises:
        Failure: The call went through, or was refused in another way.
    """
    try:
        call()
    except kind as error:
        demand(error.code == code, f"refused with {error.code}, which must be {code}: {error}")
        entry = CATALOGUE[code]
        numbers = (error.number, int(error.exit_code))
        demand(numbers == (entry.number, entry.exit_code), f"{code} came with {numbers}")
        demand(error.message, f"{code} came without a message")
        return error
    except Exception as error:
        raise Failure(
            f"must be refused with a {kind.__name__} {code}; raised {type(error).__name__}: {error}"
        ) from error
    raise Failure(f"must be refused with {code}, but went through")
