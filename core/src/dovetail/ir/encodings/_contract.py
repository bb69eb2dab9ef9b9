"""What every encoding can do, and QNN's numbers of them."""

from __future__ import annotations

import enum
from typing import Protocol

from dovetail.ir.dtypes import DType
from dovetail.ir.storage import Array

Shape = tuple[int, ...]


class EncodingKind(enum.IntEnum):
    """QNN's numbers of the encodings."""

    SCALE_OFFSET = 0
    AXIS_SCALE_OFFSET = 1
    BW_SCALE_OFFSET = 2
    BW_AXIS_SCALE_OFFSET = 3
    BLOCK = 4
    BLOCKWISE_EXPANSION = 5


class Encoding(Protocol):
    """What every encoding can do. `bitwidth` narrows the stored type; None means all of it."""

    @property
    def kind(self) -> EncodingKind:
        """QNN's kind."""

    @property
    def bitwidth(self) -> int | None:
        """Bits really used, where fewer than the type's."""

    def scales_and_offsets(self, shape: Shape) -> tuple[Array, Array]:
        """Return scales (float32) and offsets (int32), each broadcastable to `shape`."""

    def transposed(self, perm: Shape) -> Encoding:
        """Return the encoding of the transposed tensor."""

    def reshaped(self, old: Shape, new: Shape) -> Encoding:
        """Return the encoding of the reshaped tensor.

        Raises:
            QuantizationError: The encoding's axis or blocks do not survive.
        """

    def faults(self, shape: Shape, dtype: DType) -> list[str]:
        """Return every reason why the encoding does not fit a tensor; none if it fits."""
