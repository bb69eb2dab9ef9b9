"""Vector quantization: stored integers are indices of vectors in a code book."""

from __future__ import annotations

import msgspec

from dovetail.errors import QuantizationError
from dovetail.ir.dtypes import DType
from dovetail.ir.encodings._contract import EncodingKind, Shape
from dovetail.ir.encodings._per_axis import AxisScaleOffset
from dovetail.ir.encodings._shared import same_shape_only
from dovetail.ir.storage import Array

_MAX_SIZE = 2**32 - 1  # QNN stores them in 32 bits


class Vector(msgspec.Struct, frozen=True):
    """Indices of vectors in a code book, whose elements have an encoding of their own.

    It can be stored, but not converted.

    Attributes:
        base: Encoding of the vectors' elements, with a bitwidth.
        rows_per_block, columns_per_block: Size of the blocks that share a code book.
        vector_dimension: Number of elements of a vector.
        vector_stride: Distance between the elements of a vector.
        index_bitwidth: Bits of an index.
    """

    base: AxisScaleOffset
    rows_per_block: int
    columns_per_block: int
    vector_dimension: int
    vector_stride: int
    index_bitwidth: int

    @property
    def kind(self) -> EncodingKind:
        """VECTOR."""
        return EncodingKind.VECTOR

    @property
    def bitwidth(self) -> int | None:
        """That of the vectors' elements."""
        return self.base.bitwidth

    @property
    def is_convertible(self) -> bool:
        """False."""
        return False

    def scales_and_offsets(self, shape: Shape) -> tuple[Array, Array]:
        """Raise, since the real values are in a code book.

        Raises:
            QuantizationError: Always.
        """
        raise QuantizationError(
            "values with a vector encoding cannot be converted",
            hint="use a backend that runs this encoding, or quantize per block",
        )

    def transposed(self, perm: Shape) -> Vector:
        """Return the encoding itself; only the identity is allowed.

        Raises:
            QuantizationError: The order of the axes changes.
        """
        if perm != tuple(range(len(perm))):
            raise QuantizationError(
                f"a transpose by {perm} would cut the vectors of the tensor's encoding",
                hint="transpose before quantizing",
            )
        return self

    def reshaped(self, old: Shape, new: Shape) -> Vector:
        """Return the encoding itself; only the same shape is allowed.

        Raises:
            QuantizationError: The shape changes.
        """
        same_shape_only(old, new)
        return self

    def faults(self, shape: Shape, dtype: DType) -> list[str]:
        """Return the faults of the base, sizes and bitwidths."""
        found = self.base.faults(shape, dtype)
        if self.base.bitwidth is None:
            found.append("a vector encoding needs the bitwidth of its elements")
        sizes = {
            "rows per block": self.rows_per_block,
            "columns per block": self.columns_per_block,
            "vector dimension": self.vector_dimension,
            "vector stride": self.vector_stride,
        }
        found += [
            f"{name} must be positive and fit 32 bits, got {size}"
            for name, size in sizes.items()
            if not 1 <= size <= _MAX_SIZE
        ]
        if not 1 <= self.index_bitwidth <= 32:
            found.append(f"index bitwidth {self.index_bitwidth} is not between 1 and 32")
        return found
