"""Checks of scales, offsets and ranges, and their conversion to one convention."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import DovetailError
from dovetail_quantizers.files._findings import FileLocation
from dovetail_quantizers.files.form import Floats, Ints
from dovetail_quantizers.grid import Scheme, grids_for

# Ends of a range that are more than this many steps from those of scale and offset contradict
# them: a symmetric range may leave out the lowest step, and text is rounded.
STEPS_APART = 1.01
_FLOAT_MAX = float(np.finfo(np.float32).max)


def are_scales(scales: Floats, at: FileLocation, key: str) -> bool:
    """Return whether scales are valid: float32, all positive or all 0; report faults."""
    before = at.faults
    if np.any(wrong := ~np.isfinite(scales)):
        at.fault(f"{_first(scales, wrong)} is not a valid scale", key)
    elif np.any(wrong := scales < 0):
        at.fault(f"{_first(scales, wrong)} is a negative scale", key)
    elif np.any(wrong := scales > _FLOAT_MAX):
        at.fault(f"{_first(scales, wrong)} is too large for a float32", key)
    elif np.any(wrong := (scales > 0) & (scales.astype(np.float32) == 0)):
        at.fault(f"{_first(scales, wrong)} is too small for a float32", key)
    elif np.any(scales) and np.any(wrong := scales == 0):
        hint = "either all scales of a tensor are 0, for a derived encoding, or none is"
        at.fault(f"{_first(scales, wrong)} is not a valid scale", key, hint)
    return at.faults == before


def are_ranges(minimum: Floats | None, maximum: Floats | None, at: FileLocation) -> bool:
    """Return whether ranges are valid: finite and in order; report faults."""
    if minimum is None or maximum is None:
        return False
    before = at.faults
    for values, key in ((minimum, ".min"), (maximum, ".max")):
        if np.any(wrong := ~np.isfinite(values)):
            at.fault(f"{_first(values, wrong)} is not finite", key)
    if at.faults == before and np.any(order := minimum > maximum):
        i = int(np.flatnonzero(order)[0])
        at.fault(f"the minimum {_at(minimum, i)} is larger than the maximum, {_at(maximum, i)}")
    return at.faults == before


def whole(values: Floats, at: FileLocation, key: str) -> Ints | None:
    """Return numbers as integers; report the first that is not whole."""
    wrong = ~((np.abs(values) < 2.0**53) & (np.rint(values) == values))
    if np.any(wrong):
        at.fault(f"{_first(values, wrong)} is not a whole number", key)
        return None
    return values.astype(np.int64)


def on_unsigned_grid(offsets: Ints, bitwidth: int, at: FileLocation, key: str) -> Ints | None:
    """Return offsets on the unsigned grid, positive ones read as zero points; or report."""
    steps = (1 << bitwidth) - 1
    if np.any(outside := np.abs(offsets) > steps):
        hint = f"offsets must be from -{steps} to 0"
        at.fault(f"{_first(offsets, outside)} is outside the grid of {bitwidth} bits", key, hint)
        return None
    if np.any(positive := offsets > 0):
        at.note(f"{_first(offsets, positive)} is positive and was read as a zero point", key)
    return -np.abs(offsets)


def given_numbers(
    scales: Floats, offsets: Floats, bitwidth: int, at: FileLocation, keys: tuple[str, str]
) -> tuple[Floats, Ints] | None:
    """Return the scales and offsets of a file, on the unsigned grid; or report faults."""
    found = whole(offsets, at, keys[1])
    if not are_scales(scales, at, keys[0]) or found is None:
        return None
    if not np.any(scales):
        return placeholder(scales, offsets, at, keys[1])
    found = on_unsigned_grid(found, bitwidth, at, keys[1])
    return None if found is None else (scales, found)


def placeholder(
    scales: Floats, offsets: Floats | None, at: FileLocation, key: str = ".offset"
) -> tuple[Floats, Ints] | None:
    """Return scales of 0 with offsets of 0; report other offsets."""
    if offsets is not None and np.any(offsets != 0):
        at.fault(f"{_first(offsets, offsets != 0)} with a scale of 0", key)
        return None
    return scales, np.zeros(scales.shape, np.int64)


def grid_of(
    minimum: Floats | None, maximum: Floats | None, bitwidth: int, symmetric: bool, at: FileLocation
) -> tuple[Floats, Ints] | None:
    """Return scales and offsets (unsigned grid) of ranges, as the quantizer computes them."""
    if minimum is None or maximum is None:
        return None
    if np.any(away := (minimum > 0) | (maximum < 0)):
        i = int(np.flatnonzero(away)[0])
        at.note(f"{_at(minimum, i)} to {_at(maximum, i)} does not hold zero and was widened to it")
    scheme = Scheme.SYMMETRIC if symmetric else Scheme.ASYMMETRIC
    try:
        scales, offsets = grids_for(minimum.ravel(), maximum.ravel(), bitwidth, scheme)
    except DovetailError as error:
        at.fault(f"no grid spans the range: {error.message}", hint=error.hint)
        return None
    half = 1 << (bitwidth - 1) if symmetric else 0
    wide = offsets.astype(np.int64) - half
    return scales.astype(np.float64).reshape(minimum.shape), wide.reshape(minimum.shape)


def steps_apart(
    scales: Floats, offsets: Ints, bitwidth: int, ranges: tuple[Floats, Floats]
) -> Floats:
    """Return the distance of ranges from those of scales and offsets, in steps."""
    last = offsets + ((1 << bitwidth) - 1)
    with np.errstate(over="ignore"):  # an infinite distance is fine
        low, high = np.abs(ranges[0] / scales - offsets), np.abs(ranges[1] / scales - last)
    return np.maximum(low, high)


def _first(values: Floats | Ints, wrong: NDArray[np.bool_]) -> str:
    """Return the first wrong value as text, with its index and the number of values."""
    i = int(np.flatnonzero(wrong)[0])
    return _at(values, i) if values.size == 1 else f"{_at(values, i)} (at {i} of {values.size})"


def _at(values: Floats | Ints, i: int) -> str:
    return repr(values.reshape(-1)[i].item())
