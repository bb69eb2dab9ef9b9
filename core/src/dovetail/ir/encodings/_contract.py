"""Contract of encodings, and QNN's numbers for them."""

from __future__ import annotations

import enum
from typing import Protocol, runtime_checkable

from dovetail.ir.dtypes import DType
from dovetail.ir.storage import Array

Shape = tuple[int, ...]


class EncodingKind(enum.IntEnum):
    """QNN's numbers for the encodings.

    Source: spec/qnn_enums.md, Qnn_QuantizationEncoding_t.
    """

    SCALE_OFFSET = 0
    AXIS_SCALE_OFFSET = 1
    BW_SCALE_OFFSET = 2
    BW_AXIS_SCALE_OFFSET = 3
    BLOCK = 4
    BLOCKWISE_EXPANSION = 5
    VECTOR = 6
    FLOAT_BLOCK = 7
    BW_AXIS_SCALE_OFFSET_MAPPED = 8
    BW_BLOCK_MAPPED = 9
    BW_BLOCKWISE_EXPANSION_MAPPED = 10
    BW_FLOAT_BLOCK = 11


@runtime_checkable
class Encoding(Protocol):
    """Contract of all encodings."""

    @property
    def kind(self) -> EncodingKind:
        """QNN's kind."""

    @property
    def bitwidth(self) -> int | None:
        """Number of bits used if fewer than the type's; None for all of them."""

    @property
    def is_convertible(self) -> bool:
        """True if `dequantize` and `quantize` support it."""

    def scales_and_offsets(self, shape: Shape) -> tuple[Array, Array]:
        """Return scales (float32) and offsets, each broadcastable to `shape`.

        Offsets are int32; float32 if the encoding permits fractions.

        Raises:
            QuantizationError: It is not convertible.
        """

    def transposed(self, perm: Shape) -> Encoding:
        """Return the encoding of the transposed tensor."""

    def reshaped(self, old: Shape, new: Shape) -> Encoding:
        """Return the encoding of the reshaped tensor.

        Raises:
            QuantizationError: The encoding's axis or blocks would not be preserved.
        """

    def faults(self, shape: Shape, dtype: DType) -> list[str]:
        """Return every reason why the encoding does not match a tensor; empty if it matches."""
