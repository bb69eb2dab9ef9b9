"""Version 1.0.0: two lists of objects.

Source: spec/aimet_encodings.md, section 4.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import msgspec
import numpy as np

from dovetail_quantizers.files import _numbers
from dovetail_quantizers.files._findings import FileLocation
from dovetail_quantizers.files._json import decode
from dovetail_quantizers.files.form import Form, TensorEncoding


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tensor's encoding."""

    name: str
    dtype: Literal["INT", "FLOAT"]
    bw: int
    enc_type: str
    is_sym: bool = False
    scale: list[float] | None = None
    offset: list[float] | None = None
    block_size: int | None = None
    compressed_bw: int | None = None
    per_block_int_scale: list[int] | None = None
    zero_point_shift: list[float] | None = None
    rows_per_block: int | None = None
    cols_per_block: int | None = None
    vector_dim: int | None = None
    vector_stride: int | None = None
    index_bw: int | None = None


def read_tensor(data: Any, is_param: bool, at: FileLocation) -> TensorEncoding | None:
    """Return the entry of an object; or report faults."""
    raw = decode(data, Entry, at)
    if raw is None:
        return None
    if raw.enc_type not in Form.__members__:
        why = "vector quantization is not supported" if raw.enc_type == "VECTOR" else "unknown"
        hint = f"{', '.join(Form.__members__)} are read"
        at.fault(f"the type {raw.enc_type}: {why}", ".enc_type", hint)
        return None
    form = Form(raw.enc_type)
    if raw.dtype == "FLOAT":
        if raw.bw not in (16, 32):
            at.fault(f"{raw.bw} bits; floats have 16 or 32", ".bw")
            return None
        return TensorEncoding(raw.name, "float", raw.bw, is_param=is_param)
    before = at.faults
    if not 2 <= raw.bw <= 32:
        at.fault(f"{raw.bw} bits; integers have 2 to 32", ".bw")
    for key, value in (("scale", raw.scale), ("offset", raw.offset)):
        if not value:
            at.fault(f"'{key}' is missing or empty")
    return None if at.faults > before else _integers(raw, form, is_param, at)


def _integers(raw: Entry, form: Form, is_param: bool, at: FileLocation) -> TensorEncoding | None:
    scales, given = np.asarray(raw.scale, np.float64), np.asarray(raw.offset, np.float64)
    if scales.shape != given.shape:
        at.fault(f"{scales.size} scales, but {given.size} offsets")
        return None
    if form is Form.PER_TENSOR:
        if scales.size != 1:
            at.fault(f"{scales.size} scales for a whole tensor", ".scale")
            return None
        scales, given = scales.reshape(()), given.reshape(())
    numbers = _numbers.given_numbers(scales, given, raw.bw, at, (".scale", ".offset"))
    if numbers is None:
        return None
    if form.is_blocked and not np.any(scales):
        at.fault("blocks with a scale of 0", ".scale")
        return None
    shift = None if raw.zero_point_shift is None else np.asarray(raw.zero_point_shift, np.float64)
    if shift is not None and not np.all(np.isfinite(shift)):
        at.fault("a zero point shift that is not a number", ".zero_point_shift")
        return None
    made = TensorEncoding(
        raw.name,
        "int",
        raw.bw,
        form,
        raw.is_sym,
        *numbers,
        is_param=is_param,
        zero_point_shift=shift,
    )
    return _blocks(raw, made, at) if form.is_blocked else made


def _blocks(raw: Entry, made: TensorEncoding, at: FileLocation) -> TensorEncoding | None:
    if raw.block_size is None or not 1 <= raw.block_size < 2**31:
        at.fault(f"a block size of {raw.block_size}", ".block_size")
        return None
    if made.form is Form.PER_BLOCK:
        return dataclasses.replace(made, block_size=raw.block_size)
    before = at.faults
    factors, narrow = raw.per_block_int_scale or [], raw.compressed_bw
    channels = 0 if made.scales is None else made.scales.size
    if narrow is None or not 2 <= narrow < raw.bw:
        at.fault(f"{narrow} bits compressed from {raw.bw}", ".compressed_bw")
    elif not factors or not 1 <= min(factors) <= max(factors) <= 1 << (raw.bw - narrow):
        most = 1 << (raw.bw - narrow)
        at.fault(f"factors of blocks are whole numbers from 1 to {most}", ".per_block_int_scale")
    elif len(factors) % channels:
        text = f"{len(factors)} factors of blocks for {channels} channels"
        at.fault(text, ".per_block_int_scale")
    if at.faults > before:
        return None
    return dataclasses.replace(
        made,
        block_size=raw.block_size,
        compressed_bitwidth=narrow,
        block_scales=np.asarray(factors, np.int64).reshape(channels, -1),
    )
