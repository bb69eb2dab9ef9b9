"""The target sizes and scales of a Resize or Upsample node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import Shape
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._resampling import need_choice


def targets(op: OpContext, shape: Shape) -> list[tuple[int, float]]:
    """Return the new size and the scale of each axis.

    Raises:
        FrontendError: The node states neither scales nor sizes, or invalid ones.
        UnsupportedOpError: They are not known at import.
    """
    axes = axes_of(op, len(shape))
    sizes = op.need_ints(3, "sizes") if op.has(3) and op.spec(3).shape != (0,) else ()
    if sizes:
        _check_count(op, "sizes", sizes, axes)
        return _to_sizes(op, shape, axes, sizes)
    scales = _scales(op)
    _check_count(op, "scales", scales, axes)
    if not all(0 < scale < 2**31 for scale in scales):
        raise op.invalid(f"scales must be positive and less than 2**31, got {scales}")
    found = [(extent, 1.0) for extent in shape]
    for axis, scale in zip(axes, scales, strict=True):
        # as float32: 0.7 * 10 is 7 there
        found[axis] = (int(np.float32(shape[axis]) * np.float32(scale)), scale)
    return found


def axes_of(op: OpContext, rank: int) -> tuple[int, ...]:
    """Return the axes to which scales, sizes and the region of interest apply."""
    given = op.attr.integers("axes")
    axes = tuple(op.axis(a, rank) for a in (range(rank) if given is None else given))
    if len(set(axes)) < len(axes):
        raise op.invalid(f"duplicate axis in axes {given}")
    return axes


def _scales(op: OpContext) -> tuple[float, ...]:
    if op.version < 9:
        return op.attr.numbers("scales") or ()
    where = 1 if op.version < 11 else 2
    if not op.has(where):
        raise op.invalid("missing scales or sizes")
    return tuple(float(scale) for scale in op.need_constant(where, "scales").reshape(-1))


def _to_sizes(
    op: OpContext, shape: Shape, axes: Sequence[int], sizes: Sequence[int]
) -> list[tuple[int, float]]:
    policy = op.attr.text("keep_aspect_ratio_policy", "stretch")
    need_choice(op, "keep_aspect_ratio_policy", policy, ("stretch", "not_larger", "not_smaller"))
    if min(sizes) < 0 or any(not shape[a] for a in axes):
        raise op.invalid(f"cannot resize {shape} to {tuple(sizes)}")
    scales = [size / shape[axis] for axis, size in zip(axes, sizes, strict=True)]
    found = [(extent, 1.0) for extent in shape]
    if policy != "stretch":
        scales = [min(scales) if policy == "not_larger" else max(scales)] * len(axes)
        sizes = [int(scales[0] * shape[axis] + 0.5) for axis in axes]
    for axis, size, scale in zip(axes, sizes, scales, strict=True):
        found[axis] = (size, scale)
    return found


def _check_count(op: OpContext, name: str, values: Sequence[float], axes: Sequence[int]) -> None:
    if len(values) != len(axes):
        raise op.invalid(f"expected {len(axes)} {name}, one for each axis, got {len(values)}")
