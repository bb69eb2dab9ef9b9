"""Sums of products: convolutions, products of matrices, and products with a number per channel.

A sum is exact. Data and weights of 16 bits are multiplied byte by byte, so that each sum fits 32
bits, and weights with a scale per block are summed block by block: each such `Pass` has a sum and a
multiplier of its own, and they are added in float32 in the order of `passes`. The sums are computed
by the op's own reference, on integers in a float type that holds all of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from msgspec.structs import replace

from dovetail.ir import (
    Array,
    AxisScaleOffset,
    Block,
    BlockwiseExpansion,
    Encoding,
    Mapped,
    ScaleOffset,
    Spec,
)
from dovetail.ops import NodeView
from dovetail.ops.simulate import is_left_open
from dovetail_numpy.integer.definitions import DEFINITIONS
from dovetail_numpy.integer.faults import Fault, constant
from dovetail_numpy.integer.rescaling import Floats, levels, rescale_of_products, scales

_TRANSPOSED = tuple(f"TransposeConv{n}d" for n in (1, 2, 3))
_CONVOLUTIONS = (
    *(f"Conv{n}d" for n in (1, 2, 3)),
    *_TRANSPOSED,
    "DepthWiseConv1d",
    "DepthWiseConv2d",
)
PRODUCTS = (*_CONVOLUTIONS, "FullyConnected", "MatMul", "Batchnorm")

# The largest sum that int32 holds, and the multipliers below which no float32 overflows.
_MAX_SUM = 2**31 - 1
_MAX_MULTIPLIER = 2.0**64
# Below this, float32 holds each integer, and so each partial sum.
_FLOAT32_EXACT = 2**24

Slices = tuple[slice, ...]


@dataclass(frozen=True, slots=True)
class Pass:
    """One exact sum of products of a node.

    Attributes:
        data_shift: 8 for the upper bytes of 16-bit data, else 0.
        weights_shift: 8 for the upper bytes of 16-bit weights, else 0.
        block: The part of the weights that is multiplied.
        multiplier: float32, one number or one for each channel, broadcastable to the result.
    """

    data_shift: int
    weights_shift: int
    block: Slices
    multiplier: Floats


def passes(view: NodeView) -> list[Pass]:
    """Return the sums of a product in the order in which they are added.

    Blocks are in C order of the weights' axes. In a block, lower bytes come before upper ones, and
    both parts of the data before the next part of the weights.
    """
    data, weights = operands(view)
    step = scales(view.outs[0])
    found = []
    for block, channels in _blocks(view, weights):
        multiplier = scales(data) * channels / step
        for wide, narrow in itertools.product(byte_shifts(weights), byte_shifts(data)):
            scaled = np.asarray(multiplier, np.float32) * np.float32(2 ** (wide + narrow))
            found.append(Pass(narrow, wide, block, scaled))
    return found


def part(stored: Array, spec: Spec, shift: int) -> Array:
    """Return the levels `q - z` of stored integers, or a byte of them, float64 integers.

    Of 16-bit integers, q and z are counted from the smallest stored integer, and the difference of
    their lower (shift 0) or upper (shift 8) bytes is returned. So `levels` is the lower part plus
    256 times the upper one.
    """
    if spec.dtype.bits <= 8:
        return levels(stored, spec) * _factors(spec)
    if spec.encoding is None:
        raise AssertionError("an operand without an encoding")
    least = spec.dtype.stored_range()[0]
    _, offset = spec.encoding.scales_and_offsets(spec.shape)
    q, z = stored.astype(np.int64) - least, -offset.astype(np.int64) - least
    if shift:
        return np.asarray((q >> 8) - (z >> 8), np.float64)
    return np.asarray((q & 255) - (z & 255), np.float64)


def operands(view: NodeView) -> tuple[Spec, Spec]:
    """Return the specs of data and weights."""
    data, weights = view.ins[:2]
    if data is None or weights is None:
        raise AssertionError(f"{view.node.where} lacks an operand")
    return data, weights


def channel_scales(view: NodeView) -> Array:
    """Return the scales of the weights, float64: one, or those that broadcast to the result.

    Weights with blocks have those of `passes`; this is the scale that the blocks' factors refine.
    """
    weights = operands(view)[1]
    base = _base(weights.encoding)
    if isinstance(base, BlockwiseExpansion):
        plain = AxisScaleOffset(base.axis, base.scales)
        return _columns(view, scales(replace(weights, encoding=plain)))
    if isinstance(base, Block):
        return np.ones(())  # only a bias needs it, which has a scale of its own
    return _columns(view, scales(weights))


def has_form(view: NodeView) -> bool:
    """Return whether types and encodings of a product are such that it is defined."""
    return not any(_form_faults(view)) and bool(scales(view.outs[0]) > 0)


def product_faults(view: NodeView) -> Iterator[Fault]:
    """Yield what is wrong with the operands of a product together: scales, widths, sums."""
    found = list(_form_faults(view))
    yield from found
    if not found:
        yield from overflow_faults("in[1]", accumulator_bound(view))


def accumulator_bound(view: NodeView) -> int:
    """Return a bound of the magnitude of each sum: of a pass, over all data of its type.

    It is exact but for padding where the weights are constant; otherwise all of them are assumed to
    have the largest magnitude of their type.
    """
    data, weights = operands(view)
    terms = math.prod(weights.shape[a] for a in _summed(view)) // _groups(view)
    stored = constant(view.node.inputs[1])
    return sum_bound(data, weights, stored, terms, partial(_column_sums, view))


def sum_bound(
    data: Spec, weights: Spec, stored: Array | None, terms: int, add: Callable[[Array], Array]
) -> int:
    """Return a bound of the magnitude of sums of products.

    Args:
        data: Type and encoding of one factor.
        weights: Those of the other.
        stored: Its stored values if they are constant.
        terms: Number of products in a sum.
        add: Adds up the weights of each sum.
    """
    bound = 0
    for shift in byte_shifts(weights):
        if stored is None:
            most = terms * _most(weights, shift)
        else:
            most = int(add(np.abs(part(stored, weights, shift))).max(initial=0))
        bound = max(bound, *(most * _most(data, s) for s in byte_shifts(data)))
    return bound


def overflow_faults(field: str, bound: int) -> Iterator[Fault]:
    """Yield the fault of sums that may not fit an accumulator of 32 bits."""
    if bound > _MAX_SUM:
        allowed = f"at most {_MAX_SUM}, which 32 bits hold"
        yield Fault("accumulator", field, f"sums of up to {bound}", allowed)


@DEFINITIONS.defines(*PRODUCTS, supports=has_form)
def product(view: NodeView, ins: Sequence[Array | None]) -> Sequence[Array]:
    """Multiply and add; the padding of convolutions is real zero."""
    stored, filters, bias = (*ins, None)[:3]
    if stored is None or filters is None:
        raise AssertionError(f"{view.node.where} lacks an operand")
    data, weights = operands(view)
    lefts = {shift: part(stored, data, shift) for shift in byte_shifts(data)}
    rights = {shift: part(filters, weights, shift) for shift in byte_shifts(weights)}
    sums = [
        (_sum(view, lefts[p.data_shift], rights[p.weights_shift], p.block), p.multiplier)
        for p in passes(view)
    ]
    (acc, multiplier), *further = sums
    rescale = replace(rescale_of_products(view, bias, channel_scales(view)), multiplier=multiplier)
    return [rescale.apply(acc, view.outs[0], *further)]


def _sum(view: NodeView, x: Array, weights: Array, block: Slices) -> Array:
    """Return the exact sum of products with a block of the weights, for integers as float64."""
    schema, op = view.definition
    if block:
        kept = np.zeros_like(weights)
        kept[block] = weights[block]
        weights = kept
    largest = float(np.abs(x).max(initial=0))
    most = largest * float(_column_sums(view, np.abs(weights)).max(initial=0))
    exact = np.float32 if most < _FLOAT32_EXACT else np.float64
    (total,) = schema.reference(op, [x.astype(exact), weights.astype(exact), None], view.outs)
    return np.asarray(total)


def _form_faults(view: NodeView) -> Iterator[Fault]:
    """Yield the faults of types and encodings; the values of tensors are not read."""
    (data, weights), out = operands(view), view.outs[0]
    bias = view.ins[2] if len(view.ins) > 2 else None
    named = {"in[0]": data, "in[1]": weights, "out[0]": out}
    for field, spec in named.items():
        if not spec.dtype.is_fixed_point or spec.dtype.bits > 16:
            yield Fault("width", field, spec.dtype.name, "a fixed-point type of up to 16 bits")
    for field, spec in (("in[0]", data), ("out[0]", out)):
        if spec.dtype.is_fixed_point and not isinstance(spec.encoding, ScaleOffset):
            yield _wrong_encoding(field, spec, "SCALE_OFFSET")
    if weights.dtype.is_fixed_point:
        yield from _weights_faults(view, weights)
    if bias is not None:
        yield from _bias_faults(bias, weights)
    if all(isinstance(spec.encoding, ScaleOffset) for spec in (data, out)):
        yield from _multiplier_faults(view)


def _weights_faults(view: NodeView, weights: Spec) -> Iterator[Fault]:
    base = _base(weights.encoding)
    if isinstance(base, AxisScaleOffset):
        rank = len(weights.shape)
        if base.axis in _summed(view) and weights.shape[base.axis] > 1:
            kept = [a for a in range(rank) if a not in _summed(view)]
            found = f"scales along axis {base.axis}, which is summed"
            yield Fault("encoding", "in[1].encoding", found, f"scales along one of the axes {kept}")
    elif isinstance(base, Block | BlockwiseExpansion):
        if weights.dtype.bits > 8:
            found = f"{weights.dtype.name} with blocks"
            yield Fault("width", "in[1]", found, "blocks of up to 8 bits")
        if isinstance(base, BlockwiseExpansion) and base.axis in _summed(view):
            yield Fault("encoding", "in[1].encoding", f"channels on axis {base.axis}", "others")
    elif not isinstance(base, ScaleOffset):
        kinds = "one of a tensor, an axis or blocks, with whole offsets"
        yield _wrong_encoding("in[1]", weights, kinds)
    if isinstance(weights.encoding, Mapped) and weights.dtype.bits > 8:
        yield _wrong_encoding("in[1]", weights, "one without a mapping for 16 bits")


def _bias_faults(bias: Spec, weights: Spec) -> Iterator[Fault]:
    if bias.dtype.is_float:
        return
    if not (bias.dtype.is_fixed_point or bias.dtype.is_int) or bias.dtype.bits > 32:
        yield Fault("width", "in[2]", bias.dtype.name, "a float or up to 32 bits")
    if bias.encoding is None and bias.dtype.bits < 32:
        yield _wrong_encoding("in[2]", bias, "scale and offset, or 32 bits")
    elif is_left_open(bias) and isinstance(_base(weights.encoding), Block):
        yield _wrong_encoding("in[2]", bias, "a scale, since each block of weights has its own")


def _multiplier_faults(view: NodeView) -> Iterator[Fault]:
    data, weights = operands(view)
    step = float(scales(view.outs[0]))
    if weights.encoding is None or not weights.encoding.is_convertible or not step > 0:
        return
    most = float(scales(data)) * float(scales(weights).max(initial=0.0)) / step
    if not most < _MAX_MULTIPLIER:
        allowed = f"scales of in[0] times in[1] over out[0] below {_MAX_MULTIPLIER:g}"
        yield Fault("multiplier", "out[0].encoding", f"{most:g}", allowed)


def _wrong_encoding(field: str, spec: Spec, allowed: str) -> Fault:
    found = "none" if spec.encoding is None else spec.encoding.kind.name
    return Fault("encoding", f"{field}.encoding", found, allowed)


def _base(encoding: Encoding | None) -> Encoding | None:
    """Return an encoding, or that of which it maps the levels."""
    if isinstance(encoding, Mapped) and encoding.is_convertible:
        return encoding.base
    return encoding


def _factors(spec: Spec) -> Array:
    """Return the whole factors of the levels, 1 unless blocks refine the scale of a channel."""
    base = _base(spec.encoding)
    if not isinstance(base, BlockwiseExpansion):
        return np.ones(())
    return scales(replace(spec, encoding=replace(base, scales=np.ones_like(base.scales))))


def byte_shifts(spec: Spec) -> tuple[int, ...]:
    """Return the shifts of the parts in which a tensor is multiplied; see `part`."""
    return (0,) if spec.dtype.bits <= 8 else (0, 8)


def _most(spec: Spec, shift: int) -> int:
    """Return the largest magnitude of a part of a tensor's levels."""
    if spec.encoding is None:
        raise AssertionError("an operand without an encoding")
    low, high = spec.dtype.stored_range(spec.encoding.bitwidth)
    _, offset = spec.encoding.scales_and_offsets(spec.shape)
    if spec.dtype.bits <= 8:
        ends = np.stack([low + offset.astype(np.float64), high + offset.astype(np.float64)])
        return math.ceil(float(np.abs(ends).max(initial=0) * _factors(spec).max(initial=1.0)))
    least = spec.dtype.stored_range()[0]
    z = -offset.astype(np.int64) - least
    zeros = z >> 8 if shift else z & 255
    return int(np.maximum(255 - zeros, zeros).max(initial=0))


def _summed(view: NodeView) -> tuple[int, ...]:
    """Return the axes of the weights over which products are added."""
    rank = len(operands(view)[1].shape)
    if view.op_type == "Batchnorm":
        return ()
    if view.op_type == "FullyConnected":
        return (1,)
    if view.op_type == "MatMul":
        return (rank - 1 if view.op.transpose_in1 else rank - 2,)
    return tuple(range(rank - 1))


def _groups(view: NodeView) -> int:
    """Return how many groups of channels the weights of a transposed convolution have."""
    return int(view.op.group) if view.op_type in _TRANSPOSED else 1


def _column_sums(view: NodeView, weights: Array) -> Array:
    """Return sums of the weights over all that is added up for one element of the result."""
    if (groups := _groups(view)) > 1:
        channels, each = weights.shape[-2:]
        weights = weights.reshape(-1, groups, channels // groups, each)
        return np.asarray(weights.sum(axis=(0, 2)))
    return np.asarray(weights.sum(axis=_summed(view)))


def _columns(view: NodeView, spread: Array) -> Array:
    """Return scales of the weights, 1 along summed axes, such that they broadcast to the result."""
    if spread.size == 1:
        return spread.reshape(())
    if view.op_type == "MatMul":
        return np.asarray(spread.swapaxes(-1, -2) if view.op.transpose_in1 else spread)
    return np.tile(spread.reshape(-1), _groups(view))


def _blocks(view: NodeView, weights: Spec) -> Iterator[tuple[Slices, Array]]:
    """Yield the parts of the weights that have one scale for each channel, and their scales."""
    base = _base(weights.encoding)
    if not isinstance(base, Block):
        yield (), channel_scales(view)
        return
    grid = base.scales.astype(np.float64)
    summed = _summed(view)
    for index in np.ndindex(*(grid.shape[a] for a in summed)):
        at = [slice(None)] * grid.ndim
        taken = [slice(None)] * grid.ndim
        for axis, i in zip(summed, index, strict=True):
            size = base.block_size[axis]
            at[axis], taken[axis] = slice(i, i + 1), slice(i * size, (i + 1) * size)
        found = grid[tuple(at)]
        for axis, size in enumerate(base.block_size):
            found = found if axis in summed else np.repeat(found, size, axis)
        yield tuple(taken), _columns(view, found)
