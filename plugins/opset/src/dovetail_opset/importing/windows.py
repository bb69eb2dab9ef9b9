"""Sliding windows over two axes at least, and their padding: one dimension becomes two."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.ir import Shape, Tensor
from dovetail_opset.importing.context import ImportContext

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Window:
    """A window over (h, w) or (d, h, w).

    Attributes:
        kernel: Elements along each axis.
        strides: Steps between windows.
        dilations: Distance between a window's elements.
        pads: Elements (before, after) added to each axis; below 0, elements cut off.
        ceil: Whether a last window may reach beyond the padding.
    """

    kernel: Shape
    strides: Shape
    dilations: Shape
    pads: Pairs
    ceil: bool = False

    @property
    def is_padded(self) -> bool:
        """True if there is any padding."""
        return any(map(any, self.pads))

    @property
    def is_dilated(self) -> bool:
        """True if a dilation exceeds 1."""
        return any(k > 1 and d > 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def counts(self, spatial: Shape) -> Shape:
        """Return the number of windows along each axis; none begins in the end padding."""
        return tuple(self._count(axis, size) for axis, size in enumerate(spatial))

    def _count(self, axis: int, size: int) -> int:
        before, after = self.pads[axis]
        stride, room = self.strides[axis], size + before + after - self._span(axis)
        if not self.ceil:
            return room // stride + 1
        count = -(-room // stride) + 1
        return count - 1 if (count - 1) * stride >= size + before else count

    def fitted(self, spatial: Shape) -> Window:
        """Return a window for which QNN's formula results in as many windows.

        QNN rounds up without asking where the last window begins. Rounding down, or less padding
        after it, leaves that window out; it is in the padding, so nothing else changes. Padding
        below 0 says how many elements of the input no window reaches: they are to be cut off.
        """
        wanted = self.counts(spatial)
        floor = replace(self, ceil=False)
        if floor.counts(spatial) == wanted:
            return floor
        pads = tuple(
            self._trimmed(i, n, c) for i, (n, c) in enumerate(zip(spatial, wanted, strict=True))
        )
        return replace(self, pads=pads)

    def covering(self, spatial: Shape) -> Window:
        """Return a window with the same count whose padding ends where the last window does.

        For pooling whose padding has no effect, so that more of it is allowed.
        """
        pads = []
        for axis, (size, count) in enumerate(zip(spatial, self.counts(spatial), strict=True)):
            before, reach = self.pads[axis][0], (count - 1) * self.strides[axis] + self._span(axis)
            pads.append((before, reach - size - before))
        return replace(self, pads=tuple(pads), ceil=False)

    def _trimmed(self, axis: int, size: int, count: int) -> tuple[int, int]:
        before, after = self.pads[axis]
        room = size + before + after - self._span(axis)
        if -(-room // self.strides[axis]) + 1 == count:
            return before, after
        return before, (count - 1) * self.strides[axis] + self._span(axis) - size - before

    def _span(self, axis: int) -> int:
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1


def cropped(op: ImportContext, x: Tensor, window: Window) -> tuple[Tensor, Window]:
    """Crop (n, ..., c) to what windows reach, where the window's padding is below 0.

    Raises:
        FrontendError: Nothing would be left.
    """
    if not any(before < 0 or after < 0 for before, after in window.pads):
        return x, window
    rows = [(0, x.shape[0], 1)]
    for size, (before, after) in zip(x.shape[1:-1], window.pads, strict=True):
        rows.append((max(-before, 0), size - max(-after, 0), 1))
    rows.append((0, x.shape[-1], 1))
    if any(begin >= end for begin, end, _ in rows[1:-1]):
        raise op.invalid(f"pads {window.pads} remove all of the {x.shape[1:-1]} elements")
    pads = tuple((max(before, 0), max(after, 0)) for before, after in window.pads)
    return op.step("cropped", "StridedSlice", [x], ranges=rows), replace(window, pads=pads)


def same_pads(spatial: Shape, spans: Shape, strides: Shape, *, upper: bool = True) -> Pairs:
    """Return padding for which there are as many windows as the input has strides.

    Args:
        spatial: Spatial shape of the input.
        spans: Elements from the first to the last one that a window sees, along each axis.
        strides: Steps between windows.
        upper: Whether an odd element is added after the input, and not before it.
    """
    pairs = []
    for size, span, stride in zip(spatial, spans, strides, strict=True):
        total = max((-(-size // stride) - 1) * stride + span - size, 0)
        less, more = total // 2, total - total // 2
        pairs.append((less, more) if upper else (more, less))
    return tuple(pairs)
