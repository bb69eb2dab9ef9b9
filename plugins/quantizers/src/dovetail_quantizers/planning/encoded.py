"""What a tensor gets: a type, an encoding, and the reason."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import DType, Encoding
from dovetail_quantizers.planning.rules import Range


@dataclass(frozen=True, slots=True)
class Encoded:
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
