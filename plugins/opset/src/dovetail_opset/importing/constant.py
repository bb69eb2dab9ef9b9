"""Values of a model's tensors during an import: constants, and tensors of the graph."""

from __future__ import annotations

import msgspec
import numpy as np

from dovetail.ir import Array, Blob, DType, Spec, Tensor

# Larger constants are not computed at import: a hostile shape must not take all memory.
MAX_BYTES = 2**29
# Types that NumPy can hold.
MAX_RANK = 64


class Constant(msgspec.Struct, frozen=True, eq=False):
    """A value known at import.

    Attributes:
        values: Logical values (float32 for BFLOAT_16), never changed; possibly a view of a mapped
            file, and then not always aligned.
        dtype: Data type that they are stored as.
        name: The tensor of the model that holds them.
        packed: The format's number of the element type if that is of 4 bits, else None.
        grid: Grid that the model stores them on, if it stores real numbers as integers.
        stored: The part of a mapped file that holds the values, if they are a view of one.
    """

    values: Array
    dtype: DType
    name: str
    packed: int | None = None
    grid: Spec | None = None
    stored: Blob | None = None

    @classmethod
    def of(cls, values: Array, name: str) -> Constant:
        """Create a constant of an array of a plain NumPy type or of ml_dtypes' bfloat16.

        Raises:
            KeyError: The IR has no such type.
        """
        if values.dtype.name == "bfloat16":
            return cls(values.astype(np.float32), DType.BFLOAT_16, name)
        return cls(values, DType.of(values.dtype), name)

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return self.values.shape


Value = Tensor | Constant
Result = Value | Array


def owned(values: Array) -> Array:
    """Return values in private memory: a copy if they are a view of a mapped file."""
    base: object = values.base
    while isinstance(base, np.ndarray):
        base = base.base
    return values if base is None or isinstance(base, bytes) else values.copy()


def as_value(result: Result, name: str) -> Value:
    """Return what an importer returned as a value of that name."""
    if isinstance(result, Tensor | Constant):
        return result
    array: Array = result
    return Constant.of(array, name)
