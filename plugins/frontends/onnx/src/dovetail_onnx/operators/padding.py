"""Padding."""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Value

_SCHEMES = {"constant": 0, "reflect": 2, "edge": 3}


@ONNX.importer("Pad", versions=(2, 11, 13, 18, 19, 21, 23, 24, 25))
def pad(op: OpContext) -> Value:
    """Pad; negative amounts are cropped first."""
    mode = op.attr.text("mode", "constant")
    if mode == "wrap":
        return _wrapped(op)
    if mode not in _SCHEMES:
        raise op.unsupported(
            f"unsupported mode '{mode}'; expected one of {', '.join(_SCHEMES)}, wrap"
        )
    pads = _pads(op)
    grown = [(max(before, 0), max(after, 0)) for before, after in pads]
    if not any(map(any, pads)):
        return op.value(0)
    x = op.tensor(0)
    if not any(map(any, grown)):
        return op.emit("StridedSlice", [x], ranges=_kept(op, x, pads))
    if any(min(pair) < 0 for pair in pads):
        x = op.step("cut", "StridedSlice", [x], ranges=_kept(op, x, pads))
    value = _value(op, x.dtype) if mode == "constant" else None
    return op.emit("Pad", [x], scheme=_SCHEMES[mode], pad_amount=grown, pad_constant_value=value)


def _wrapped(op: OpContext) -> Value:
    """Gather, axis by axis, from an input that is repeated periodically."""
    x = op.tensor(0)
    pads = {axis: pair for axis, pair in enumerate(_pads(op)) if pair != (0, 0)}
    for axis, (before, after) in pads.items():
        extent = x.shape[axis]
        op.reserve_constant((4, max(0, before + extent + after)))  # of 64 bits, twice for a moment
        places = np.arange(-before, extent + after)
        if places.size and not extent:
            raise op.invalid(f"cannot repeat axis {axis} of {x.shape}, which is empty")
        indices = op.static("places", places % max(extent, 1), DType.INT_32)
        if axis == max(pads):
            return op.emit("Gather", [x, indices], axis=axis)
        x = op.step("wrapped", "Gather", [x, indices], axis=axis)
    return x


def _pads(op: OpContext) -> list[tuple[int, int]]:
    """Return (before, after) for every axis."""
    rank = len(op.spec(0).shape)
    given = op.need_ints(1, "pads") if op.version >= 11 else op.attr.integers("pads") or ()
    axes: tuple[int, ...] = tuple(range(rank))
    if op.has(3):
        axes = tuple(op.axis(axis, rank) for axis in op.need_ints(3, "axes"))
    if len(given) != 2 * len(axes):
        raise op.invalid(f"pads must be {2 * len(axes)} numbers, got {given}")
    pads = [(0, 0)] * rank
    for axis, before, after in zip(axes, given, given[len(axes) :], strict=False):
        pads[axis] = (before, after)
    return pads


def _kept(op: OpContext, x: Tensor, pads: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    rows = []
    for extent, (before, after) in zip(x.shape, pads, strict=True):
        begin, end = max(-before, 0), extent - max(-after, 0)
        if begin > end:
            raise op.invalid(f"pads {pads} remove more than there is of {x.shape}")
        rows.append((begin, end, 1))
    return rows


def _value(op: OpContext, dtype: DType) -> float:
    """Return the constant as a FLOAT_32 param holds it."""
    if op.version < 11:
        return op.attr.number("value", 0.0)
    if not op.has(2):
        return 0.0
    found = op.need_constant(2, "padding value").reshape(-1)
    if found.size != 1:
        raise op.invalid(f"padding value must be a single number, got {found.size} elements")
    if not dtype.is_float and int(np.float32(found[0])) != int(found[0]):
        raise op.unsupported(f"padding value {found[0]} has more digits than a param holds")
    return float(found[0])
