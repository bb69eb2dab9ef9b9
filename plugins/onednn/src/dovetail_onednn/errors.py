"""Statuses of oneDNN as errors of ours."""

from __future__ import annotations

import enum

from dovetail.errors import BackendError


class Status(enum.IntEnum):
    """What oneDNN's functions return."""

    SUCCESS = 0
    OUT_OF_MEMORY = 1
    INVALID_ARGUMENTS = 2
    UNIMPLEMENTED = 3
    LAST_IMPLEMENTATION_REACHED = 4
    RUNTIME_ERROR = 5
    NOT_REQUIRED = 6


_MEANINGS = {
    Status.OUT_OF_MEMORY: "out of memory",
    Status.INVALID_ARGUMENTS: "invalid arguments: the shapes and params contradict each other",
    Status.UNIMPLEMENTED: "not implemented for these types, layouts and post-ops on this processor",
    Status.LAST_IMPLEMENTATION_REACHED: "there is no other implementation",
    Status.RUNTIME_ERROR: "a failure at run time",
    Status.NOT_REQUIRED: "the thing asked for does not exist here",
}


def check(status: int, description: str) -> None:
    """End with an error unless a status is success.

    Args:
        status: What the function returned.
        description: What it was to do: primitive, types, shapes, params.

    Raises:
        BackendError: Says what failed, and why.
    """
    if status != Status.SUCCESS:
        raise failure(status, description)


def failure(status: int, description: str) -> BackendError:
    """Return the error for a status that is not success."""
    known = status in Status.__members__.values()
    meaning = _MEANINGS.get(Status(status), "") if known else "a status that is not documented"
    return BackendError(
        f"oneDNN failed with status {status} ({meaning}): {description}",
        hint="run this graph without oneDNN to tell whether it or the graph is at fault",
    )
