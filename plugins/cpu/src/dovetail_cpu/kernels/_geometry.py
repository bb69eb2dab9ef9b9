"""The extents of a two-dimensional convolution."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.runtime.plan import KernelCall

Pads = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Geometry:
    """Extents of a two-dimensional convolution.

    Attributes:
        x, out: Shapes (n, h, w, c) and (n, oh, ow, k).
        size, stride, dilation: Of the window, (rows, columns).
        pads: ((top, bottom), (left, right)).
        groups: Number of groups of channels.
    """

    x: tuple[int, ...]
    out: tuple[int, ...]
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: Pads
    groups: int

    @classmethod
    def of(cls, call: KernelCall, groups: int) -> Geometry:
        """Gives the geometry of a call of Conv2d or DepthWiseConv2d."""
        op = call.op
        return cls(
            call.spec(0).shape,
            call.outputs[0].shape,
            call.spec(1).shape[:2],
            tuple(map(int, op.stride)),
            tuple(map(int, op.dilation)),
            tuple((int(before), int(after)) for before, after in op.pad_amount),
            groups,
        )

    @property
    def is_pointwise(self) -> bool:
        """Whether each place of the result comes from the same place of the input."""
        return self.size == self.stride == (1, 1) and not any(map(any, self.pads))

    @property
    def padded(self) -> tuple[int, int, int]:
        """Shape of a padded image, (h, w, c)."""
        (top, bottom), (left, right) = self.pads
        _, height, width, channels = self.x
        return top + height + bottom, left + width + right, channels
