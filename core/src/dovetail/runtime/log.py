"""Log handles: how much dovetail's loggers report."""

from __future__ import annotations

import logging
from typing import Self

from dovetail.runtime.enums import LogLevel
from dovetail.runtime.handle import Handle, api_call

# In Python's numbers.
_LEVELS = {
    LogLevel.ERROR: logging.ERROR,
    LogLevel.WARN: logging.WARNING,
    LogLevel.INFO: logging.INFO,
    LogLevel.VERBOSE: (logging.INFO + logging.DEBUG) // 2,
    LogLevel.DEBUG: logging.DEBUG,
}


class Log(Handle):
    """The level of the logger `dovetail`, which holds for the whole process.

    `free` restores the level before.
    """

    kind = "log"
    invalid_code = "LOG_ERROR_INVALID_HANDLE"

    def __init__(self, level: LogLevel) -> None:
        super().__init__()
        self._logger = logging.getLogger("dovetail")
        self._before = self._logger.level
        self._logger.setLevel(_LEVELS[level])

    @classmethod
    @api_call("log_create")
    def create(cls, level: LogLevel = LogLevel.WARN) -> Self:
        """Create a handle and set the level."""
        return cls(level)

    @api_call("log_set_level")
    def set_level(self, level: LogLevel) -> None:
        """Set the level."""
        self._logger.setLevel(_LEVELS[level])

    @api_call("log_free")
    def free(self) -> None:
        """End the handle and restore the level."""
        self._logger.setLevel(self._before)
        self.invalidate()
