"""Errors for statuses of oneDNN."""

from __future__ import annotations

import enum

from dovetail.errors import BackendError


class Status(enum.IntEnum):
    """Statuses that oneDNN's functions return."""

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
    Status.LAST_IMPLEMENTATION_REACHED: "no further implementation",
    Status.RUNTIME_ERROR: "failed at run time",
    Status.NOT_REQUIRED: "the queried object does not exist",
}


def check(status: int, description: str) -> None:
    """Raise unless a status is success.

    Args:
        status: Status that the function returned.
        description: The function's task: primitive, types, shapes, params.

    Raises:
        BackendError: The status is a failure; the message says of what, and why.
    """
    if status != Status.SUCCESS:
        raise failure(status, description)


def failure(status: int, description: str) -> BackendError:
    """Return the error for a status that is not success."""
    known = status in Status.__members__.values()
    meaning = _MEANINGS.get(Status(status), "") if known else "undocumented status"
    return BackendError(
        f"oneDNN failed with status {status} ({meaning}): {description}",
        hint="run this graph with engine = 'numpy' to see whether oneDNN or the graph is at fault",
    )
