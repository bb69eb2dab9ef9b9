"""Fake quantization: one operator that quantizes real numbers and dequantizes the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import DType, Shape, Spec
from dovetail_onnx._context import OpContext
from dovetail_onnx._grids import exact_grid, grid_of
from dovetail_onnx.operators._formula import Expr, clip, maximum, rounded
from dovetail_opset.importing.constant import Constant, Value

_Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Levels:
    """A grid: x becomes `(clip(rint(x / scale) + zero, low, high) - zero) * scale`.

    Attributes:
        scale: One scale, or an array that broadcasts to the elements.
        zero: Whole numbers, of the same shape.
        low: The minimum integer.
        high: The maximum.
    """

    scale: _Floats
    zero: _Floats
    low: int
    high: int

    @property
    def bits(self) -> int | None:
        """Bits of integers with this range, if any; signed ones may lack the lowest."""
        bits = self.high.bit_length() + (self.low < 0)
        ends = (1 << (bits - 1), (1 << (bits - 1)) - 1) if self.low < 0 else (0, (1 << bits) - 1)
        fits = self.high == ends[1] and -self.low in (ends[0], min(ends))
        return bits if fits and 2 <= bits <= 16 else None

    def grid(self, shape: Shape, make: Callable[..., Spec | None]) -> Spec | None:
        """Return the grid of a tensor of a shape; None if the IR has no such encoding.

        Args:
            shape: The shape.
            make: `grid_of` or `exact_grid`.
        """
        along = [axis for axis, extent in enumerate(self.scale.shape) if extent > 1]
        if self.bits is None or len(along) > 1:
            return None
        return make(
            self.bits,
            signed=self.low < 0,
            shape=shape,
            scales=self.scale.reshape(-1),
            zeros=self.zero.reshape(-1),
            axis=along[0] - self.scale.ndim if along else -1,
        )


def finite(op: OpContext, i: int, what: str) -> _Floats:
    """Return the numbers of an input that must be known at import.

    Raises:
        FrontendError: The input is missing, or float32 cannot hold a number.
        UnsupportedOpError: They are not known.
    """
    found = np.asarray(op.need_constant(i, what), np.float32)
    if not np.isfinite(found).all() or not found.size:
        raise op.invalid(f"{what} must be finite")
    return found


def fitting(op: OpContext, names: Mapping[int, str]) -> list[_Floats]:
    """Return inputs of this kind in one shape, which broadcasts to the node's first input.

    Args:
        op: The node.
        names: Names of the inputs for errors, by number.

    Raises:
        FrontendError: One is not finite, or does not fit, or they take too much memory.
        UnsupportedOpError: One is not known.
    """
    x, found = op.spec(0).shape, []
    for i, what in names.items():
        given = _one(finite(op, i, what))
        if not _fits(given.shape, x):
            raise op.invalid(f"{what} {given.shape} does not match the input {x}")
        found.append(given)
    common = np.broadcast_shapes(*(given.shape for given in found))
    op.reserve_constant((len(found), *common))
    return [np.broadcast_to(given, common) for given in found]


def fake_quantized(op: OpContext, levels: Levels) -> Value:
    """Return the first input of a node on a grid: at import, with the grid, if it is known then."""
    x = op.value(0)
    if isinstance(x, Constant):
        return _computed(op, x, levels)
    if x.dtype is not DType.FLOAT_32:
        raise op.unsupported(f"unsupported quantization of {x.dtype.name}; expected float32")
    grid = levels.grid(x.shape, exact_grid)
    if grid is not None:
        stored = Expr(op, x).step("Quantize", spec=grid)
        if levels.low != grid.dtype.stored_range(levels.bits)[0]:
            integers = Spec(DType.of(grid.dtype.storage), x.shape)
            stored = maximum(stored.step("Cast", spec=integers), levels.low)
            stored = stored.step("Cast", spec=grid)
        return stored.step("Dequantize").emit()
    scale = op.static("scale", _one(levels.scale), DType.FLOAT_32)
    whole = rounded(Expr(op, x) / scale)
    if not levels.zero.any():
        return (clip(whole, levels.low, levels.high) * scale).emit()
    zero = op.static("zero", _one(levels.zero), DType.FLOAT_32)
    return ((clip(whole + zero, levels.low, levels.high) - zero) * scale).emit()


def _computed(op: OpContext, x: Constant, levels: Levels) -> Constant:
    values = np.asarray(x.values, np.float32)
    op.reserve_constant(values.shape)
    whole = np.rint(values / levels.scale) + levels.zero
    whole = np.clip(whole, levels.low, levels.high)
    made = ((whole - levels.zero) * levels.scale).astype(np.float32)
    grid = levels.grid(values.shape, grid_of)
    return Constant(made, DType.FLOAT_32, op.node.outputs[0], None, grid)


def _fits(given: Shape, x: Shape) -> bool:
    """Return whether a shape broadcasts to another."""
    pairs = zip(given[::-1], x[::-1], strict=False)
    return len(given) <= len(x) and all(extent in (1, full) for extent, full in pairs)


def _one(values: _Floats) -> _Floats:
    """Return a single number as a scalar, several with all their axes."""
    return values.reshape(()) if values.size == 1 else values
