"""Transforms of signals and of the vectors of attention."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import math

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Shape, Spec
from dovetail.ops import BatchAxis, In, Op, bool8, float32, uint32
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, need_rank, need_same_type, need_shape


@PACKAGE.op("RotaryEmbedding")
class RotaryEmbedding(Op):
    """Rotation of pairs of elements of each vector by angles that depend on its position.

    x: (batch, heads, seq, d), whose first r elements are rotated: rotary_embedding_dim of them, or
    all if that is 0, the default. cos, sin: (positions, r / 2) with position_ids, (batch, seq),
    integers below positions; without them (batch, seq, r / 2). A pair (a, b) becomes (a cos - b
    sin, b cos + a sin). Pair i is elements i and i + r / 2, or 2 i and 2 i + 1 with `interleaved`.
    Returns the shape of x.
    """

    inputs = (In("in[0]"), In("in[1]"), In("in[2]"), In("in[3]", optional=True))
    batch_axis = BatchAxis.FIRST
    batch_inputs = (0, 1, 2, 3)
    source = "spec/qnn_ops.md, RotaryEmbedding; ONNX, RotaryEmbedding"

    interleaved = bool8(False)
    rotary_embedding_dim = uint32(0)

    def infer(
        self, x: Spec, cos: Spec, sin: Spec, position_ids: Spec | None, out: Spec | None
    ) -> Spec:
        need_rank(x, 4, "in[0]")
        need_same_type(x, cos, sin)
        batch, _, steps, size = x.shape
        turned = self._turned(size)
        if turned > size or turned % 2:
            raise OpError(f"{turned} of the {size} elements of in[0] {x.shape} cannot be rotated")
        if position_ids is None:
            wanted: Shape = (batch, steps, turned // 2)
        else:
            if not position_ids.dtype.is_int:
                raise OpError(f"in[3] is {position_ids.dtype.name}; it must be an integer type")
            need_shape(position_ids, (batch, steps), "the positions in[3]")
            need_rank(cos, 2, "with positions in[3], the cosines in[1]")
            wanted = (cos.shape[0], turned // 2)
        need_shape(cos, wanted, "the cosines in[1]")
        need_shape(sin, wanted, "the sines in[2]")
        return computed(x, x.shape, out)

    def reference(self, x: Array, cos: Array, sin: Array, position_ids: Array | None) -> Array:
        if position_ids is not None:
            cos, sin = (self._at(table, position_ids) for table in (cos, sin))
        cos, sin = cos[:, None], sin[:, None]  # the same for all heads
        turned = self._turned(x.shape[3])
        half = turned // 2
        firsts = slice(0, turned, 2) if self.interleaved else slice(0, half)
        seconds = slice(1, turned, 2) if self.interleaved else slice(half, turned)
        a, b = x[..., firsts], x[..., seconds]
        result = x.copy()
        result[..., firsts] = a * cos - b * sin
        result[..., seconds] = b * cos + a * sin
        return result

    def _turned(self, size: int) -> int:
        return self.rotary_embedding_dim or size

    def _at(self, table: Array, position_ids: Array) -> Array:
        wrong = (position_ids < 0) | (position_ids >= len(table))
        if wrong.any():
            raise OpError(
                f"position {position_ids[wrong][0]} in in[3] is out of range of the "
                f"{len(table)} positions of in[1] and in[2]"
            )
        return np.take(table, position_ids.astype(np.int64), axis=0)


@PACKAGE.op("HadamardTransform")
class HadamardTransform(Op):
    """The orthonormal Walsh-Hadamard transform along the last axis, times scale.

    x: (..., n), n a power of 2, also of the result. In natural order: y[k] is scale / sqrt(n) times
    the sum of x[j], negated for each j that has an odd number of ones in common with k. The scale
    is 1 by default.
    """

    inputs = (In("in[0]"),)
    batch_axis = BatchAxis.FIRST
    source = "spec/qnn_ops.md, HadamardTransform; Sylvester 1867"

    scale = float32(1.0)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        if not x.shape or x.shape[-1].bit_count() != 1:
            raise OpError(f"the last size of in[0] {x.shape} must be a power of 2")
        if not (x.dtype.is_float or x.dtype.is_fixed_point):
            raise OpError(f"in[0] is {x.dtype.name}; it must be a float or fixed-point type")
        return computed(x, x.shape, out)

    def reference(self, x: Array) -> Array:
        size = x.shape[-1]
        rows: Array = x * x.dtype.type(self.scale / math.sqrt(size))
        span = 1
        while span < size:
            pairs = rows.reshape(*x.shape[:-1], size // (2 * span), 2, span)
            a, b = pairs[..., 0, :], pairs[..., 1, :]
            rows = np.stack([a + b, a - b], axis=-2).reshape(x.shape)
            span *= 2
        return rows


@PACKAGE.op("Stft")
class Stft(Op):
    """The discrete Fourier transforms of the frames of a signal.

    signal: (batch, length, 1), real, or (batch, length, 2), real and imaginary parts; window:
    (frame_length,), real, which multiplies each frame. Frame i begins at i * frame_step, and all
    are within the signal. Returns (batch, frames, bins, 2): of the frame_length bins only the first
    frame_length / 2 + 1 with `onesided`, which a complex signal does not allow.
    """

    inputs = (In("in[0]"), In("in[1]", optional=True))
    batch_axis = BatchAxis.FIRST
    source = "spec/qnn_ops.md, Stft; ONNX, STFT"

    frame_step = uint32()
    frame_length = uint32()
    onesided = bool8(True)

    def infer(self, signal: Spec, window: Spec | None, out: Spec | None) -> Spec:
        need_rank(signal, 3, "the signal in[0]")
        batch, length, parts = signal.shape
        if not (signal.dtype.is_float or signal.dtype.is_fixed_point):
            raise OpError(f"in[0] is {signal.dtype.name}; it must be a float or fixed-point type")
        if parts not in (1, 2):
            raise OpError(f"the last size of in[0] {signal.shape} must be 1 or 2: real or complex")
        if parts == 2 and self.onesided:
            raise OpError(f"in[0] {signal.shape} is complex; onesided must be false")
        for name in ("frame_step", "frame_length"):
            if getattr(self, name) < 1:
                raise OpError(f"{name} is 0; it must be 1 or more")
        if self.frame_length > length:
            raise OpError(f"a frame of {self.frame_length} is longer than in[0] {signal.shape}")
        if window is not None:
            need_same_type(signal, window)
            need_shape(window, (self.frame_length,), "the window in[1]")
        bins = self.frame_length // 2 + 1 if self.onesided else self.frame_length
        frames = (length - self.frame_length) // self.frame_step + 1
        return computed(signal, (batch, frames, bins, 2), out)

    def reference(self, signal: Array, window: Array | None) -> Array:
        series = signal[..., 0] if signal.shape[2] == 1 else signal[..., 0] + 1j * signal[..., 1]
        every = np.lib.stride_tricks.sliding_window_view(series, self.frame_length, axis=1)
        frames = every[:, :: self.frame_step]
        if window is not None:
            frames = frames * window
        transform = np.fft.rfft if self.onesided else np.fft.fft
        if 0 in frames.shape:
            bins = self.frame_length // 2 + 1 if self.onesided else self.frame_length
            return np.zeros((*frames.shape[:2], bins, 2), signal.dtype)
        found = transform(frames, axis=-1)
        return np.stack([found.real, found.imag], axis=-1).astype(signal.dtype, copy=False)
