"""Sums and means of one tensor.

    acc = sum of levels, exact;   v = float32(acc) * m + z,   m = float32(s / (n * s'))

for tensors of up to 8 bits, `n` the number of elements of a mean. Results and data of 16 bits are
computed in float64 and settled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from dovetail.ir import Array
from dovetail.ops import NodeView
from dovetail_numpy.integer.binary import by_reference
from dovetail_numpy.integer.definitions import DEFINITIONS, Run
from dovetail_numpy.integer.grid import is_defined, is_fixed, is_tabular, stored_of
from dovetail_numpy.integer.rescaling import Rescale, grid_of, levels

_REDUCTIONS = ("ReduceSum", "ReduceMean", "CumulativeSum")
_POOLS = ("PoolAvg2d", "PoolAvg3d")
SUMS = (*_REDUCTIONS, *_POOLS)

# From levels to sums and to the numbers of elements that divide them.
Sum = Callable[[Array], Array]

_LARGEST_MULTIPLIER = 2.0**64


def sum_rescale(view: NodeView, count: Array) -> Rescale | None:
    """Return the rescaling of sums of levels, None if it is computed in float64.

    That is so if a type has more than 8 bits or several scales, or the result's scale is 0.

    Args:
        view: The node.
        count: The number of elements of each mean, broadcastable to the result; 1 for sums.
    """
    x, (out,) = view.ins[0], view.outs
    if x is None or not all(is_tabular(s) and s.dtype.bits <= 8 for s in (x, out)):
        return None
    (scale, _, _), (step, zero, limits) = grid_of(x), grid_of(out)
    if step == 0:
        return None
    multiplier = np.minimum(scale / (count * step), _LARGEST_MULTIPLIER)
    return Rescale(multiplier.astype(np.float32), np.zeros((), np.float32), zero, limits)


def _supports(view: NodeView) -> bool:
    return is_fixed(view.ins[0]) and is_defined(view)


@DEFINITIONS.prepares(*SUMS, supports=_supports)
def sums(view: NodeView) -> Run:
    """Add levels, and rescale the sums."""
    x, (out,) = view.ins[0], view.outs
    if x is None or not is_tabular(x):
        return by_reference(view, settled=True)
    add, count = _pool(view) if view.op_type in _POOLS else _reduction(view)
    rescale, scale = sum_rescale(view, count), grid_of(x)[0]

    def run(ins: Sequence[Array | None]) -> Sequence[Array]:
        (data,) = ins
        if data is None:
            raise AssertionError(f"{view.node.where} lacks its data")
        acc = add(levels(data, x))
        if rescale is not None:
            return [rescale.apply(acc, out)]
        return [stored_of(np.asarray(acc * scale / count), out, settled=True)]

    return run


def _reduction(view: NodeView) -> tuple[Sum, Array]:
    schema, op = view.definition
    (x,) = view.ins
    count = 1
    if x is not None and view.op_type == "ReduceMean":
        count = math.prod(x.shape[int(axis)] for axis in view.op.axes)

    def add(level: Array) -> Array:
        (found,) = schema.reference(op, [level], view.outs)
        return np.asarray(
            np.rint(found * count)
        )  # a mean times its count is less than half from the sum

    return add, np.asarray(float(count))


def _pool(view: NodeView) -> tuple[Sum, Array]:
    """Return sums of windows by the op that divides by their size, and their divisors."""
    schema, op = view.definition
    (x,) = view.ins
    if x is None:
        raise AssertionError(f"{view.node.where} lacks its data")
    size = math.prod(int(n) for n in view.op.filter_size)
    whole = type(op)(**{**vars(op), "count_pad_for_edges": True})

    def add(level: Array) -> Array:
        (found,) = schema.reference(whole, [level], view.outs)
        return np.asarray(np.rint(found * size))

    if view.op.count_pad_for_edges:
        return add, np.asarray(float(size))
    return add, np.maximum(add(np.ones((1, *x.shape[1:-1], 1))), 1)
