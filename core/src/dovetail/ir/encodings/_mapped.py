"""Encodings of few bits whose stored integers are mapped to other levels."""

from __future__ import annotations

import enum

import msgspec
import numpy as np
from msgspec.structs import replace

from dovetail.errors import QuantizationError
from dovetail.ir.dtypes import DType
from dovetail.ir.encodings._contract import EncodingKind, Shape
from dovetail.ir.encodings._expansion import BlockwiseExpansion
from dovetail.ir.encodings._per_axis import AxisScaleOffset
from dovetail.ir.encodings._per_block import Block
from dovetail.ir.storage import Array


class EncodingMapping(enum.IntEnum):
    """QNN's numbers for the levels of stored integers.

    Source: spec/qnn_enums.md, Qnn_QuantizationEncodingMapping_t.
    """

    STANDARD_SYMMETRIC = 0
    ASYMMETRIC_PLUS_ONE = 1
    LINEAR_SYMMETRIC_EXCLUDE_ZERO = 2


# What is added to a stored integer. The source does not define ASYMMETRIC_PLUS_ONE.
_SHIFTS = {
    EncodingMapping.STANDARD_SYMMETRIC: 0.0,
    EncodingMapping.LINEAR_SYMMETRIC_EXCLUDE_ZERO: 0.5,
}
_KINDS: dict[type, EncodingKind] = {
    AxisScaleOffset: EncodingKind.BW_AXIS_SCALE_OFFSET_MAPPED,
    Block: EncodingKind.BW_BLOCK_MAPPED,
    BlockwiseExpansion: EncodingKind.BW_BLOCKWISE_EXPANSION_MAPPED,
}


class Mapped(msgspec.Struct, frozen=True):
    """An encoding with a bitwidth whose stored integers represent other levels.

    STANDARD_SYMMETRIC is the encoding itself. LINEAR_SYMMETRIC_EXCLUDE_ZERO has the levels halfway
    between integers, `real = (q + 0.5 + offset) * scale`. ASYMMETRIC_PLUS_ONE can be stored, but
    not converted.
    """

    base: AxisScaleOffset | Block | BlockwiseExpansion
    mapping: EncodingMapping

    @property
    def kind(self) -> EncodingKind:
        """The mapped kind of the base."""
        return _KINDS[type(self.base)]

    @property
    def bitwidth(self) -> int | None:
        """That of the base."""
        return self.base.bitwidth

    @property
    def is_convertible(self) -> bool:
        """True unless the mapping is ASYMMETRIC_PLUS_ONE."""
        return self.mapping in _SHIFTS

    def scales_and_offsets(self, shape: Shape) -> tuple[Array, Array]:
        """Return those of the base, with the shift of the mapping in the offsets (float32).

        Raises:
            QuantizationError: The mapping is ASYMMETRIC_PLUS_ONE.
        """
        if (shift := _SHIFTS.get(self.mapping)) is None:
            raise QuantizationError(
                f"values with the mapping {self.mapping.name} cannot be converted",
                hint="use STANDARD_SYMMETRIC or LINEAR_SYMMETRIC_EXCLUDE_ZERO",
            )
        scales, offsets = self.base.scales_and_offsets(shape)
        return scales, offsets.astype(np.float32) + np.float32(shift) if shift else offsets

    def transposed(self, perm: Shape) -> Mapped:
        """Return the encoding with its base transposed; see there."""
        return replace(self, base=self.base.transposed(perm))

    def reshaped(self, old: Shape, new: Shape) -> Mapped:
        """Return the encoding with its base reshaped; see there."""
        return replace(self, base=self.base.reshaped(old, new))

    def faults(self, shape: Shape, dtype: DType) -> list[str]:
        """Return the faults of the base, and a missing bitwidth."""
        found = self.base.faults(shape, dtype)
        if self.base.bitwidth is None:
            found.append("an encoding with a mapping needs a bitwidth")
        return found
