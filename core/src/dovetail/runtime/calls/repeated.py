"""Arguments of executions that are repeated, decoded once."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail.runtime.calls.record import CallRecord

_LIMIT_BYTES = 1 << 26  # of arguments that are kept
_FUNCTION = "graph_execute"


class RepeatedExecutions:
    """Decoded arguments of executions on arrays, by their recorded form.

    As in the application, executions on the same values then read the same arrays, which no
    execution changes.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], dict[str, Any]] = {}
        self._bytes = 0

    def get(self, record: CallRecord) -> dict[str, Any] | None:
        """Return the arguments of an execution like an earlier one; None if there was none."""
        return None if record.function != _FUNCTION else self._found.get(_key(record))

    def add(self, record: CallRecord, arguments: dict[str, Any]) -> None:
        """Keep the arguments of an execution that only reads arrays."""
        if record.function != _FUNCTION or record.unrecorded or arguments["outputs"] is not None:
            return
        arrays = arguments["inputs"].values()
        if not all(isinstance(array, np.ndarray) for array in arrays):
            return
        self._bytes += len(bytes(record.arguments)) + sum(array.nbytes for array in arrays)
        if self._bytes > _LIMIT_BYTES:
            self._found.clear()
            self._bytes = 0
        self._found[_key(record)] = {n: v for n, v in arguments.items() if v is not None}


def _key(record: CallRecord) -> tuple[object, ...]:
    return record.owner, bytes(record.arguments), record.payloads, bool(record.unrecorded)
