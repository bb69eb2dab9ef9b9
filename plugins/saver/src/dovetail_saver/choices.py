"""Values of options, for commands whose help imports no runtime."""

from __future__ import annotations

import enum

DEFAULT_BACKEND = "htp"  # of programs of the vendor's Saver, which name none


class PayloadPolicy(enum.Enum):
    """The payloads that a trace keeps; data of graphs are static payloads."""

    ALL = "all"
    INPUTS = "inputs"  # no outputs
    OUTPUTS_HASH = "outputs-hash"  # of outputs their hashes only
    NONE = "none"


class Timing(enum.StrEnum):
    """When a replay makes calls."""

    FAST = "fast"  # as soon as possible
    AS_RECORDED = "as-recorded"  # not before their recorded time


class Threads(enum.StrEnum):
    """Threads that a replay makes calls from."""

    ONE = "one"
    AS_RECORDED = "as-recorded"


class Redacted(enum.StrEnum):
    """Payloads that are replaced."""

    WEIGHTS = "weights"
    INPUTS = "inputs"
