"""`simulate`: any op on stored values, by dequantizing, its reference and quantizing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import (
    Array,
    AxisScaleOffset,
    DType,
    Encoding,
    ScaleOffset,
    Spec,
    dequantize,
    quantize,
)
from dovetail.ir.storage import bfloat16_to_float32, find_unfit, float32_to_bfloat16, saturate
from dovetail.ops.op import Arrays, Domain, Op
from dovetail.ops.roles import Bias
from dovetail.ops.schema import OpSchema


def simulate(
    schema: OpSchema, op: Op, ins: Arrays, in_specs: Sequence[Spec | None], outs: Sequence[Spec]
) -> tuple[Array, ...]:
    """Run an op on stored values by its reference.

    Args:
        schema: The op's schema.
        op: The op with its params.
        ins: Stored values, dtype `spec.dtype.storage`; None for an omitted input.
        in_specs: Their specs.
        outs: Specs of the outputs.

    Returns:
        Stored values of the outputs, with the shapes and storage types of their specs.
    """
    if keeps_stored(schema.domain, in_specs, outs):
        results = schema.reference(op, ins, outs)
        return tuple(_shaped(r, s) for r, s in zip(results, outs, strict=True))
    real = [
        None if a is None or s is None else to_real(a, s)
        for a, s in zip(ins, real_specs(schema.op, in_specs), strict=True)
    ]
    results = schema.reference(op, real, outs)
    return tuple(from_real(_shaped(r, s), s) for r, s in zip(results, outs, strict=True))


def real_specs(op: type[Op], ins: Sequence[Spec | None]) -> Sequence[Spec | None]:
    """Return the specs by which inputs are dequantized: a bias without a scale has one there.

    It is the product of the scales of data and weights, as for sums of stored integers: the
    vendor's tools write such biases of 32 bits, some with a scale of 0.
    """
    found = list(ins)
    for i, role in op.quantization_roles.items():
        if not isinstance(role, Bias) or role.data is None or role.weight is None or i >= len(ins):
            continue
        bias, data, weight = ins[i], ins[role.data], ins[role.weight]
        if bias is None or data is None or weight is None or len(bias.shape) != 1:
            continue
        if not _is_wide(bias.dtype) or not is_left_open(bias):
            continue
        encoding = product_of_scales(data.encoding, weight.encoding, *bias.shape)
        if encoding is not None:
            found[i] = Spec(DType.SFIXED_POINT_32, bias.shape, encoding)
    return found


def is_left_open(spec: Spec) -> bool:
    """Return whether a 32-bit tensor has no scale of its own: no encoding, or scales of 0."""
    if spec.encoding is None or spec.dtype.bits < 32:
        return spec.encoding is None
    return not spec.encoding.scales_and_offsets(spec.shape)[0].any()


def product_of_scales(
    data: Encoding | None, weight: Encoding | None, channels: int
) -> Encoding | None:
    """Return the encoding of sums of products of stored integers, such as a bias.

    Args:
        data: The encoding of the data.
        weight: That of the weights.
        channels: Length of the bias.

    Returns:
        One scale, or one for each channel; None without a unique product.
    """
    if not isinstance(data, ScaleOffset):
        return None
    if isinstance(weight, ScaleOffset):
        return ScaleOffset(float(np.float32(data.scale * weight.scale)))
    if not isinstance(weight, AxisScaleOffset) or channels % len(weight.scales):
        return None
    # a grouped transposed convolution has the scales of one group for all groups
    scales = np.tile(weight.scales, channels // len(weight.scales)).astype(np.float64)
    return AxisScaleOffset(0, np.asarray(scales * data.scale, np.float32))


def keeps_stored(domain: Domain, ins: Sequence[Spec | None], outs: Sequence[Spec]) -> bool:
    """Return whether a reference of this domain runs on stored values without conversion."""
    if domain is not Domain.MOVE:
        return domain is Domain.STORED
    # An index input has another type; only tensors of the moved type must agree.
    moved = [s for s in (*ins, *outs) if s is not None and _is_moved(s, outs[0])]
    # With several scales, the value of a stored integer depends on its position.
    one_scale = all(s.encoding is None or isinstance(s.encoding, ScaleOffset) for s in moved)
    return one_scale and all(
        (s.dtype, s.encoding) == (outs[0].dtype, outs[0].encoding) for s in moved
    )


def to_real(stored: Array, spec: Spec) -> Array:
    """Return real values: fixed-point values dequantized, 16-bit floats widened to float32."""
    if spec.dtype.is_fixed_point and spec.encoding is not None:
        return dequantize(stored, spec.encoding)
    if spec.dtype is DType.BFLOAT_16:
        return bfloat16_to_float32(stored)
    if spec.dtype is DType.FLOAT_16:
        return stored.astype(np.float32)
    return stored


def from_real(real: Array, spec: Spec) -> Array:
    """Return the stored form of real values.

    Fixed-point types are quantized (see `dovetail.ir.quantize`). As plain integers, fractions are
    cut off, numbers out of range become the nearest limit, and NaN becomes 0. As bool, only 0 is
    false. As floats, numbers out of range become infinite and NaN stays NaN.
    """
    if spec.dtype.is_fixed_point and spec.encoding is not None:
        return quantize(real, spec.encoding, spec.dtype)
    if spec.dtype is DType.BFLOAT_16:
        return float32_to_bfloat16(real)
    if spec.dtype.is_int:
        return saturate(real, spec.dtype)
    with np.errstate(over="ignore"):  # beyond float16 is inf
        return real.astype(spec.dtype.storage, copy=False)


def unstorable(real: Array, dtype: DType) -> NDArray[np.bool_]:
    """Return where real values do not fit a plain integer or bool type: fractions, out of range.

    Other types hold every value in some way: rounded, clamped or infinite.

    Args:
        real: Any shape and numeric type.
        dtype: The type to store them as.
    """
    if dtype.is_fixed_point:
        return np.zeros(real.shape, np.bool_)
    return find_unfit(real, dtype)


def _is_wide(dtype: DType) -> bool:
    return dtype.bits == 32 and (dtype.is_int or dtype.is_fixed_point)


def _is_moved(spec: Spec, out: Spec) -> bool:
    return spec.dtype.is_fixed_point or spec.dtype.is_float or spec.dtype is out.dtype


def _shaped(array: Array, spec: Spec) -> Array:
    if array.shape != spec.shape:
        raise AssertionError(f"reference returned {array.shape}, infer {spec.shape}")
    return array
