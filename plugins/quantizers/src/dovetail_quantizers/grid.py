"""The arithmetic of encodings: from a range of real values to scale and offset.

`real = (q + offset) * scale`. A range is first widened to hold zero and to span at least 0.0001;
zero then is a point of the grid, so the ends of the grid may differ from those of the range by up
to half a step.
Source: SDK reference, "Quantization": Overview, Details, Quantization Modes.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dovetail.errors import ConfigError, Problem, QuantizationError
from dovetail.ir import DType, ScaleOffset

MINIMUM_RANGE = 0.0001
FLOAT_MAX = float(np.finfo(np.float32).max)
_NOT_FINITE, _OUT_OF_ORDER = "is not finite in float32", "is not in order"
_BELOW = "contains negative values, which an unsigned symmetric grid cannot represent"
Floats = NDArray[np.float64]


class Scheme(enum.Enum):
    """The position of a grid relative to zero."""

    ASYMMETRIC = "asymmetric"  # unsigned, from minimum to maximum
    SYMMETRIC = "symmetric"  # signed, offset 0, equally far in both directions
    UNSIGNED_SYMMETRIC = (
        "unsigned-symmetric"  # unsigned, offset 0, for values that are never negative
    )


@dataclass(frozen=True, slots=True)
class Grid:
    """The points that the stored integers of a tensor represent. The scale is a float32."""

    dtype: DType
    bitwidth: int
    scale: float
    offset: int

    @property
    def encoding(self) -> ScaleOffset:
        """The encoding of the IR, with a bitwidth if that is smaller than the type's."""
        return ScaleOffset(
            self.scale, self.offset, self.bitwidth if self.bitwidth < self.dtype.bits else None
        )

    @property
    def range(self) -> tuple[float, float]:
        """The first and the last point."""
        return grid_range(self.dtype, self.encoding)


def grid_range(dtype: DType, encoding: ScaleOffset) -> tuple[float, float]:
    """Return the first and the last point: encoding-min and encoding-max of the SDK reference."""
    low, high = dtype.stored_range(encoding.bitwidth)
    return (low + encoding.offset) * encoding.scale, (high + encoding.offset) * encoding.scale


def grid_for(
    minimum: float,
    maximum: float,
    bitwidth: int,
    scheme: Scheme,
    *,
    steps: tuple[int, int] | None = None,
    like_sdk: bool = False,
) -> Grid:
    """Return the grid that spans a range.

    Args:
        minimum: The smallest value to represent; may be positive.
        maximum: The largest value to represent.
        bitwidth: Bits of a stored integer: 2 to 32; with an offset, to 31.
        scheme: The position of the grid relative to zero.
        steps: Ends of the stored integers to use (`--restrict-quantization-steps`): their
            distance is the number of steps. For a symmetric grid, values within the range stay
            between the two.
        like_sdk: Whether a symmetric range is widened before it is mirrored, and a scale is the
            nearest float32 even if it is too small for the ends of more than 22 bits.

    Raises:
        QuantizationError: The range is not finite in float32 or not in order, or it contains
            negative values that the grid cannot represent.
        ConfigError: The bitwidth or the steps do not define a grid.
    """
    scales, offsets = grids_for(
        [minimum], [maximum], bitwidth, scheme, steps=steps, like_sdk=like_sdk
    )
    return Grid(storage_type(bitwidth, scheme), bitwidth, float(scales[0]), int(offsets[0]))


def grids_for(
    minimum: ArrayLike,
    maximum: ArrayLike,
    bitwidth: int,
    scheme: Scheme,
    *,
    steps: tuple[int, int] | None = None,
    like_sdk: bool = False,
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return the grids that span several ranges, such as those of a tensor's channels.

    Args:
        minimum: The smallest values, (n,).
        maximum: The largest values, (n,).
        bitwidth: As for `grid_for`.
        scheme: As for `grid_for`.
        steps: As for `grid_for`.
        like_sdk: As for `grid_for`.

    Returns:
        Scales (n,) and offsets (n,).

    Raises:
        QuantizationError: As for `grid_for`; every wrong range is listed.
        ConfigError: As for `grid_for`.
    """
    lows, highs = np.asarray(minimum, np.float64), np.asarray(maximum, np.float64)
    low, high = _levels(bitwidth, scheme, steps)
    _check_ranges(lows, highs, scheme)
    lows, highs = np.minimum(lows, 0.0), np.maximum(highs, 0.0)
    if scheme is Scheme.SYMMETRIC:
        bounds = np.maximum(np.maximum(-lows, highs), MINIMUM_RANGE / 2)
        if like_sdk:
            bounds = np.maximum(-lows, np.maximum(highs, lows + MINIMUM_RANGE))
        ends = () if like_sdk else ((bounds, min(-low, high)),)
        scales = _float32(bounds / min(-low, high), *ends)
        return _limited(scales, 1 << (bitwidth - 1)), np.zeros(scales.shape, np.int32)
    # Zero first, then the minimum span: a constant of 5 gets 0..5, on which 5 is a point.
    highs = np.maximum(highs, lows + MINIMUM_RANGE)
    last = (1 << bitwidth) - 1
    if scheme is Scheme.ASYMMETRIC:
        return _asymmetric(lows, highs, high - low, last)
    scales = _float32(highs / (high - low), (highs, high - low))
    return _limited(scales, last), np.zeros(scales.shape, np.int32)


def storage_type(bitwidth: int, scheme: Scheme) -> DType:
    """Return the narrowest byte-wide type that stores a grid's integers."""
    bits = min(bits for bits in (8, 16, 32) if bits >= bitwidth)
    return DType.fixed(bits, signed=scheme is Scheme.SYMMETRIC)


def _asymmetric(
    lows: Floats, highs: Floats, count: int, last: int
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return scales and offsets of grids of `count` steps stored in 0..`last`."""
    spans = highs - lows
    # The ratio first: it is exactly 1/2 for -5.1..5.1, and the tie is rounded up, to 128.
    zeros = np.floor(-lows / spans * count + 0.5)
    scales = _float32(spans / count, (-lows, zeros), (highs, last - zeros))
    scales = _limited(scales, np.maximum(zeros, last - zeros))
    if count < last:
        # Nothing clips at `count`, so if both ends are ties the zero point is rounded down.
        zeros -= np.rint(highs / scales.astype(np.float64)) + zeros > count
    return scales, (-zeros).astype(np.int32)


def _float32(scales: Floats, *ends: tuple[Floats, Floats | int]) -> NDArray[np.float32]:
    """Return scales as float32, with each of `ends`, if any, at most half a step away.

    Args:
        scales: Any shape.
        ends: Distances of the range's ends from zero, and the steps of the grid up to there.
    """
    nearest = scales.astype(np.float32)
    wide = nearest.astype(np.float64)
    # Rounding moves an end by half a step only beyond 2^22 steps. The margin is for ends that
    # are half a step away already, because the zero point was rounded.
    if not ends:
        return nearest
    short = np.any([distance / wide > steps + 0.51 for distance, steps in ends], axis=0)
    return np.where(short, np.nextafter(nearest, np.float32(np.inf)), nearest)


def _limited(scales: NDArray[np.float32], steps: Floats | int) -> NDArray[np.float32]:
    """Return scales, limited so that the point at `steps` is a finite float32."""
    limits = FLOAT_MAX / np.asarray(steps, np.float64)
    minimum = limits.astype(np.float32)
    minimum = np.where(minimum > limits, np.nextafter(minimum, np.float32(0)), minimum)
    return np.minimum(scales, minimum)


def _levels(bitwidth: int, scheme: Scheme, steps: tuple[int, int] | None) -> tuple[int, int]:
    """Return the first and the last stored integer of a grid."""
    most = 31 if scheme is Scheme.ASYMMETRIC else 32  # a zero point must fit an int32
    if isinstance(bitwidth, bool) or not isinstance(bitwidth, int) or not 2 <= bitwidth <= most:
        raise ConfigError(
            f"unsupported bitwidth {bitwidth} for a grid that is {scheme.value}",
            hint=f"pass an integer from 2 to {most}, such as 8",
        )
    low, high = storage_type(bitwidth, scheme).stored_range(bitwidth)
    if steps is None:
        return low, high
    if not 0 < steps[1] - steps[0] <= high - low:
        raise ConfigError(
            f"quantization steps from {steps[0]} to {steps[1]} do not fit {bitwidth} bits",
            hint=f"the maximum must be 1 to {high - low} larger than the minimum",
        )
    if scheme is Scheme.SYMMETRIC and not low <= steps[0] < 0 < steps[1] <= high:
        raise ConfigError(
            f"quantization steps from {steps[0]} to {steps[1]} for a symmetric grid",
            hint=f"use a negative minimum and a positive maximum, both from {low} to {high}",
        )
    return steps


def _check_ranges(lows: Floats, highs: Floats, scheme: Scheme) -> None:
    """Raise if no grid spans some ranges; list all of them."""
    finite = (np.abs(lows) <= FLOAT_MAX) & (np.abs(highs) <= FLOAT_MAX)
    in_order = lows <= highs
    below = (lows < 0) & (scheme is Scheme.UNSIGNED_SYMMETRIC)
    faults = np.where(finite, np.where(in_order, _BELOW, _OUT_OF_ORDER), _NOT_FINITE)
    problems = [
        Problem(f"the range {lows[i]:g} to {highs[i]:g} {faults[i]}", f"channel {i}")
        for i in np.flatnonzero(~finite | ~in_order | below)
    ]
    if not problems:
        return
    several = len(problems) > 1
    raise QuantizationError(
        f"{len(problems)} ranges cannot be quantized" if several else problems[0].message,
        where=problems[0].where if lows.size > 1 and not several else "",
        hint="check the observed values for NaN, infinities and overflow, or use another scheme",
        problems=problems if several else (),
    )


@dataclass(frozen=True, slots=True)
class Target:
    """The grid that a range is chosen for.

    bitwidth: 2 to 16; symmetric: whether the grid is; unsigned_symmetric: whether a symmetric grid
    is unsigned if no value is negative.

    Raises:
        ConfigError: The bitwidth is out of range.
    """

    bitwidth: int = 8
    symmetric: bool = False
    unsigned_symmetric: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.bitwidth, int) or not 2 <= self.bitwidth <= 16:
            raise ConfigError(
                f"a range for a bitwidth of {self.bitwidth}",
                hint="pass an integer from 2 to 16; use min-max for more bits",
            )

    def scheme(self, minimum: float) -> Scheme:
        """Return the scheme of the grid for values of at least `minimum`."""
        if not self.symmetric:
            return Scheme.ASYMMETRIC
        unsigned = self.unsigned_symmetric and minimum >= 0
        return Scheme.UNSIGNED_SYMMETRIC if unsigned else Scheme.SYMMETRIC
