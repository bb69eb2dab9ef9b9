"""Resizing as ONNX defines it, axis by axis, independent of the op that computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail_onnx._context import OpContext
from dovetail_opset.resampling import (
    LINEAR,
    Coordinates,
    Floats,
    Nearest,
    Taps,
    cubic,
    filter_taps,
    nearest_taps,
    positions_of,
)

_COORDINATES = {
    "half_pixel": Coordinates.HALF_PIXEL,
    "pytorch_half_pixel": Coordinates.PYTORCH_HALF_PIXEL,
    "align_corners": Coordinates.ALIGN_CORNERS,
    "asymmetric": Coordinates.ASYMMETRIC,
}
# Of version 11 alone, but tf2onnx writes it for all.
_TF_NEAREST = "tf_half_pixel_for_nn"
_OTHER_COORDINATES = ("half_pixel_symmetric", "tf_crop_and_resize", _TF_NEAREST)
_MODES = ("nearest", "linear", "cubic")


@dataclass(frozen=True, slots=True)
class Style:
    """The parameters of a resize.

    Attributes:
        mode: One of nearest, linear, cubic.
        coordinates: Name of the coordinate transformation.
        nearest: Name of the rounding; "simple" is that of version 10: up where an axis shrinks,
            else down.
        cubic_coeff: The coefficient of the cubic filter.
        exclude_outside: Whether the cubic filter ignores elements beyond the border.
        antialias: Whether filters grow wider where an axis shrinks.
        extrapolation: The value beyond the region of interest.
    """

    mode: str
    coordinates: str = "asymmetric"
    nearest: str = "simple"
    cubic_coeff: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0

    @classmethod
    def of(cls, op: OpContext) -> Style:
        """Return the style that a node's attributes describe.

        Raises:
            FrontendError: An attribute has an unsupported value.
        """
        mode = op.attr.text("mode", "nearest")
        if op.version < 11:
            mode = {"bilinear": "linear"}.get(mode, mode)
            return cls(need_choice(op, "mode", mode, _MODES[:2]))
        coordinates = op.attr.text("coordinate_transformation_mode", "half_pixel")
        nearest = op.attr.text("nearest_mode", "round_prefer_floor")
        return cls(
            need_choice(op, "mode", mode, _MODES),
            need_choice(
                op,
                "coordinate_transformation_mode",
                coordinates,
                (*_COORDINATES, *_OTHER_COORDINATES),
            ),
            need_choice(op, "nearest_mode", nearest, [n.name.lower() for n in Nearest]),
            op.attr.number("cubic_coeff_a", -0.75),
            bool(op.attr.integer("exclude_outside", 0)),
            bool(op.attr.integer("antialias", 0)),
            op.attr.number("extrapolation_value", 0.0),
        )

    def taps(self, places: Floats, length: int, scale: float) -> Taps:
        """Return the input elements and weights of the elements at these positions of an axis."""
        if self.mode == "nearest":
            return nearest_taps(places, length, self._rounding(scale))
        return filter_taps(
            places,
            length,
            LINEAR if self.mode == "linear" else cubic(self.cubic_coeff),
            stretch=max(1 / scale, 1.0) if self.antialias else 1.0,
            exclude_outside=self.exclude_outside,
        )

    def _rounding(self, scale: float) -> Nearest:
        if self.nearest == "simple":
            return Nearest.CEIL if scale < 1 else Nearest.FLOOR
        return Nearest[self.nearest.upper()]


@dataclass(frozen=True, slots=True)
class Line:
    """The resize of one axis.

    Attributes:
        length: Its size.
        taps: The weighted elements of each new one inside the region of interest.
        pads: Elements (before, after) outside it.
    """

    length: int
    taps: Taps
    pads: tuple[int, int] = (0, 0)

    @property
    def inside(self) -> int:
        """The number of new elements inside the region of interest."""
        return len(self.taps.indices)

    @property
    def is_changed(self) -> bool:
        """True if the axis changes."""
        return not self.taps.is_identity(self.length) or self.pads != (0, 0)


def line_of(style: Style, length: int, new: int, scale: float, region: tuple[float, float]) -> Line:
    """Return the resize of an axis.

    Args:
        style: How the node resizes.
        length: Size of the axis, at least 1.
        new: The new size.
        scale: Its scale, which need not be their quotient.
        region: Begin and end of the region of interest.
    """
    if style.coordinates != "tf_crop_and_resize":
        if length == new and scale == 1:
            return Line(length, Taps(np.arange(length)[:, None]))
        return Line(
            length, style.taps(_places(style.coordinates, length, new, scale), length, scale)
        )
    begin, end = region[0] * (length - 1), region[1] * (length - 1)
    first, step = ((begin + end) / 2, 0.0) if new == 1 else (begin, (end - begin) / (new - 1))
    places: Floats = np.arange(new, dtype=np.float64) * step + first
    # the positions ascend or descend, so those inside are adjacent
    inside = np.flatnonzero((places >= 0) & (places <= length - 1))
    before, end_inside = (int(inside[0]), int(inside[-1]) + 1) if inside.size else (0, 0)
    return Line(length, style.taps(places[inside], length, scale), (before, new - end_inside))


def _places(coordinates: str, length: int, new: int, scale: float) -> Floats:
    plain = _COORDINATES.get(coordinates)
    is_quotient = np.float32(scale) == np.float32(new / length)
    if plain is Coordinates.ALIGN_CORNERS or (plain is not None and is_quotient):
        return positions_of(plain, length, new)
    steps: Floats = np.arange(new, dtype=np.float64)
    if coordinates == _TF_NEAREST:
        return (2 * steps + 1) * length / (2 * new) if is_quotient else (steps + 0.5) / scale
    if plain is Coordinates.ASYMMETRIC:
        return steps / scale
    if plain is Coordinates.PYTORCH_HALF_PIXEL and new == 1:
        return steps
    places = (steps + 0.5) / scale - 0.5
    if coordinates == "half_pixel_symmetric":
        places += length / 2 * (1 - new / (scale * length))
    return places


def need_choice(op: OpContext, name: str, value: str, choices: Sequence[str]) -> str:
    """Return an attribute's value after checking it.

    Raises:
        FrontendError: The value is unsupported.
    """
    if value not in choices:
        raise op.invalid(f"unsupported {name} '{value}'; expected one of {', '.join(choices)}")
    return value
