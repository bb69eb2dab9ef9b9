"""Functions shared by the encodings with arrays: content, comparison, faults."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import QuantizationError
from dovetail.ir.dtypes import DType
from dovetail.ir.encodings._contract import Shape
from dovetail.ir.storage import Array


class ByContent:
    """Base of Structs with a comparison of their own, whose `!=` would ignore it."""

    __slots__ = ()

    def __ne__(self, other: object) -> bool:
        return not self == other


def offsets_or_zeros(offsets: NDArray[np.int32] | None, scales: Array) -> NDArray[np.int32]:
    """Return the offsets; zeros of the shape of `scales` if they are None."""
    if offsets is None:
        return np.zeros(np.shape(scales), np.int32)
    return np.asarray(offsets, np.int32)


def same(mine: tuple[Array, ...], theirs: tuple[Array, ...]) -> bool:
    """Return whether arrays have equal shapes and elements."""
    return all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))


def content_hash(scales: Array, *rest: Hashable) -> int:
    """Return a hash that agrees with `same`: of the elements, whatever their type."""
    # numbers, not bytes: float32 and float64, and 0.0 and -0.0, may be equal
    return hash((*rest, tuple(np.asarray(scales).reshape(-1).tolist())))


def common_faults(
    scales: Array, offsets: Array | int | None, bitwidth: int | None, dtype: DType
) -> list[str]:
    """Return the faults of scales and integer offsets (any shape), and of the bitwidth."""
    found = []
    with np.errstate(over="ignore"):  # a finite float64 may overflow float32
        scales = np.asarray(scales).astype(np.float32)
    if not np.all(np.isfinite(scales)) or bool(np.any(scales < 0)):
        found.append("a scale is negative or not finite")
    if not isinstance(offsets, int | None) and not np.array_equal(offsets, np.rint(offsets)):
        found.append("an offset is not a whole number")
    if not dtype.is_fixed_point:
        found.append(f"{dtype.name} is not a fixed-point type and cannot have an encoding")
    elif bitwidth is not None and not 1 <= bitwidth <= dtype.bits:
        found.append(f"bitwidth {bitwidth} does not fit {dtype.name}")
    return found


def same_shape_only(old: Shape, new: Shape) -> None:
    """Raise if a tensor with blocks is reshaped.

    Raises:
        QuantizationError: The shape changes.
    """
    if old != new:
        raise QuantizationError(
            f"a reshape from {old} to {new} would cut the tensor's quantization blocks",
            hint="reshape before quantizing per block",
        )


def block_faults(sizes: Shape, scales: Array, offsets: Array | None, shape: Shape) -> list[str]:
    """Return the faults of blocks and of the shapes of their scales and offsets."""
    if len(sizes) != len(shape) or any(b < 1 or n % b for b, n in zip(sizes, shape, strict=True)):
        return [f"blocks of {sizes} do not divide a tensor of shape {shape}"]
    wanted = tuple(n // b for b, n in zip(sizes, shape, strict=True))
    return [
        f"expected {name} of shape {wanted} for the blocks, got {np.shape(array)}"
        for name, array in (("scales", scales), ("offsets", offsets))
        if array is not None and np.shape(array) != wanted
    ]


def spread_blocks(array: Array, sizes: Shape) -> Array:
    """Return an array with each item repeated for the elements of its block."""
    for axis, size in enumerate(sizes):
        array = np.repeat(array, size, axis)
    return array
