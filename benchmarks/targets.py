"""Targets: limits of measured values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A measured value and its limit.

    Attributes:
        label: Name of the measurement.
        measured: The value.
        limit: The limit.
        unit: Unit of both.
        at_least: Whether the limit is a lower one.
    """

    label: str
    measured: float
    limit: float
    unit: str = ""
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        """True if the value is within the limit."""
        if self.at_least:
            return self.measured >= self.limit
        return self.measured <= self.limit

    @property
    def wanted(self) -> str:
        """The limit in words."""
        return f"at {'least' if self.at_least else 'most'} {self.limit:g} {self.unit}".rstrip()
