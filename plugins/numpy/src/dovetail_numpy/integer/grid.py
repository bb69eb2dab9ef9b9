"""Real values in float64, and the grids of fixed-point tensors.

    real = (q - z) * s,   q = clip(rint(real / s + z))

The first is exact for integers of up to 29 bits. Only additions, multiplications, divisions and
roundings occur, each rounded once, so that results are the same on every processor.
"""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array, DType, ScaleOffset, Spec
from dovetail.ir.storage import bfloat16_to_float32
from dovetail.ops import NodeView, from_real
from dovetail_numpy.integer.rescaling import scales

# What is closer to a tie than half of this share of a step counts as a tie; see `stored_of`.
_SETTLED_PARTS = float(1 << 20)
_FARTHEST_ZERO = 1 << 17


def is_fixed(spec: Spec | None) -> bool:
    """Return whether a tensor is fixed-point with an encoding that can be converted."""
    if spec is None or spec.encoding is None:
        return False
    return spec.dtype.is_fixed_point and spec.encoding.is_convertible


def is_tabular(spec: Spec) -> bool:
    """Return whether a table of all stored integers gives the real values: up to 16 bits."""
    one_scale = isinstance(spec.encoding, ScaleOffset)
    return one_scale and spec.dtype.is_fixed_point and spec.dtype.bits <= 16


def is_single(spec: Spec) -> bool:
    """Return whether float32 holds every level of a tensor.

    It has up to 16 bits, one scale above 0, and a zero point between -2^17 and 2^17.
    """
    if not isinstance(spec.encoding, ScaleOffset) or not is_tabular(spec):
        return False
    return spec.encoding.scale > 0 and abs(spec.encoding.offset) <= _FARTHEST_ZERO


def is_all_levels(spec: Spec) -> bool:
    """Return whether all stored integers of a tensor are levels that float32 holds.

    Then a choice of levels is one of stored integers: none is beyond a bitwidth.
    """
    if not is_single(spec) or spec.encoding is None:
        return False
    return spec.dtype.stored_range(spec.encoding.bitwidth) == spec.dtype.stored_range()


def is_defined(view: NodeView) -> bool:
    """Return whether every fixed-point tensor of a node has an encoding that can be converted."""
    specs = (*view.ins, *view.outs)
    return all(s is None or not s.dtype.is_fixed_point or is_fixed(s) for s in specs)


def real_of(stored: Array, spec: Spec) -> Array:
    """Return real values: float64 for fixed-point and float types, others as they are stored."""
    if spec.dtype.is_fixed_point and spec.encoding is not None:
        scale, offset = spec.encoding.scales_and_offsets(stored.shape)
        levels = stored.astype(np.float64) + offset
        return np.asarray(levels * scale.astype(np.float64))
    if spec.dtype is DType.BFLOAT_16:
        return bfloat16_to_float32(stored).astype(np.float64)
    return stored.astype(np.float64) if spec.dtype.is_float else stored


def single_of(real: Array) -> Array:
    """Return real values rounded to float32, as a float run has them; other types unchanged."""
    with np.errstate(over="ignore"):  # beyond float32 is inf
        return real.astype(np.float32) if real.dtype.kind == "f" else real


def stored_of(real: Array, spec: Spec, *, settled: bool = False) -> Array:
    """Return real values in their stored form.

    In fixed-point types, NaN becomes the zero point, as does everything if the scale is 0. Other
    types are those of `from_real`.

    Args:
        real: Any shape.
        spec: Type and encoding of the result.
        settled: Whether `real / s + z` is first rounded to a multiple of 2**-20, half to even. Then
            the last bits of `real`, in which libraries differ, do not decide a tie.
    """
    if not spec.dtype.is_fixed_point or spec.encoding is None:
        return from_real(real, spec)
    scale, offset = spec.encoding.scales_and_offsets(real.shape)
    step = np.where(scale == 0, np.inf, scale).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        steps = real / step
    return _placed(steps, np.negative(offset, dtype=np.float64), spec, settled=settled)


def level_on_grid(level: Array, source: Spec, target: Spec) -> Array:
    """Return `clip(rint(settled(level * (s / s') + z')))`, levels of a tensor in another's grid.

    Args:
        level: Whole levels or fractions between them, any shape.
        source: Type and encoding of the levels, with one scale.
        target: Type and encoding of the result.
    """
    if not target.dtype.is_fixed_point or target.encoding is None:
        return from_real(np.asarray(level * scales(source)), target)
    scale, offset = target.encoding.scales_and_offsets(level.shape)
    step = np.where(scale == 0, np.inf, scale).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        steps = level * (scales(source) / step)
    return _placed(steps, np.negative(offset, dtype=np.float64), target, settled=True)


def _placed(steps: Array, zero: Array, spec: Spec, *, settled: bool) -> Array:
    """Add the zero point, round and clip."""
    with np.errstate(over="ignore", invalid="ignore"):
        steps = steps + zero
        if settled:
            steps = np.rint(steps * _SETTLED_PARTS) / _SETTLED_PARTS
        steps = np.where(np.isnan(steps), zero, steps)
    limits = spec.dtype.stored_range(None if spec.encoding is None else spec.encoding.bitwidth)
    return np.asarray(np.clip(np.rint(steps), *limits).astype(spec.dtype.storage))
