"""Descriptions of poolings: functions of windows over the spatial axes of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from dovetail.ir import Shape
from dovetail.ops import NodeView
from dovetail_onednn._api import FORWARD_INFERENCE, PoolingAlgorithm
from dovetail_onednn.attributes import PostOp
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.primitives import ENGINE, Description

POOLING = "pooling_forward"


class Pooling(msgspec.Struct, frozen=True):
    """Windows over (n, *spatial, c).

    Attributes:
        algorithm: The function of a window.
        source, target: Shapes.
        size, stride, before, after: Window, strides and padding for each spatial axis.
    """

    algorithm: PoolingAlgorithm
    source: Shape
    target: Shape
    size: Shape
    stride: Shape
    before: Shape
    after: Shape

    @classmethod
    def of(cls, view: NodeView, algorithm: PoolingAlgorithm) -> Pooling:
        """Return the pooling of a node of a pooling op."""
        op: Any = view.op  # its class is the op set's, which this package does not import
        source, target = (specs[0].shape for specs in (view.ins, view.outs) if specs[0])
        size, stride = (tuple(int(n) for n in v) for v in (op.filter_size, op.stride))
        before = tuple(int(n) for n in np.transpose(op.pad_amount)[0])
        # with the rounding mode CEIL a last window may extend beyond the padding; the library
        # rejects padding of the size of a window, even if no window is in it
        needed = (
            (outputs - 1) * step + taps - inputs - pad
            for outputs, step, taps, inputs, pad in zip(
                target[1:-1], stride, size, source[1:-1], before, strict=True
            )
        )
        after = tuple(max(0, pad) for pad in needed)
        return cls(algorithm, source, target, size, stride, before, after)

    def windows(self) -> list[list[tuple[int, int]]]:
        """Return the first and last + 1 index of each window, for each spatial axis."""
        axes = zip(self.target[1:-1], self.stride, self.before, self.size, strict=True)
        return [
            [(i * stride - before, i * stride - before + size) for i in range(outputs)]
            for outputs, stride, before, size in axes
        ]

    @property
    def has_empty_windows(self) -> bool:
        """True if a window has no element of the source."""
        return any(
            min(last, size) <= max(first, 0)
            for size, windows in zip(self.source[1:-1], self.windows(), strict=True)
            for first, last in windows
        )

    def described(
        self, source: MemoryDesc, target: MemoryDesc, post_ops: Sequence[PostOp] = ()
    ) -> Description:
        """Describe the primitive.

        Args:
            source: Descriptor of the source.
            target: Descriptor of the result.
            post_ops: Functions of the result.
        """
        name = f"{source.type.text} {self.algorithm.name.lower()} pooling"
        fused = "".join(f" + {op}" for op in post_ops)
        sizes = (self.stride, self.size, (0,) * len(self.size), self.before, self.after)
        return Description(
            POOLING,
            (ENGINE, FORWARD_INFERENCE, self.algorithm, source, target, *sizes),
            lambda: f"a {name}{fused}: {self}",
            tuple(post_ops),
        )
