"""Ops with state between calls, and ops that draw random numbers."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from dovetail.errors import OpError, counted
from dovetail.ir import Array, DType, ScaleOffset, Spec, quantize
from dovetail.ops import Domain, In, Op, Specs, choice, float32, uint32
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import moved, need_axis, need_rank, need_shape


class BufferMode(enum.IntEnum):
    """Position of the frames while the buffer is not full, and who waits for it."""

    BLOCKING = 0
    NON_BLOCKING_LEFT = 1
    NON_BLOCKING_RIGHT = 2


@PACKAGE.op("Buffer")
class Buffer(Op):
    """The last frames of this call and of earlier ones, oldest first.

    x: any shape but (), with f > 0 frames along buffer_dim; reset: (), false if omitted. Returns
    the shape of x with buffer_size frames, a multiple of f. If the new frames do not fit, the
    oldest `stride` frames are removed first: a multiple of f of at most buffer_size. A reset
    removes all. A prepared graph starts, also after a reset, with buffer_padding frames of 0, a
    multiple of f, by default none.

    While there are fewer than buffer_size frames, the rest is 0: after the frames for
    NON_BLOCKING_LEFT and BLOCKING, before them for NON_BLOCKING_RIGHT. Readers of the result run in
    each call; for BLOCKING the application must wait for a full buffer itself.

    The op holds the frames. Each prepared graph has its own op, which never runs twice at once.
    `simulate` with one op also continues from call to call.
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
                    f"{name} is {count}; it must be a multiple of the "
                    f"{counted(frames, 'frame')} of in[0], from {least * frames} to buffer_size, "
                    f"{self.buffer_size}"
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
        """Return frames of 0, stored in the form of the elements of `x`."""
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
        """Raise if a shape is not the declared one.

        Raises:
            OpError: They differ.
        """
        wanted = tuple(int(size) for size in shape)
        if wanted != out.shape:
            raise OpError(f"in[0] requests shape {wanted}, but the output is declared {out.shape}")


@PACKAGE.op("RandomUniformLike")
class RandomUniformLike(_Random):
    """Uniform random numbers between `low` and `high`, different in each call.

    shape: (rank,), the sizes of the result, which the graph must declare. The bounds are 0 and 1 by
    default. Each prepared graph has its own generator, seeded by the system.
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
    """Normal random numbers of `mean` and deviation `scale`, different in each call.

    shape: (rank,), the sizes of the result, which the graph must declare. By default the mean is 0
    and the deviation 1. Each prepared graph has its own generator, seeded by the system.
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
