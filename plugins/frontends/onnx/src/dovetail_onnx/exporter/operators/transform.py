"""Transforms of signals and of attention's vectors."""

from __future__ import annotations

import math

import numpy as np

from dovetail.ir import DType
from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._table import exports


@exports("RotaryEmbedding")
def rotary_embedding(e: NodeExport) -> None:
    """Slices of x times cosines and sines, concatenated."""
    size = e.spec(0).shape[3]
    turned = e.op.rotary_embedding_dim or size
    half = turned // 2
    x, cos, sin = e.input(0), _angles(e, 1, half), _angles(e, 2, half)
    if e.op.interleaved:
        a, b = _sliced(e, x, 0, turned, 2), _sliced(e, x, 1, turned, 2)
    else:
        a, b = _sliced(e, x, 0, half, 1), _sliced(e, x, half, turned, 1)
    parts = [
        e.add("Sub", [e.add("Mul", [a, cos]), e.add("Mul", [b, sin])]),
        e.add("Add", [e.add("Mul", [b, cos]), e.add("Mul", [a, sin])]),
    ]
    lead = e.spec(0).shape[:3]
    if e.op.interleaved:
        pairs = [e.reshape(part, (*lead, half, 1)) for part in parts]
        result = e.reshape(e.add("Concat", pairs, axis=4), (*lead, turned))
    else:
        result = e.add("Concat", parts, axis=3)
    if turned < size:
        result = e.add("Concat", [result, _sliced(e, x, turned, size, 1)], axis=3)
    e.put(result)


@exports("HadamardTransform")
def hadamard_transform(e: NodeExport) -> None:
    """MatMul with the matrix of signs."""
    x, size = e.input(0), e.spec(0).shape[-1]
    places = np.arange(size)
    common = places[:, None] & places
    odd = np.bitwise_count(common) % 2
    signs = np.where(odd == 1, -1.0, 1.0) * (e.op.scale / math.sqrt(size))
    e.put(e.add("MatMul", [x, e.constant(signs, x)]))


@exports("Stft")
def stft(e: NodeExport) -> None:
    """STFT."""
    step, length = (e.constant(v, DType.INT_64) for v in (e.op.frame_step, e.op.frame_length))
    inputs = [e.input(0), step, e.optional(1), length]
    e.put(e.add("STFT", inputs, onesided=int(e.op.onesided)))


def _angles(e: NodeExport, i: int, half: int) -> str:
    """Return cosines or sines as (batch, 1, seq, r / 2)."""
    batch, _, steps, _ = e.spec(0).shape
    if not e.has(3):
        return e.flat(i, (batch, 1, steps, half))
    found = e.add("Gather", [e.input(i), e.cast(e.input(3), DType.INT_64)], axis=0)
    return e.reshape(found, (batch, 1, steps, half))


def _sliced(e: NodeExport, x: str, begin: int, end: int, step: int) -> str:
    return e.add("Slice", [x, *(e.integers([v]) for v in (begin, end, 3, step))])
