"""Enums of the runtime API, with QNN's numbers."""

from __future__ import annotations

import enum


class ProfileLevel(enum.IntEnum):
    """Level of detail of a profile. Those of backends begin at BACKEND."""

    BASIC = 1
    DETAILED = 2
    BACKEND = 1000


class SignalKind(enum.IntEnum):
    """Effect of a signal; the numbers are those of the config options."""

    ABORT = 1
    TIMEOUT = 2


class LogLevel(enum.IntEnum):
    """The level up to which messages are logged."""

    ERROR = 1
    WARN = 2
    INFO = 3
    VERBOSE = 4
    DEBUG = 5
