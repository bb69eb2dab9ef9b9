"""Enums of the runtime API, with QNN's numbers."""

from __future__ import annotations

import enum


class ProfileLevel(enum.IntEnum):
    """Level of detail of a profile. Those of backends begin at BACKEND."""

    BASIC = 1
    DETAILED = 2
    BACKEND = 1000


class ProfiledCall(enum.IntEnum):
    """Kind of call that a record of a profile log is about."""

    NONE = 0
    BACKEND_EXECUTE = 1
    BACKEND_FINALIZE = 2
    BACKEND_EXECUTE_ASYNC = 3
    BACKEND_CREATE_FROM_BINARY = 4
    BACKEND_DEINIT = 5
    APP_CONTEXT_CREATE = 6
    APP_COMPOSE_GRAPHS = 7
    APP_EXECUTE_IPS = 8
    BACKEND_GRAPH_COMPONENT = 9
    APP_BACKEND_LIB_LOAD = 10
    BACKEND_APPLY_BINARY_SECTION = 11
    CONTEXT_FINALIZE = 12
    CONTEXT_GET_BINARY_SIZE = 13
    CONTEXT_GET_BINARY = 14
    CONTEXT_GET_BINARY_SECTION_SIZE = 15
    BACKEND_FINALIZE_TENSOR_UPDATES = 16
    BACKEND_UPDATE_BINARY_SECTION = 17


class SignalKind(enum.IntEnum):
    """Effect of a signal; the numbers are those of the config options."""

    ABORT = 1
    TIMEOUT = 2


class LogLevel(enum.IntEnum):
    """The lowest importance of messages that are logged."""

    ERROR = 1
    WARN = 2
    INFO = 3
    VERBOSE = 4
    DEBUG = 5
