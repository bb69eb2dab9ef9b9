"""Sums of products of stored integers: the numbers that all kernels of products share.

The library computes `float32(acc) * m`, then `+ b`, then `+ z`, each rounded to float32, and rounds
the result half to even: the definition's formula (`dovetail_numpy.integer`). Scales of the weights
are its `m`, the bias is its `b`, the zero point of the destination is its `z`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from dovetail.ir import Array, AxisScaleOffset, ScaleOffset, Spec, Tensor
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.integer import DEFINITIONS, Rescale, rescale_of_products
from dovetail_numpy.integer.products import (
    accumulator_bound,
    channel_scales,
    operands,
    part,
    passes,
    sum_bound,
)
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_onednn._api import SCALES, ZERO_POINTS, Arg, DataType
from dovetail_onednn._library import library
from dovetail_onednn.attributes import Quantization
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import OneDnnLayout
from dovetail_onednn.primitives import PrimitiveDesc
from dovetail_onednn.quantized.chains import Fused, fused_of
from dovetail_onednn.quantized.types import EXACT, TYPES
from dovetail_onednn.reorder import Arrays, given, pack
from dovetail_onednn.steps import Arguments, is_slow

DATA, WEIGHTS, BIAS = 0, 1, 2  # inputs
LARGEST = np.iinfo(np.int32).max  # sum of products
_FARTHEST_ZERO = 1 << 23  # of a result: float32 holds its distances from the limits


class Integers(msgspec.Struct, frozen=True):
    """The numbers of a product of stored integers.

    Attributes:
        source: Type of the data.
        target: Type of the result.
        zero: Stored integer of real zero in the data.
        rescale: How sums become stored integers of the result.
        units: Number of output channels.
        has_bias: Whether there is a bias.
        fused: The fused nodes.
        parts: Number of terms, which the library multiplies exactly, that the weights are sums of;
            0 if they are not constant.
        is_exact_in_float: Whether float32 holds every partial sum.
        gives_zero: Whether the library gets the zero point of the data even if that is 0.
    """

    source: DataType
    target: DataType
    zero: int
    rescale: Rescale
    units: int
    has_bias: bool
    fused: Fused
    parts: int
    is_exact_in_float: bool
    gives_zero: bool = False

    @property
    def has_zero(self) -> bool:
        """True if the library gets the zero point of the data."""
        return self.zero != 0 or self.gives_zero

    def quantization(self, mask: int) -> Quantization:
        """Return the attributes of the primitive.

        Args:
            mask: Mask of the axes of the weights along which output channels differ.
        """
        zeros = [Arg.SOURCE] if self.has_zero else []
        zeros += [Arg.DESTINATION] if self.fused.zero else []
        return Quantization(((Arg.WEIGHTS, mask),), tuple(zeros))

    def numbers(self, mask: int) -> dict[int, Array]:
        """Return the arguments of the primitive that are constants.

        Args:
            mask: As for `quantization`; 0 for one multiplier.
        """
        count = self.units if mask else 1
        found = {SCALES | Arg.WEIGHTS: np.broadcast_to(self.rescale.multiplier, (count,))}
        if self.has_bias:
            found[Arg.BIAS] = np.broadcast_to(self.rescale.bias, (self.units,))
        zeros = {Arg.SOURCE: self.zero, Arg.DESTINATION: self.fused.zero}
        for arg in self.quantization(mask).zero_points:
            found[ZERO_POINTS | arg] = np.full(1, zeros[Arg(arg)], np.int32)
        return {arg: np.ascontiguousarray(values) for arg, values in found.items()}


def integers_of(call: KernelCall, units: int, axis: int = -1) -> Integers | None:
    """Return the numbers of a call; None if the library cannot compute it with the same bits.

    Args:
        call: Its inputs are data, weights and perhaps a constant bias.
        units: Number of output channels.
        axis: The axis of the channels in the weights.
    """
    view, data, out = call.head, call.spec(DATA), call.outputs[0].spec
    tensors = [t for t in (*call.tensors, *call.outputs) if t is not None]
    changing = [i for i, t in enumerate(call.tensors) if t is not None and _is_changing(t)]
    if (
        DEFINITIONS.of(view) is None
        or view.outs[0].dtype not in TYPES
        or any(0 in t.shape for t in tensors)
        or changing not in ([], [WEIGHTS])
    ):
        return None
    source, target = TYPES.get(data.dtype), TYPES.get(out.dtype)
    weights, bias = call.static(WEIGHTS), call.static(BIAS)
    if source is None or target is None or call.has(BIAS) != (bias is not None):
        return None
    sums = passes(view)
    multiplier = sums[0].multiplier
    if len(sums) > 1 or sums[0].block or multiplier.size not in (1, units):
        return None
    rescale = rescale_of_products(view, bias, channel_scales(view))
    rescale = replace(rescale, multiplier=multiplier.reshape(-1), bias=rescale.bias.reshape(-1))
    zero, (low, high) = grid_of(data)[1:]
    terms = math.prod(call.spec(WEIGHTS).shape) // units
    most = sum_bound(*operands(view), None, terms, np.sum)  # of any weights, without reading them
    fits = (
        abs(rescale.zero) <= _FARTHEST_ZERO
        and rescale.bias.size in (1, units)
        and bool(np.isfinite(rescale.multiplier).all() and np.isfinite(rescale.bias).all())
        and (most <= LARGEST or accumulator_bound(view) <= LARGEST)
    )
    if not fits:
        return None
    fused = fused_of(call, rescale)
    spec = call.spec(WEIGHTS)
    numbers = source, target, zero, rescale, units, call.has(BIAS), fused
    if changing:
        return _of_any_weights(numbers, spec, terms * max(abs(low - zero), abs(high - zero)))
    if weights is None:
        return Integers(*numbers, parts=0, is_exact_in_float=False)
    if library().has_vnni and _is_plain(weights, spec):
        return Integers(*numbers, parts=1, is_exact_in_float=False)
    is_exact = _largest(weights, spec, axis, low - zero, high - zero) < EXACT
    return Integers(*numbers, parts_of(weights, spec), is_exact)


def _is_changing(tensor: Tensor) -> bool:
    """Return whether a tensor has data that an update may replace."""
    return tensor.kind.is_updateable and tensor.data is not None


def _of_any_weights(numbers: tuple[Any, ...], spec: Spec, factor: int) -> Integers | None:
    """Return the numbers for weights that an update may replace by any others of their type.

    Args:
        numbers: Those that do not depend on the weights.
        spec: The weights.
        factor: The largest sum of magnitudes of data.
    """
    if not isinstance(spec.encoding, ScaleOffset | AxisScaleOffset):
        return None
    offsets = spec.encoding.scales_and_offsets(spec.shape)[1]
    ends = [
        int(end + each)
        for each, end in zip((offsets.min(), offsets.max()), spec.dtype.stored_range(), strict=True)
    ]
    parts = _terms_of(*ends)
    is_exact = factor * max(map(abs, ends)) < EXACT
    source, target, zero, rescale, units, has_bias, fused = numbers
    return Integers(source, target, zero, rescale, units, has_bias, fused, parts, is_exact)


def product_step(
    call: KernelCall, desc: PrimitiveDesc, integers: Integers, plain: MemoryDesc, mask: int
) -> Step | None:
    """Return the step of a product; None if the library only has generic code.

    Args:
        call: The call of the kernel.
        desc: The primitive; it reads and writes dense tensors.
        integers: Its numbers.
        plain: Descriptor of the unpacked weights, signed bytes.
        mask: As for `Integers.quantization`.
    """
    if is_slow(desc):
        return None
    arguments = Arguments(call, desc)
    if (added := integers.fused.added) is not None:
        arguments.read_previous(added)
    arguments.read_plain(Arg.SOURCE, DATA)
    weights = weights_argument(
        call,
        OneDnnLayout(desc.desc(Arg.WEIGHTS), plain),
        f"integer {integers.source.name} {integers.has_zero}",
        as_bytes,
    )
    arguments.constant(Arg.WEIGHTS, weights.value, weights.desc)
    for arg, values in integers.numbers(mask).items():
        arguments.numbers(arg, values)
    arguments.write_plain(Arg.DESTINATION, 0)
    return arguments.step(in_place=() if added is None else ((0, 0),))


def as_bytes(levels: Array) -> Array:
    """Return levels that are signed bytes as int8, contiguous."""
    return np.ascontiguousarray(levels, np.int8)


def weights_argument(
    call: KernelCall,
    layout: OneDnnLayout,
    form: str,
    terms: Callable[[Array], Array],
    shift: int = 0,
) -> Argument:
    """Return signed bytes of the weights in a layout: without a copy, if they are stored so.

    Args:
        call: The call of the kernel.
        layout: The layout.
        form: What the packed bytes depend on besides: the library may append sums of the weights,
            which depend on type and zero point of the data.
        terms: Returns the bytes of levels, in the order of the layout's dense form.
        shift: 8 for the upper bytes of 16-bit weights.
    """
    stored, spec = call.static(WEIGHTS), call.spec(WEIGHTS)
    is_as_stored = layout.desc == layout.dense and stored is not None and _is_plain(stored, spec)
    if is_as_stored and layout.nbytes == math.prod(spec.shape):  # those of several terms are larger
        return Argument(layout.desc, call.read(WEIGHTS))

    def make(arrays: Arrays, specs: Sequence[Spec | None]) -> Array:
        return pack(terms(levels_of(given(arrays[0]), specs[0], shift)), layout)

    packed = call.read_packed(WEIGHTS, f"{form} {shift} {layout.key}", make, layout)
    return Argument(layout.desc, packed)


def levels_of(stored: Array, spec: Spec | None, shift: int = 0) -> Array:
    """Return the levels of weights, or of their lower or upper (shift 8) bytes, whole numbers."""
    if spec is None:
        raise AssertionError("weights without a spec")
    return stored if _is_plain(stored, spec) else part(stored, spec, shift)


def split(levels: Array, parts: int, axis: int) -> Array:
    """Return levels as that many terms, int8, one after the other along an axis.

    Args:
        levels: Whole numbers.
        parts: Number of terms, as for `Integers`.
        axis: Axis of the input channels.
    """
    rest, found = levels.astype(np.int32), []
    for _ in range(parts):
        found.append(np.clip(rest, *_term()))
        rest = rest - found[-1]
    return np.ascontiguousarray(np.concatenate(found, axis), np.int8)


def _term() -> tuple[int, int]:
    """Return the limits of weights that the library multiplies exactly.

    Without VNNI, sums of two products with bytes must fit 16 bits.
    """
    return (-128, 127) if library().has_vnni else (-64, 64)


def are_signed_bytes(stored: Array, spec: Spec) -> bool:
    """Return whether the levels of weights are signed bytes."""
    if _is_plain(stored, spec):
        return True
    levels, limits = part(stored, spec, 0), np.iinfo(np.int8)
    return bool(limits.min <= levels.min() and levels.max() <= limits.max)


def parts_of(stored: Array, spec: Spec, shift: int = 0) -> int:
    """Return the number of terms of the levels of weights; see `levels_of`."""
    levels = levels_of(stored, spec, shift)
    return _terms_of(float(levels.min()), float(levels.max()))


def _terms_of(least: float, most: float) -> int:
    """Return the number of terms of levels in a range."""
    low, high = _term()
    return max(1, math.ceil(max(least / low, most / high)))


def _largest(stored: Array, spec: Spec, axis: int, low: int, high: int) -> float:
    """Return the largest magnitude of a sum of some products, for data from `low` to `high`."""
    levels = levels_of(stored, spec).astype(np.float64)
    summed = tuple(i for i in range(levels.ndim) if i != axis % levels.ndim)
    ends = np.stack([np.zeros_like(levels), levels * low, levels * high])
    most, least = ends.max(0).sum(summed).max(), ends.min(0).sum(summed).min()
    return float(max(most, -least))


def _is_plain(stored: Array, spec: Spec) -> bool:
    """Return whether stored weights are their own levels, as is common."""
    encoding = spec.encoding
    if stored.dtype != np.int8 or not isinstance(encoding, ScaleOffset | AxisScaleOffset):
        return False
    return not encoding.scales_and_offsets(spec.shape)[1].any()
