"""The decision on a tensor: a type, an encoding, and the reason."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import DType, Encoding, ScaleOffset
from dovetail.ops import Range


@dataclass(frozen=True, slots=True)
class EncodingDecision:
    """The type and encoding of a tensor.

    Attributes:
        dtype: A fixed-point type, or a float type without an encoding.
        encoding: The encoding of a fixed-point type.
        why: The reason.
        observed: The observed range.
    """

    dtype: DType
    encoding: Encoding | None
    why: str
    observed: Range | None = None

    @property
    def ends(self) -> Range | None:
        """The first and the last point of the grid; None unless it has exactly one scale."""
        if not isinstance(self.encoding, ScaleOffset):
            return None
        low, high = self.dtype.stored_range(self.encoding.bitwidth)
        scale, offset = self.encoding.scale, self.encoding.offset
        return (low + offset) * scale, (high + offset) * scale
