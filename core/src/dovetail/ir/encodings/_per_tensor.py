"""One scale and offset for a whole tensor."""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import force_setattr

from dovetail.ir.dtypes import DType
from dovetail.ir.encodings._contract import EncodingKind, Shape
from dovetail.ir.encodings._shared import common_faults
from dovetail.ir.storage import Array

_INT_32 = np.iinfo(np.int32)


class ScaleOffset(msgspec.Struct, frozen=True, gc=False):
    """One scale and offset for the whole tensor.

    The scale is rounded to float32, as in QNN.
    """

    scale: float
    offset: int = 0
    bitwidth: int | None = None

    def __post_init__(self) -> None:
        with np.errstate(over="ignore"):  # `faults` reports infinity
            force_setattr(self, "scale", float(np.float32(self.scale)))

    @property
    def kind(self) -> EncodingKind:
        """SCALE_OFFSET, or BW_SCALE_OFFSET when a bitwidth is given."""
        return EncodingKind.SCALE_OFFSET if self.bitwidth is None else EncodingKind.BW_SCALE_OFFSET

    @property
    def is_convertible(self) -> bool:
        """True."""
        return True

    def scales_and_offsets(self, shape: Shape) -> tuple[Array, Array]:
        """Return the scale and the offset, shape () each."""
        return np.asarray(self.scale, np.float32), np.asarray(self.offset, np.int32)

    def transposed(self, perm: Shape) -> ScaleOffset:
        """Return the encoding itself."""
        return self

    def reshaped(self, old: Shape, new: Shape) -> ScaleOffset:
        """Return the encoding itself."""
        return self

    def faults(self, shape: Shape, dtype: DType) -> list[str]:
        """Return the faults of scale, offset and bitwidth."""
        found = common_faults(np.asarray([self.scale]), self.offset, self.bitwidth, dtype)
        if not _INT_32.min <= self.offset <= _INT_32.max:
            found.append(f"offset {self.offset} does not fit 32 bits")
        return found
