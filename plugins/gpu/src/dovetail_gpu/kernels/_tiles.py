"""Tiles of products: how much of the result a work item computes in registers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tile:
    """A part of a result.

    Attributes:
        rows: Rows.
        vectors: Vectors of eight columns.
    """

    rows: int
    vectors: int

    @property
    def columns(self) -> int:
        """Columns."""
        return 8 * self.vectors

    def __str__(self) -> str:
        return f"{self.rows}x{self.vectors}"
