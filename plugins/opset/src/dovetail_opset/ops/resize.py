"""Resizing of images; the output declares the new size."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum

from dovetail.errors import OpError
from dovetail.ir import Array, Shape, Spec
from dovetail.ops import BatchAxis, In, Op, bool8, choice, float32
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, need_rank
from dovetail_opset.resampling import (
    LINEAR,
    Coordinates,
    Nearest,
    Taps,
    cubic,
    filter_taps,
    nearest_taps,
    positions_of,
)


class Interpolation(enum.IntEnum):
    """Interpolation between the elements."""

    NEAREST = 0
    LINEAR = 1
    CUBIC = 2


class _Resizing(Op):
    inputs = (In("in[0]"),)
    batch_axis = BatchAxis.FIRST

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        self.check(x)
        if out is None:
            raise OpError("the output must declare the new shape")
        ends = x.shape[0], x.shape[-1]
        if len(out.shape) != len(x.shape) or (out.shape[0], out.shape[-1]) != ends:
            raise OpError(
                f"in[0] {x.shape} cannot become {out.shape}: only the dimensions between batch "
                "and channels change"
            )
        for axis, (old, new) in enumerate(zip(x.shape, out.shape, strict=True)):
            if new and not old:
                raise OpError(f"in[0] {x.shape} has no elements on axis {axis} to resize to {new}")
        return computed(x, out.shape, out)

    def reference(self, x: Array, out: Spec) -> Array:
        for axis, taps in self.taps_by_axis(x.shape, out.shape).items():
            x = taps.apply(x, axis)
        return x

    def taps_by_axis(self, old: Shape, new: Shape) -> dict[int, Taps]:
        """Return the taps of the axes that change, in the order in which these are resampled.

        The axis that shrinks most comes first: fewer elements remain for the others.
        """
        changed = [axis for axis, size in enumerate(new) if size != old[axis]]
        changed.sort(key=lambda axis: new[axis] / old[axis])
        return {axis: self.taps(old[axis], new[axis]) for axis in changed}

    def check(self, x: Spec) -> None:
        """Raise if the op does not accept an input or its params."""
        need_rank(x, 4, "in[0]")

    def taps(self, size: int, new: int) -> Taps:
        """Return the weighted old elements (taps) of each of the `new` elements of an axis."""
        raise NotImplementedError


@PACKAGE.op("Resize")
class Resize(_Resizing):
    """Another number of elements along each spatial axis, as in ONNX.

    x: (n, *spatial, c); the output declares its sizes. CUBIC takes four elements along each axis;
    beyond the border it repeats the outermost one, or with exclude_outside omits what is outside.
    Interpolated integers truncate.
    """

    source = "spec/qnn_ops.md, Resize; ONNX operator Resize-19"

    exclude_outside = bool8(False)
    transformation_mode = choice(Coordinates, Coordinates.HALF_PIXEL)
    interpolation_mode = choice(Interpolation, Interpolation.NEAREST)
    nearest_mode = choice(Nearest, Nearest.ROUND_PREFER_FLOOR)
    cubic_coeff = float32(-0.75)

    @property
    def keeps(self) -> tuple[int, ...]:
        return (0,) if self.interpolation_mode is Interpolation.NEAREST else ()

    def check(self, x: Spec) -> None:
        if len(x.shape) < 3:
            raise OpError(
                f"in[0] must be (n, *spatial, c) of rank 3 or more, but its shape is {x.shape}"
            )

    def taps(self, size: int, new: int) -> Taps:
        """Return the weighted old elements (taps) of each of the `new` elements of an axis."""
        positions = positions_of(self.transformation_mode, size, new)
        match self.interpolation_mode:
            case Interpolation.NEAREST:
                return nearest_taps(positions, size, self.nearest_mode)
            case Interpolation.LINEAR:
                return filter_taps(positions, size, LINEAR)
            case Interpolation.CUBIC:
                kernel = cubic(self.cubic_coeff)
                return filter_taps(positions, size, kernel, exclude_outside=self.exclude_outside)


class _TensorFlowResizing(_Resizing):
    align_corners = bool8(False)
    half_pixel_centers = bool8(False)

    def check(self, x: Spec) -> None:
        super().check(x)
        if self.align_corners and self.half_pixel_centers:
            raise OpError("align_corners and half_pixel_centers are mutually exclusive")

    @property
    def coordinates(self) -> Coordinates:
        """The position of a new element among the old ones."""
        if self.align_corners:
            return Coordinates.ALIGN_CORNERS
        return Coordinates.HALF_PIXEL if self.half_pixel_centers else Coordinates.ASYMMETRIC


@PACKAGE.op("ResizeBilinear")
class ResizeBilinear(_TensorFlowResizing):
    """Bilinear interpolation, as in TensorFlow 1.

    x: (n, h, w, c); the output declares (n, nh, nw, c). Element (i, j) is at i * h / nh; with
    half_pixel_centers at (i + 0.5) * h / nh - 0.5; with align_corners at i * (h - 1) / (nh - 1).
    antialias (off by default, which is our choice) widens the triangle filter by h / nh where an
    axis shrinks, and omits what is beyond the border. Interpolated integers truncate.
    """

    antialias = bool8(False)

    def taps(self, size: int, new: int) -> Taps:
        """Return the weighted old elements (taps) of each of the `new` elements of an axis."""
        positions = positions_of(self.coordinates, size, new)
        if self.antialias and 0 < new < size:
            return filter_taps(positions, size, LINEAR, stretch=size / new, exclude_outside=True)
        return filter_taps(positions, size, LINEAR)


@PACKAGE.op("ResizeNearestNeighbor")
class ResizeNearestNeighbor(_TensorFlowResizing):
    """The nearest element, as in TensorFlow 1.

    x: (n, h, w, c); the output declares (n, nh, nw, c). Row i is floor(i * h / nh); with
    half_pixel_centers floor((i + 0.5) * h / nh); with align_corners i * (h - 1) / (nh - 1), rounded
    half up.
    """

    keeps = (0,)

    def taps(self, size: int, new: int) -> Taps:
        """Return the weighted old elements (taps) of each of the `new` elements of an axis."""
        positions = positions_of(self.coordinates, size, new)
        if self.coordinates is Coordinates.ASYMMETRIC:
            return nearest_taps(positions, size, Nearest.FLOOR)
        return nearest_taps(positions, size, Nearest.ROUND_PREFER_CEIL)
