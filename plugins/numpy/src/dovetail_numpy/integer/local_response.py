"""Local response normalization.

    y = level * s / (bias + (alpha * s**2) * acc) ** beta,   acc = sum of squared levels, exact

in float64 and settled, for the exponents that square roots compute: 1/2, 3/4 and 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from dovetail.ir import Array
from dovetail.ops import NodeView
from dovetail_numpy.integer.definitions import DEFINITIONS
from dovetail_numpy.integer.grid import is_fixed, is_tabular, stored_of
from dovetail_numpy.integer.rescaling import levels, scales

_POWERS: Mapping[float, Callable[[Array], Array]] = MappingProxyType(
    {0.5: np.sqrt, 0.75: lambda x: np.sqrt(x) * np.sqrt(np.sqrt(x)), 1.0: lambda x: x}
)


def _supports(view: NodeView) -> bool:
    x = view.ins[0]
    return x is not None and is_tabular(x) and is_fixed(view.outs[0]) and view.op.beta in _POWERS


@DEFINITIONS.defines("Lrn", supports=_supports)
def local_response(view: NodeView, ins: Sequence[Array | None]) -> Sequence[Array]:
    """Divide levels by a power of the sum of squared levels around them."""
    (x,), (out,), (data,) = view.ins, view.outs, ins
    if x is None or data is None:
        raise AssertionError(f"{view.node.where} lacks its data")
    scale, level = scales(x), levels(data, x)
    acc = np.square(level)
    for axis in view.op.axes(level.ndim):
        acc = _window_sums(acc, axis, view.op.radius)
    with np.errstate(all="ignore"):  # a negative base has no root, and 0 does not divide
        power = _POWERS[view.op.beta](view.op.bias + (view.op.alpha * scale * scale) * acc)
        result = np.asarray(level * scale / power)
    return [stored_of(result, out, settled=True)]


def _window_sums(x: Array, axis: int, radius: int) -> Array:
    """Return the sum of each element and those at most `radius` away along an axis."""
    size = x.shape[axis]
    first_zero = np.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]))
    before = np.concatenate([first_zero, np.cumsum(x, axis=axis)], axis)
    position = np.arange(size)
    last, first = np.minimum(position + radius + 1, size), np.maximum(position - radius, 0)
    return np.asarray(np.take(before, last, axis) - np.take(before, first, axis))
