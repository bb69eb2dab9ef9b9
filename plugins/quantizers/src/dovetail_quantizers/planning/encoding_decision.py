"""What a tensor gets: a type, an encoding, and the reason."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import DType, Encoding, ScaleOffset
from dovetail_quantizers.planning.value_range import Range


@dataclass(frozen=True, slots=True)
class EncodingDecision:
    """What a tensor gets.

    Attributes:
        dtype: A fixed-point type, or a float one without an encoding.
        encoding: Of a fixed-point type.
        why: What decided it.
        observed: The range that was seen.
    """

    dtype: DType
    encoding: Encoding | None
    why: str
    observed: Range | None = None

    @property
    def ends(self) -> Range | None:
        """The least and the greatest point of its grid; None unless it has just one scale."""
        if not isinstance(self.encoding, ScaleOffset):
            return None
        low, high = self.dtype.stored_range(self.encoding.bitwidth)
        scale, offset = self.encoding.scale, self.encoding.offset
        return (low + offset) * scale, (high + offset) * scale
