"""Taps of sliding windows: the outputs for which one element of a window is inside the input.

Tap by tap, a window needs no padded copy of the input: outputs whose tap is in the padding are
skipped.
"""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import Array


@dataclass(frozen=True, slots=True)
class Axis:
    """Windows along one axis.

    Attributes:
        size: Elements of the input.
        outputs: Number of windows.
        taps: Elements of a window.
        stride: Steps between windows.
        dilation: Distance between the elements of a window.
        before: Padding before the input.
    """

    size: int
    outputs: int
    taps: int
    stride: int
    dilation: int
    before: int

    def inside(self, tap: int, outputs: slice) -> tuple[slice, slice] | None:
        """Return the inputs of a tap.

        Args:
            tap: Index of the element in the window.
            outputs: The windows.

        Returns:
            The windows with the tap inside the input, and the elements there; None without any.
        """
        shift = tap * self.dilation - self.before
        first = max(outputs.start, -(shift // self.stride))
        last = min(outputs.stop, (self.size - 1 - shift) // self.stride + 1)
        if first >= last:
            return None
        start = first * self.stride + shift
        stop = (last - 1) * self.stride + shift + 1
        return slice(first, last), slice(start, stop, self.stride)

    def padded(self, padding: int) -> list[int]:
        """Return the number of elements of each window in the input or its padding.

        Args:
            padding: Padding after the input; elements beyond it do not count.
        """
        return [
            sum(
                0 <= i * self.stride + tap * self.dilation < self.before + self.size + padding
                for tap in range(self.taps)
            )
            for i in range(self.outputs)
        ]

    def counts(self) -> list[int]:
        """Return the number of elements of each window in the input itself."""
        return [
            sum(self.inside(tap, slice(i, i + 1)) is not None for tap in range(self.taps))
            for i in range(self.outputs)
        ]


@dataclass(frozen=True, slots=True)
class Patch:
    """Outputs of a tap and the inputs for them, by rows and columns."""

    tap: int
    out_rows: slice
    out_cols: slice
    in_rows: slice
    in_cols: slice

    def covers(self, rows: slice, columns: int) -> bool:
        """Return whether the tap is inside the input for every output of these rows."""
        return self.out_rows == rows and self.out_cols == slice(0, columns)


def patches(height: Axis, width: Axis, rows: slice) -> list[Patch]:
    """Return the taps of a two-dimensional window for some rows of outputs.

    A tap that covers all outputs, if any, comes first: it can write where others add.
    """
    found = []
    for tap_y in range(height.taps):
        for tap_x in range(width.taps):
            vertical = height.inside(tap_y, rows)
            horizontal = width.inside(tap_x, slice(0, width.outputs))
            if vertical is not None and horizontal is not None:
                tap = tap_y * width.taps + tap_x
                found.append(Patch(tap, vertical[0], horizontal[0], vertical[1], horizontal[1]))
    return sorted(found, key=lambda p: not p.covers(rows, width.outputs))


def view_of(image: Array, rows: slice, columns: slice) -> Array:
    """Return rows and columns of (h, w, c), as (rows, columns * c) if the columns are dense."""
    part = image[rows, columns]
    dense = columns.step is None or columns.step == 1
    # columns and channels of dense columns merge into one axis without a copy
    return part.reshape(len(part), -1) if dense else part
