"""Versions 0.4.0, 0.5.0 and 0.6.1, and the SDK's overrides: objects of lists.

Source: spec/aimet_encodings.md, section 3; SDK reference, "Quantization Overrides".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np

from dovetail_quantizers.files import _numbers
from dovetail_quantizers.files._findings import FileLocation
from dovetail_quantizers.files._json import decode, shown
from dovetail_quantizers.files.form import Floats, Form, Ints, TensorEncoding

SECTIONS = (("activation_encodings", False), ("param_encodings", True))


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One encoding: of a tensor, or of one of its channels."""

    bitwidth: int
    dtype: Literal["int", "float"] = "int"
    is_symmetric: bool | Literal["True", "False", "true", "false"] | None = None
    max: float | None = None
    min: float | None = None
    offset: float | None = None
    scale: float | None = None

    @property
    def says_symmetric(self) -> bool | None:
        """True or False as the entry says; None if it does not."""
        if isinstance(self.is_symmetric, str):
            return self.is_symmetric.lower() == "true"
        return self.is_symmetric


@dataclass(frozen=True, slots=True)
class _Columns:
    """The numbers of a list of encodings, each () or (n,); None if the file has none."""

    scale: Floats | None
    offset: Floats | None
    minimum: Floats | None
    maximum: Floats | None


def read_tensor(name: str, data: Any, is_param: bool, at: FileLocation) -> TensorEncoding | None:
    """Return the entry of encodings, one per channel or a bare object; or report faults."""
    if isinstance(data, dict):
        data = [data]  # as people write it by hand
    if not isinstance(data, list) or not data:
        at.fault(f"expected a list of encodings, got {shown(data)}")
        return None
    entries = _decoded(data, at)
    if len(entries) < len(data) or not _agree(entries, at):
        return None
    first = entries[0]
    widths = (16, 32) if first.dtype == "float" else range(2, 33)
    if first.bitwidth not in widths:
        wanted = "16 or 32" if first.dtype == "float" else "2 to 32"
        at.fault(f"{first.bitwidth} bits; {first.dtype}s have {wanted}", "[0].bitwidth")
        return None
    if first.dtype == "float":
        if any(e.scale is not None or e.min is not None for e in entries):
            at.note("the scale and range of a float entry were ignored")
        return TensorEncoding(name, "float", first.bitwidth, is_param=is_param)
    columns = _columns(entries, at)
    return None if columns is None else _entry(name, first, columns, is_param, at)


def _decoded(data: list[Any], at: FileLocation) -> list[Entry]:
    try:
        return msgspec.convert(data, list[Entry])
    except msgspec.ValidationError:  # one by one, to find all faults
        found = (decode(item, Entry, at.below(f"[{i}]")) for i, item in enumerate(data))
        return [entry for entry in found if entry is not None]


def _agree(entries: Sequence[Entry], at: FileLocation) -> bool:
    """Return whether the encodings of a tensor's channels agree; report if not."""
    before = at.faults
    # compare the text first: there may be very many, and most are equal
    kinds = {(entry.bitwidth, entry.dtype, entry.is_symmetric): entry for entry in entries}
    for key in ("bitwidth", "dtype", "says_symmetric"):
        values = sorted({str(getattr(entry, key)) for entry in kinds.values()})
        if len(values) > 1:
            name = key.replace("says", "is")
            at.fault(f"the encodings differ in {name}: {', '.join(values)}")
    return at.faults == before


def _columns(entries: Sequence[Entry], at: FileLocation) -> _Columns | None:
    before = at.faults
    made = _Columns(*(_column(entries, key, at) for key in ("scale", "offset", "min", "max")))
    if at.faults > before:
        return None
    if (made.minimum is None) != (made.maximum is None):
        at.fault("a range needs both min and max")
    elif made.scale is None and made.minimum is None and made.offset is not None:
        at.fault("an offset needs a scale")
    elif made.scale is None and made.minimum is None and len(entries) > 1:
        at.fault("several encodings need scales or ranges")
    return made if at.faults == before else None


def _column(entries: Sequence[Entry], key: str, at: FileLocation) -> Floats | None:
    values = [getattr(entry, key) for entry in entries]
    missing = [i for i, value in enumerate(values) if value is None]
    if len(missing) == len(values):
        return None
    if missing:
        at.fault(f"'{key}' is missing for some channels", f"[{missing[0]}]")
        return None
    return np.asarray(values[0] if len(values) == 1 else values, np.float64)


def _entry(
    name: str, first: Entry, columns: _Columns, is_param: bool, at: FileLocation
) -> TensorEncoding | None:
    minimum, maximum = columns.minimum, columns.maximum
    symmetric = bool(first.says_symmetric)
    bare = TensorEncoding(name, "int", first.bitwidth, symmetric=symmetric, is_param=is_param)
    ranged = minimum is not None and maximum is not None
    before = at.faults
    if ranged:
        _numbers.are_ranges(minimum, maximum, at)
    if columns.scale is not None:
        _numbers.are_scales(columns.scale, at, ".scale")
    if at.faults > before:
        return None
    if columns.scale is not None:
        numbers = _given(columns, columns.scale, first, at)
    elif ranged:
        numbers = _numbers.grid_of(minimum, maximum, first.bitwidth, symmetric, at)
        minimum = maximum = None  # the range is now that of the grid
    else:
        return bare
    if numbers is None:
        return None
    scales, offsets = numbers
    made = dataclasses.replace(
        bare,
        form=Form.PER_TENSOR if scales.ndim == 0 else Form.PER_CHANNEL,
        scales=scales,
        offsets=offsets,
        minimum=minimum,
        maximum=maximum,
    )
    if first.says_symmetric is None and scales.ndim and made.is_centered:
        return dataclasses.replace(made, symmetric=True)  # the only scheme per channel
    return made


def _given(
    columns: _Columns, scales: Floats, first: Entry, at: FileLocation
) -> tuple[Floats, Ints] | None:
    """Return the scales and offsets of a file, checked against its ranges."""
    if not np.any(scales):
        return _numbers.placeholder(scales, columns.offset, at)
    ranges = None
    if columns.minimum is not None and columns.maximum is not None:
        ranges = (columns.minimum, columns.maximum)
    offsets = _offsets(columns.offset, scales, first, ranges, at)
    if offsets is None or ranges is None:
        return None if offsets is None else (scales, offsets)
    apart = float(_numbers.steps_apart(scales, offsets, first.bitwidth, ranges).max())
    if apart > _numbers.STEPS_APART:
        at.fault(
            f"scale and offset contradict min and max, by {apart:.4g} steps",
            hint="min is offset * scale, max is (offset + 2^bitwidth - 1) * scale",
        )
        return None
    return scales, offsets


def _offsets(
    given: Floats | None,
    scales: Floats,
    first: Entry,
    ranges: tuple[Floats, Floats] | None,
    at: FileLocation,
) -> Ints | None:
    half = 1 << (first.bitwidth - 1)
    if given is None:
        if first.says_symmetric:
            return np.full(scales.shape, -half, np.int64)
        if ranges is None:
            at.fault("a scale needs an offset or a range")
            return None
        given = np.rint(ranges[0] / scales)
    offsets = _numbers.whole(given, at, ".offset")
    if offsets is None:
        return None
    if ranges is not None:
        offsets = _by_range(offsets, scales, half, ranges[0], at)
    return _numbers.on_unsigned_grid(offsets, first.bitwidth, at, ".offset")


def _by_range(offsets: Ints, scales: Floats, half: int, minimum: Floats, at: FileLocation) -> Ints:
    """Return offsets of another convention as their range defines them."""
    zeros = -minimum / scales
    if np.any(positive := offsets > 0) and np.all(np.abs(zeros - offsets)[positive] <= 1.01):
        at.note("a positive offset was read as the zero point that min and scale give", ".offset")
        return np.where(positive, -np.rint(zeros), offsets).astype(np.int64)
    if not np.any(offsets) and np.all(np.abs(zeros - half) <= 1.01):
        at.note("an offset of 0 for a range around zero was read as a signed one", ".offset")
        return np.full(offsets.shape, -half, np.int64)
    return offsets
