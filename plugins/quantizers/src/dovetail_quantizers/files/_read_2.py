"""Versions 2.0.0 and 2.1.0: one list of objects, after ONNX's QuantizeLinear.

Source: spec/aimet_encodings.md, sections 5 and 6.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import numpy as np

from dovetail_quantizers.files import _numbers
from dovetail_quantizers.files._arrange import channel_axis_of
from dovetail_quantizers.files._findings import FileLocation
from dovetail_quantizers.files._json import array, decode
from dovetail_quantizers.files.form import Floats, Form, Ints, TensorEncoding

_INTEGER = re.compile(r"(u?)int(2|4|8|16|32)")
_LPBQ_KEYS = (".per_block_int_scale", ".per_channel_float_scale")
_LPBQ_KEYS_2_1 = (".y_scale.x", ".y_scale.x_scale")


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tensor's encoding."""

    name: str
    output_dtype: str
    y_scale: float | list[Any] | dict[str, Any] | None = None
    y_zero_point: float | list[Any] | None = None
    axis: int | None = None
    block_size: int | None = None
    per_block_int_scale: list[Any] | None = None
    per_channel_float_scale: list[Any] | None = None


class _Expansion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The value of `y_scale` for LPBQ in 2.1.0."""

    x: list[Any]
    x_scale: list[Any]
    axis: int | None = None


def read_tensor(data: Any, at: FileLocation) -> TensorEncoding | None:
    """Return the entry of an object; or report faults."""
    raw = decode(data, Entry, at)
    if raw is None:
        return None
    dtype = _INTEGER.fullmatch(raw.output_dtype)
    if dtype is None:
        hint = "int and uint of 2, 4, 8, 16 and 32 bits are read"
        at.fault(f"the type {raw.output_dtype!r} is not supported", ".output_dtype", hint)
        return None
    signed, bitwidth = dtype[1] == "", int(dtype[2])
    before = at.faults
    if raw.axis is not None and not 0 <= raw.axis < 64:
        at.fault(f"axis {raw.axis}", ".axis", "axis must not be negative")
    if raw.block_size is not None and not 1 <= raw.block_size < 2**31:
        at.fault(f"a block size of {raw.block_size}", ".block_size")
    if raw.per_block_int_scale is not None or isinstance(raw.y_scale, dict):
        made = _expanded(raw, signed, bitwidth, at)
    elif raw.y_scale is None:
        at.fault("the key 'y_scale' is missing")
        return None
    else:
        made = _plain(raw, signed, bitwidth, at)
    return made if at.faults == before else None


def _plain(raw: Entry, signed: bool, bitwidth: int, at: FileLocation) -> TensorEncoding | None:
    scales = array(raw.y_scale, at, ".y_scale")
    if scales is None:
        return None
    form = _form(raw, scales, at)
    if scales.size == 1 and form is Form.PER_TENSOR:
        scales = scales.reshape(())
    zero_points = _zero_points(raw.y_zero_point, scales, signed, bitwidth, at)
    if form is None or zero_points is None:
        return None
    half = 1 << (bitwidth - 1) if signed else 0
    if not np.any(scales):  # a placeholder: a derived encoding has no zero point
        half = 0
    offsets = (-zero_points - half).astype(np.float64)
    numbers = _numbers.given_numbers(scales, offsets, bitwidth, at, (".y_scale", ".y_zero_point"))
    if numbers is None:
        return None
    return TensorEncoding(
        raw.name,
        "int",
        bitwidth,
        form,
        signed and not np.any(zero_points),
        *numbers,
        axis=None if form is Form.PER_TENSOR else raw.axis,
        block_size=raw.block_size,
        signed=signed,
    )


def _form(raw: Entry, scales: Floats, at: FileLocation) -> Form | None:
    before = at.faults
    if raw.block_size is not None:
        form = Form.PER_BLOCK
        if raw.axis is None or not raw.axis < scales.ndim or scales.ndim < 2:
            text = f"blocks along axis {raw.axis} with scales of shape {scales.shape}"
            at.fault(text, ".y_scale", "they have the tensor's axes, the blocked one divided")
        if not np.all(scales):
            at.fault("blocks with a scale of 0", ".y_scale")
    elif scales.ndim > 1:
        form = Form.PER_BLOCK
        at.fault(f"scales of shape {scales.shape}, but no block_size", ".y_scale")
    elif scales.ndim == 0 or (scales.size == 1 and raw.axis is None):
        form = Form.PER_TENSOR
    else:
        form = Form.PER_CHANNEL
        if raw.axis is None:
            at.fault(f"{scales.size} scales, but no axis", ".y_scale")
    return form if at.faults == before else None


def _zero_points(
    value: object, scales: Floats, signed: bool, bitwidth: int, at: FileLocation
) -> Ints | None:
    if value is None:
        return np.zeros(scales.shape, np.int64)
    given = array(value, at, ".y_zero_point")
    found = None if given is None else _numbers.whole(given, at, ".y_zero_point")
    if found is None:
        return None
    if found.size != scales.size or found.ndim > scales.ndim + 1:
        text = f"zero points of shape {found.shape} for scales of shape {scales.shape}"
        at.fault(text, ".y_zero_point")
        return None
    low = -(1 << (bitwidth - 1)) if signed else 0
    high = low + (1 << bitwidth) - 1
    if np.any(found < low) or np.any(found > high):
        at.fault(f"zero points must be from {low} to {high}", ".y_zero_point")
        return None
    return found.reshape(scales.shape)


def _expanded(raw: Entry, signed: bool, bitwidth: int, at: FileLocation) -> TensorEncoding | None:
    """Return the entry of LPBQ: scales of channels, and factors of blocks."""
    keys, axis = _LPBQ_KEYS, raw.axis
    factors_given, scales_given = raw.per_block_int_scale, raw.per_channel_float_scale
    if isinstance(raw.y_scale, dict):
        inner = decode(raw.y_scale, _Expansion, at.below(".y_scale"))
        if inner is None:
            return None
        keys, factors_given, scales_given = _LPBQ_KEYS_2_1, inner.x, inner.x_scale
        axis = raw.axis if raw.axis is not None else inner.axis
    if factors_given is None or scales_given is None:
        at.fault(f"the key '{keys[1][1:]}' is missing")
        return None
    scales, factors = array(scales_given, at, keys[1]), array(factors_given, at, keys[0])
    whole = None if factors is None else _numbers.whole(factors, at, keys[0])
    if scales is None or whole is None or not _numbers.are_scales(scales, at, keys[1]):
        return None
    if not signed or bitwidth > 16 or raw.y_zero_point is not None:
        at.fault("blocks with factors are signed integers of at most 16 bits, without zero points")
    elif _is_expansion(raw, axis, whole, scales, 1 << bitwidth, at.below("", raw.name), keys):
        wide = 2 * bitwidth  # a rule of the format
        offsets = np.full(scales.shape, -(1 << (wide - 1)), np.int64)
        made = TensorEncoding(
            raw.name,
            "int",
            wide,
            Form.LPBQ,
            True,
            scales,
            offsets,
            axis,
            raw.block_size,
            signed=True,
        )
        return made.with_factors(whole, bitwidth)
    return None


def _is_expansion(
    raw: Entry,
    axis: int | None,
    factors: Ints,
    scales: Floats,
    most: int,
    at: FileLocation,
    keys: tuple[str, str],
) -> bool:
    """Return whether the numbers of LPBQ are consistent; report faults."""
    before = at.faults
    if not np.any(scales):
        at.fault("blocks with a scale of 0", keys[1])
    if not 1 <= factors.min() <= factors.max() <= most:
        at.fault(f"factors of blocks are whole numbers from 1 to {most}", keys[0])
    if raw.block_size is None or axis is None or not 0 <= axis < factors.ndim:
        at.fault("blocks need 'axis' and 'block_size'")
    elif not _fit(factors, scales, axis):
        text = f"scales of shape {scales.shape} for factors of shape {factors.shape}"
        at.fault(text, keys[1])
    return at.faults == before


def _fit(factors: Ints, scales: Floats, axis: int) -> bool:
    """Return whether scales have the axes of the factors, of size 1 except the channel axis."""
    if factors.ndim < 2 or scales.ndim != factors.ndim:
        return False
    channel = channel_axis_of(axis)
    wanted = tuple(n if i == channel else 1 for i, n in enumerate(factors.shape))
    return scales.shape == wanted
