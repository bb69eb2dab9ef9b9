"""Ops that remember earlier calls or draw random numbers."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType, ScaleOffset, Spec, quantize
from dovetail.ops import Domain, In, Op, Specs, choice, float32, uint32
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import moved, need_axis, need_rank, need_shape


class BufferMode(enum.IntEnum):
    """Where the frames lie while the buffer is not full, and who waits for it."""

    BLOCKING = 0
    NON_BLOCKING_LEFT = 1
    NON_BLOCKING_RIGHT = 2


@PACKAGE.op("Buffer")
class Buffer(Op):
    """The last frames of this call and of earlier ones, oldest first.

    x: any shape but (), with f > 0 frames along buffer_dim; reset: (), false where left out.
    Gives the shape of x with buffer_size frames: a multiple of f. Where the new frames find no
    room, the oldest `stride` frames go first: a multiple of f that is at most buffer_size. With
    reset all go. A prepared graph begins, and begins again after a reset, with buffer_padding
    frames of 0, a multiple of f, by default none.

    While there are less than buffer_size frames, the rest is 0: behind the frames for
    NON_BLOCKING_LEFT and BLOCKING, before them for NON_BLOCKING_RIGHT. What reads the result runs
    in each call; for BLOCKING the application must wait for a full buffer itself.

    The frames are kept by the op, of which each prepared graph has its own and which never runs
    twice at once; nothing else sees them. `simulate` with one op goes on from call to call too.
    """

    inputs = (In("in[0]"), In("in[1]", (DType.BOOL_8,), optional=True))
    domain = Domain.MOVE
    is_pure = False
    source = "spec/qnn_ops.md, Buffer; the vendor's page of block ops, Buffer"

    buffer_size = uint32()
    buffer_dim = uint32()
    stride = uint32(1)
    mode = choice(BufferMode, BufferMode.BLOCKING)
    buffer_padding = uint32(0)

    def __init__(self, ins: Specs = (), **params: Any) -> None:
        super().__init__(ins, **params)
        self._held: Array | None = None

    def infer(self, x: Spec, reset: Spec | None, out: Spec | None) -> Spec:
        axis = need_axis(self.buffer_dim, len(x.shape), "buffer_dim")
        need_shape(reset, (), "in[1], which says whether to reset,")
        frames = x.shape[axis]
        if not frames:
            raise OpError(f"in[0] {x.shape} has no frames along buffer_dim {axis}")
        for name, least in (("buffer_size", 1), ("stride", 1), ("buffer_padding", 0)):
            count = getattr(self, name)
            if count % frames or not least <= count <= self.buffer_size:
                raise OpError(
                    f"{name} is {count}; it must be a multiple of the {frames} frame(s) of in[0] "
                    f"from {least * frames} to buffer_size, {self.buffer_size}"
                )
        return moved(x, (*x.shape[:axis], self.buffer_size, *x.shape[axis + 1 :]), out)

    def reference(self, x: Array, reset: Array | None, out: Spec) -> Array:
        axis = self.buffer_dim
        held = self._held
        if held is None or (reset is not None and reset):
            held = self._zeros(x, out, self.buffer_padding)
        if held.shape[axis] + x.shape[axis] > self.buffer_size:
            held = np.delete(held, slice(0, self.stride), axis)
        self._held = held = np.concatenate([held, x], axis)
        rest = self._zeros(x, out, self.buffer_size - held.shape[axis])
        parts = [rest, held] if self.mode is BufferMode.NON_BLOCKING_RIGHT else [held, rest]
        return np.concatenate(parts, axis)

    def _zeros(self, x: Array, out: Spec, count: int) -> Array:
        """Return frames of 0, stored as the elements of `x` are."""
        zero = np.zeros((), x.dtype)
        if isinstance(out.encoding, ScaleOffset) and x.dtype.kind in "iu":
            zero = quantize(zero.astype(np.float32), out.encoding, out.dtype)
        axis = self.buffer_dim
        return np.full((*x.shape[:axis], count, *x.shape[axis + 1 :]), zero, x.dtype)


class _Random(Op):
    inputs = (In("in[0]", (DType.UINT_32,)),)
    is_pure = False

    def __init__(self, ins: Specs = (), **params: Any) -> None:
        super().__init__(ins, **params)
        self.generator = np.random.default_rng()

    def infer(self, shape: Spec, out: Spec | None) -> Spec:
        need_rank(shape, 1, "the shape in[0]")
        if out is None:
            raise OpError("the shape in[0] is known only at run time: declare the output's shape")
        if not out.dtype.is_float:
            raise OpError(f"the output must be a float type, but is {out.dtype.name}")
        need_shape(shape, (len(out.shape),), f"for the output {out.shape}, the shape in[0]")
        return Spec(out.dtype, out.shape)

    def need_declared(self, shape: Array, out: Spec) -> None:
        """Refuses a shape that is not the declared one.

        Raises:
            OpError: It is another.
        """
        wanted = tuple(int(size) for size in shape)
        if wanted != out.shape:
            raise OpError(f"in[0] asks for shape {wanted}, but the output is declared {out.shape}")


@PACKAGE.op("RandomUniformLike")
class RandomUniformLike(_Random):
    """Random numbers between `low` and `high`, all alike probable; other ones in each call.

    shape: (rank,), the extents of the result, which the graph must declare. The bounds are 0 and 1
    by default. Each prepared graph draws from a source of its own, seeded by the system.
    """

    source = "spec/qnn_ops.md, RandomUniformLike; ONNX, RandomUniformLike"

    low = float32(0.0)
    high = float32(1.0)

    def infer(self, shape: Spec, out: Spec | None) -> Spec:
        if not self.low <= self.high:
            raise OpError(f"low {self.low} is greater than high {self.high}")
        found: Spec = super().infer(shape, out)
        return found

    def reference(self, shape: Array, out: Spec) -> Array:
        self.need_declared(shape, out)
        return _drawn(self.generator.uniform(self.low, self.high, out.shape), out)


@PACKAGE.op("RandomNormalLike")
class RandomNormalLike(_Random):
    """Random numbers of a normal distribution, of `mean` and deviation `scale`; others each call.

    shape: (rank,), the extents of the result, which the graph must declare. By default the mean is
    0 and the deviation 1. Each prepared graph draws from a source of its own, seeded by the system.
    """

    source = "spec/qnn_ops.md, RandomNormalLike; ONNX, RandomNormalLike"

    mean = float32(0.0)
    scale = float32(1.0)

    def infer(self, shape: Spec, out: Spec | None) -> Spec:
        if not self.scale >= 0:
            raise OpError(f"the deviation scale is {self.scale}; it must not be negative")
        found: Spec = super().infer(shape, out)
        return found

    def reference(self, shape: Array, out: Spec) -> Array:
        self.need_declared(shape, out)
        return _drawn(self.generator.normal(self.mean, self.scale, out.shape), out)


def _drawn(values: Array, out: Spec) -> Array:
    return values if out.dtype is DType.FLOAT_64 else values.astype(np.float32)
