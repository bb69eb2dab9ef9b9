"""Tiles of products: how much of the result a work item computes in registers."""

from __future__ import annotations

from dataclasses import dataclass

SIDE = 16
DEPTH = 16  # channels that a group copies to local memory at a time
_GAP, _HALVES, _NBYTES = 4, 2, 4


@dataclass(frozen=True, slots=True)
class Tile:
    """The part of a result that a work item or a work group computes.

    Attributes:
        rows: Rows.
        vectors: Vectors of eight columns.
        is_shared: Whether a group of 16 times 16 work items computes it, with operands in local
            memory; otherwise one item does.
        parts: Number of parts of the terms, which different groups add up.
        is_wide: Whether two vectors, of a work item, are one register.
    """

    rows: int
    vectors: int
    is_shared: bool = False
    parts: int = 1
    is_wide: bool = False

    @property
    def columns(self) -> int:
        """Number of columns."""
        return 8 * self.vectors

    @property
    def local_bytes(self) -> int:
        """Local memory of a group."""
        line = self.rows + _GAP + self.columns
        return line * DEPTH * _HALVES * _NBYTES if self.is_shared else 0

    @property
    def template(self) -> str:
        """Name of the program."""
        return "product_local" if self.is_shared else "product"

    @property
    def group(self) -> tuple[int, int, int]:
        """Work items of a group."""
        return (SIDE, SIDE, 1) if self.is_shared else (1, 1, 1)

    @property
    def defines(self) -> dict[str, int | str]:
        """Macros of the program."""
        if self.is_shared:
            sizes = {"ROWS": self.rows // SIDE, "COLUMNS": self.columns // SIDE}
            return {**sizes, "SPLIT": int(self.parts > 1)}
        return {"ROWS": self.rows, "VECTORS": self.vectors, "LANES": 16 if self.is_wide else 8}

    def __str__(self) -> str:
        kind = "s" if self.is_shared else "w" if self.is_wide else ""
        return f"{self.rows}x{self.vectors}{kind}" + (f"/{self.parts}" if self.parts > 1 else "")
