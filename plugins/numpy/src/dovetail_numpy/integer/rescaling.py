"""Rescaling exact integers to the grid of a result.

    v = float32(acc) * m,  v = v + b,  q = clip(rint(v + z))

Each operation is rounded to float32, none is fused with another; `rint` rounds half to even, and so
does `float32`, of sums beyond 2**24. Where a sum has several parts, `v = v + float32(acc) * m` for
each further one before `z` is added. The numbers `m` and `b` are computed once in float64 and
rounded to float32.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array, Spec
from dovetail.ops import NodeView, to_real
from dovetail.ops.simulate import is_left_open

Floats = NDArray[np.float32]

# With it, every whole number but 0 saturates in up to 16 bits, and float32 does not overflow.
LARGEST_MULTIPLIER = 2.0**64
# Of levels of up to 16 bits: terms are up to 2^21 steps of the result then, and each rounding to
# float32 is at most an eighth of a step.
LARGEST_FACTOR = 16


class Rescale(msgspec.Struct, frozen=True):
    """The numbers of a rescaling.

    Attributes:
        multiplier: m, float32, one number or one for each channel.
        bias: b, float32, as `multiplier`.
        zero: z, the stored integer of real zero.
        limits: Minimum and maximum stored integer.
    """

    multiplier: Floats
    bias: Floats
    zero: int
    limits: tuple[int, int]

    def apply(self, acc: Array, spec: Spec, *further: tuple[Array, Floats]) -> Array:
        """Return stored values.

        Args:
            acc: Exact integers, of any type that holds them; channels last.
            spec: Spec of the result.
            further: More parts of the sum with their multipliers, in the order of addition.
        """
        v = acc.astype(np.float32) * self.multiplier
        v += self.bias
        for part, multiplier in further:
            v += part.astype(np.float32) * multiplier
        v += np.float32(self.zero)
        return np.asarray(np.clip(np.rint(v), *self.limits), spec.dtype.storage)


def levels(stored: Array, spec: Spec) -> Array:
    """Return `q - z`, exact integers as float64: real values are these times the scale."""
    if spec.encoding is None:
        raise AssertionError("an operand without an encoding")
    _, offset = spec.encoding.scales_and_offsets(spec.shape)
    return np.asarray(stored.astype(np.float64) + offset)


def scales(spec: Spec) -> Array:
    """Return the scales of an operand, float64, broadcastable to its shape."""
    if spec.encoding is None:
        raise AssertionError("an operand without an encoding")
    return spec.encoding.scales_and_offsets(spec.shape)[0].astype(np.float64)


def grid_of(spec: Spec) -> tuple[float, int, tuple[int, int]]:
    """Return scale, zero point and limits of a result with one scale."""
    if spec.encoding is None:
        raise AssertionError("a result without an encoding")
    scale, offset = spec.encoding.scales_and_offsets(spec.shape)
    limits = spec.dtype.stored_range(spec.encoding.bitwidth)
    return float(scale), -int(offset), limits


def rescale_of_products(view: NodeView, bias: Array | None, channels: Array) -> Rescale:
    """Return the rescaling of sums of products of the first two inputs.

    Args:
        view: The node; its third input is the bias.
        bias: Stored values of the bias; None without one.
        channels: Scales of the weights, float64: one, or one for each output channel.
    """
    data, out = view.ins[0], view.outs[0]
    if data is None:
        raise AssertionError(f"{view.node.where} has no data")
    step, zero, limits = grid_of(out)
    products = scales(data) * channels
    added = np.zeros(()) if bias is None else real_bias(bias, view.ins[2], products)
    with np.errstate(over="ignore"):  # an infinite bias saturates the result
        offset = np.asarray(added / step, np.float32)
    return Rescale(np.asarray(products / step, np.float32), offset, zero, limits)


def real_bias(bias: Array, spec: Spec | None, products: Array) -> Array:
    """Return a bias in float64; without a scale of its own it has that of the products.

    NaN is 0, as in a quantized tensor.
    """
    if spec is None:
        raise AssertionError("a bias without a spec")
    if spec.dtype.is_float:
        real = to_real(bias, spec).astype(np.float64)
        return np.where(np.isnan(real), 0.0, real)
    if is_left_open(spec):
        return np.asarray(bias.astype(np.float64) * products)
    return np.asarray(levels(bias, spec) * scales(spec))
