"""Measurements: the events of profiles, which backends record, too."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class EventType(enum.IntEnum):
    """Kind of measurement of an event; QNN's numbers."""

    FINALIZE = 300
    EXECUTE = 400
    NODE = 404
    EXECUTE_QUEUE_WAIT = 405


class EventUnit(enum.IntEnum):
    """Unit of an event's value; QNN's numbers."""

    MICROSEC = 1
    BYTES = 2
    COUNT = 4


@dataclass(frozen=True, slots=True)
class ProfileEvent:
    """A measurement.

    Attributes:
        type: Kind of measurement.
        identifier: The graph or node, in the user's terms.
        value: The measured value.
        unit: Unit of the value.
        children: Measurements of its parts.
    """

    type: EventType
    identifier: str
    value: float
    unit: EventUnit = EventUnit.MICROSEC
    children: tuple[ProfileEvent, ...] = ()
