"""Sums of products of stored integers: the numbers that all kernels of products share.

The library computes `float32(acc) * m`, then `+ b`, then `+ z`, each rounded to float32, and rounds
the result half to even: the definition's formula (`dovetail_numpy.integer`). Scales of the weights
are its `m`, the bias is its `b`, the zero point of the destination is its `z`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import KernelCall
from dovetail_numpy.integer import DEFINITIONS, Rescale, rescale_of_products
from dovetail_onednn._api import SCALES, ZERO_POINTS, Arg, DataType
from dovetail_onednn.attributes import Quantization
from dovetail_onednn.quantized.chains import Fused, fused_of
from dovetail_onednn.quantized.types import TYPES
from dovetail_onednn.steps import Arguments

DATA, WEIGHTS, BIAS = 0, 1, 2  # inputs
_LARGEST = np.iinfo(np.int32).max  # sum of products


@dataclass(frozen=True, slots=True)
class Integers:
    """The numbers of a product of stored integers.

    Attributes:
        source: Type of the data.
        target: Type of the result.
        zero: Stored integer of real zero in the data.
        rescale: How sums become stored integers of the result.
        units: Number of output channels.
        has_bias: Whether there is a bias.
        fused: The fused nodes.
    """

    source: DataType
    target: DataType
    zero: int
    rescale: Rescale
    units: int
    has_bias: bool
    fused: Fused

    def quantization(self, mask: int) -> Quantization:
        """Return the attributes of the primitive.

        Args:
            mask: Mask of the axes of the weights along which output channels differ.
        """
        zeros = [Arg.SOURCE] if self.zero else []
        zeros += [Arg.DESTINATION] if self.fused.zero else []
        return Quantization(((Arg.WEIGHTS, mask),), tuple(zeros))

    def declare(self, arguments: Arguments) -> None:
        """Declare the numbers as arguments of the primitive."""
        vectors = {SCALES | Arg.WEIGHTS: self.rescale.multiplier}
        if self.has_bias:
            vectors[Arg.BIAS] = self.rescale.bias
        for arg, values in vectors.items():
            full = np.ascontiguousarray(np.broadcast_to(values, (self.units,)), np.float32)
            arguments.numbers(arg, full)
        for arg, zero in ((Arg.SOURCE, self.zero), (Arg.DESTINATION, self.fused.zero)):
            if zero:
                arguments.numbers(ZERO_POINTS | arg, np.full(1, zero, np.int32))


def integers_of(call: KernelCall, units: int) -> Integers | None:
    """Return the numbers of a call; None if the library cannot compute it with the same bits.

    Args:
        call: Its inputs are data, weights and perhaps a bias.
        units: Number of output channels.
    """
    view, data, out = call.head, call.spec(DATA), call.outputs[0].spec
    tensors = [t for t in (*call.tensors, *call.outputs) if t is not None]
    if DEFINITIONS.of(view) is None or any(t.kind.is_updateable or 0 in t.shape for t in tensors):
        return None
    source, target = TYPES.get(data.dtype), TYPES.get(out.dtype)
    weights, bias = call.static(WEIGHTS), call.static(BIAS)
    if source is None or target is None or weights is None or call.has(BIAS) != (bias is not None):
        return None
    spec = call.spec(WEIGHTS)
    channels = _encoded(spec)[0].reshape(-1)
    if channels.size not in (1, units):
        return None
    steps = channels.astype(np.float64)
    rescale = rescale_of_products(view, bias, steps if steps.size > 1 else steps[0])
    zero = -int(_encoded(data)[1])
    low, high = data.dtype.stored_range()
    reach = max(abs(low - zero), abs(high - zero)) * 128 * (weights.size // units)
    fits = (
        rescale.limits == view.outs[0].dtype.stored_range()
        and bool(np.isfinite(rescale.multiplier).all() and np.isfinite(rescale.bias).all())
        and _are_signed_bytes(weights, spec)
        and reach <= _LARGEST
    )
    if not fits:
        return None
    fused = fused_of(call, rescale.zero)
    return Integers(source, target, zero, rescale, units, call.has(BIAS), fused)


def signed_levels(stored: Array, spec: Spec | None) -> Array:
    """Return `q - z` of weights, int8, C-contiguous."""
    _, offset = _encoded(spec)
    return np.ascontiguousarray(stored.astype(np.int32) + offset, np.int8)


def _are_signed_bytes(stored: Array, spec: Spec) -> bool:
    """Return whether `q - z` of weights are signed bytes."""
    _, offset = _encoded(spec)
    if stored.dtype == np.int8 and not offset.any():
        return True
    values, limits = stored.astype(np.int32) + offset, np.iinfo(np.int8)
    return bool(limits.min <= values.min() and values.max() <= limits.max)


def _encoded(spec: Spec | None) -> tuple[Array, Array]:
    """Return the scales and offsets of an operand."""
    if spec is None or spec.encoding is None:
        raise AssertionError("an operand without an encoding")
    return spec.encoding.scales_and_offsets(spec.shape)
