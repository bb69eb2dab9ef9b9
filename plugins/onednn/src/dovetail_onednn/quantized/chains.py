"""Nodes fused into the product before them, where the bits stay the same.

A function that clamps stored integers does so before the sum is rounded: its limits are whole.
Other functions, and a sum with another tensor, follow the definition in post-ops: the product is
rounded to its own grid, then it is the function's argument, or both terms are added. Where there
are 16 bits, sums are not fused.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from dovetail.ir import DType
from dovetail.ops import NodeView
from dovetail.runtime.plan import KernelCall, Tail
from dovetail_numpy.integer import DEFINITIONS, Rescale
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.integer.tables import FUNCTIONS, function_table, look_up
from dovetail_onednn._api import Algorithm
from dovetail_onednn.attributes import Eltwise, PostOp, Sum
from dovetail_onednn.quantized.curves import curve_of, word_curve_of
from dovetail_onednn.quantized.sums import sum_constants
from dovetail_onednn.quantized.types import TYPES, WORDS

_SUMS = ("ElementWiseAdd", "ElementWiseSubtract")
_TRANSPOSED = "TransposeConv"
Limits = tuple[int, int]


class Fused(msgspec.Struct, frozen=True):
    """The post-ops of a product on stored integers.

    Attributes:
        ops: The post-ops.
        zero: What the library adds after them.
        added: The call's input that the destination holds before, or None.
    """

    ops: tuple[PostOp, ...]
    zero: int
    added: int | None = None


def can_fuse(group: Sequence[NodeView], node: NodeView) -> bool:
    """Return whether the step of a product can run a node too; see `Kernel.can_fuse`."""
    at = next((i for i, view in enumerate(group) if view.op_type in _SUMS), 0)
    functions = group[at + 1 :]
    specs = [spec for spec in (*group[0].ins[:2], group[0].outs[0]) if spec is not None]
    types = {specs[0].dtype, specs[-1].dtype}
    if types - WORDS - TYPES.keys() or (functions and _clamp(functions) is None):
        return False
    if any(spec.dtype in WORDS for spec in specs):
        return _clamp([*functions, node]) is not None or word_curve_of(node) is not None
    if node.op_type in _SUMS:
        is_transposed = group[0].op_type.startswith(_TRANSPOSED)  # these add wrongly, see `Sum`
        return not at and not is_transposed and _is_fused_sum(node)
    if _clamp([*functions, node]) is not None:
        return True
    return not at and curve_of(node) is not None


def word_ops(call: KernelCall, rescale: Rescale) -> tuple[tuple[Eltwise, ...], Limits]:
    """Return the post-ops of a call's fused nodes where there are 16 bits, and the result's limits.

    They add the zero point, and neither round the result nor clip it.

    Args:
        call: Its nodes were fused by `can_fuse`.
        rescale: How sums become stored integers of the first node's result.
    """
    views = [tail.view for tail in call.fused]
    curve = word_curve_of(views[-1]) if views else None
    functions = views if curve is None else views[:-1]
    low, high = _product_limits(rescale, call.head.outs[0].dtype, functions)
    if curve is None:
        return _line(1.0, rescale.zero), (low, high)
    return (*_rounded(rescale.zero, (low, high)), *curve), grid_of(views[-1].outs[0])[2]


def fused_of(call: KernelCall, rescale: Rescale) -> Fused:
    """Return the post-ops of a call's fused nodes, and of limits that are not those of a type.

    Args:
        call: Its nodes were fused by `can_fuse`.
        rescale: How sums become stored integers of the product.
    """
    zero = rescale.zero
    at = next((i for i, tail in enumerate(call.fused) if tail.view.op_type in _SUMS), None)
    dtype = call.head.outs[0].dtype
    views = [tail.view for tail in call.fused]
    curve = None
    if at is None:
        if not views or _clamp(views) is not None:
            return Fused(_clip(dtype, _product_limits(rescale, dtype, views), zero), zero)
        at, curve = len(views) - 1, curve_of(views[-1])
    rounded = _rounded(zero, _product_limits(rescale, dtype, views[:at]))
    if curve is not None:
        return Fused((*rounded, *curve), 0)
    added, ops = _sum(call, call.fused[at])
    last = call.outputs[0].dtype
    return Fused((*rounded, *ops, *_clip(last, _limits(last, views[at + 1 :]), 0)), 0, added)


def _sum(call: KernelCall, tail: Tail) -> tuple[int, Sequence[PostOp]]:
    """Return the input that is added to the product, and the post-ops."""
    constants = sum_constants(tail.view)
    (index,) = (i for i in tail.operands if i is not None)
    kind = TYPES.get(call.spec(index).dtype)
    if constants is None or kind is None:
        raise AssertionError(f"{tail.view.node.where} was fused, but has no post-op")
    own, other = constants.first, constants.second
    if tail.operands[0] is not None:
        own, other = other, own
    return index, (*_line(own, 0.0), Sum(other, kind), *_line(1.0, constants.constant))


def _is_fused_sum(node: NodeView) -> bool:
    """Return whether a sum adds tensors of equal shapes by `SumConstants`."""
    specs = (*node.ins, *node.outs)
    are_bytes = all(s is not None and s.dtype in TYPES for s in specs)
    shapes = {s.shape for s in specs if s is not None}
    if not are_bytes or len(shapes) != 1 or DEFINITIONS.of(node) is None:
        return False
    constants = sum_constants(node)  # the post-ops saturate at the type's limits only
    return constants is not None and constants.limits == node.outs[0].dtype.stored_range()


def _clamp(views: Sequence[NodeView]) -> Limits | None:
    """Return the limits between which functions clamp stored integers; None if they do not.

    Args:
        views: Nodes of which each reads the result of the one before; at least one.
    """
    first = views[0].ins[0]
    if first is None or first.dtype not in WORDS | TYPES.keys():
        return None
    least, greatest = first.dtype.stored_range()
    every = found = np.arange(least, greatest + 1).astype(first.dtype.storage)
    for view in views:
        if view.op_type not in FUNCTIONS or DEFINITIONS.of(view) is None:
            return None
        table = function_table(view)
        if table is None or view.outs[0].dtype is not first.dtype:
            return None
        found = look_up(table, found)
    low, high = int(found.min()), int(found.max())
    return (low, high) if np.array_equal(found, np.clip(every, low, high)) else None


def _limits(dtype: DType, views: Sequence[NodeView]) -> Limits:
    """Return the limits of stored integers after functions that `can_fuse` accepted."""
    found = _clamp(views) if views else dtype.stored_range()
    if found is None:
        raise AssertionError(f"{views[0].node.where} was fused, but has no post-op")
    return found


def _product_limits(rescale: Rescale, dtype: DType, views: Sequence[NodeView]) -> Limits:
    """Return the limits of a product after functions, which may be those of fewer bits."""
    low, high = np.clip(rescale.limits, *_limits(dtype, views))
    return int(low), int(high)


def _clip(dtype: DType, limits: Limits, zero: int) -> tuple[Eltwise, ...]:
    """Return limits as a post-op before the zero point is added."""
    (low, high), (least, greatest) = limits, dtype.stored_range()
    if (low, high) == (least, greatest):
        return ()  # the result saturates there
    if (low, high) == (zero, greatest):
        return (Eltwise(Algorithm.RELU),)
    return (Eltwise(Algorithm.CLIP, float(low - zero), float(high - zero)),)


def _rounded(zero: int, limits: Limits) -> tuple[Eltwise, ...]:
    """Return post-ops after which a sum is a stored integer."""
    clip = Eltwise(Algorithm.CLIP, *map(float, limits))
    return (*_line(1.0, zero), clip, Eltwise(Algorithm.ROUND))


def _line(factor: float, term: float) -> tuple[Eltwise, ...]:
    """Return a product or a sum as a post-op; none for the identity."""
    return () if (factor, term) == (1.0, 0.0) else (Eltwise(Algorithm.LINEAR, factor, term),)
