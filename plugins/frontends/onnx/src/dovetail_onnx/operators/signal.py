"""Transforms of signals and of attention's vectors."""

from __future__ import annotations

from typing import Any

from dovetail.ir import DType, Shape, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.indices import narrowed


@ONNX.importer("STFT", versions=(17,))
def stft(op: OpContext) -> Tensor:
    """Stft of a real signal, or of a complex one with all bins.

    A signal without the last axis is real: TorchScript's exporter writes it so.
    """
    signal = op.spec(0)
    x = op.tensor(0)
    if len(signal.shape) == 2:
        x = op.step("parts", "Reshape", [x], spec=Spec(signal.dtype, (*signal.shape, 1)))
    window = op.spec(2).shape if op.has(2) else None
    if op.has(3):
        length = _need_one(op, 3, "frame length")
    elif window is not None and len(window) == 1:
        length = window[0]
    else:
        raise op.invalid("missing frame length, or a window of one dimension")
    step = _need_one(op, 1, "frame step")
    if step < 1 or length < 1:
        raise op.invalid(f"frame step {step} and frame length {length} must be positive")
    onesided = bool(op.attr.integer("onesided", 1))
    if onesided and len(signal.shape) == 3 and signal.shape[2] == 2:
        raise op.unsupported("onesided needs a real signal, but the signal is complex")
    return op.emit(
        "Stft",
        [x, op.tensor(2)] if op.has(2) else [x],
        frame_step=step,
        frame_length=length,
        onesided=onesided,
    )


def _need_one(op: OpContext, i: int, what: str) -> int:
    found = op.need_ints(i, what)
    if len(found) != 1:
        raise op.invalid(f"{what} must be a single number, got {len(found)} elements")
    return found[0]


@ONNX.importer("RotaryEmbedding", versions=(23,))
def rotary_embedding(op: OpContext) -> Tensor:
    """RotaryEmbedding on (batch, heads, seq, d), to which (batch, seq, heads * d) is converted."""
    params: dict[str, Any] = {
        "interleaved": bool(op.attr.integer("interleaved", 0)),
        "rotary_embedding_dim": op.attr.integer("rotary_embedding_dim", 0),
    }
    rest = [op.tensor(1), op.tensor(2), *([_positions(op)] if op.has(3) else [])]
    shape = op.spec(0).shape
    if len(shape) == 4:
        return op.emit("RotaryEmbedding", [op.tensor(0), *rest], **params)
    heads = op.attr.integer("num_heads", 0)
    if len(shape) != 3:
        raise op.invalid(f"input must have rank 3 or 4, got shape {shape}")
    if heads < 1 or shape[2] % heads:
        raise op.invalid(f"input {shape} does not divide into num_heads {heads}")
    parted: Shape = (*shape[:2], heads, shape[2] // heads)
    x = op.step("heads", "Reshape", [op.tensor(0)], spec=Spec(op.spec(0).dtype, parted))
    x = op.step("by_head", "Transpose", [x], perm=(0, 2, 1, 3))
    y = op.step("turned", "RotaryEmbedding", [x, *rest], **params)
    y = op.step("by_step", "Transpose", [y], perm=(0, 2, 1, 3))
    return op.emit("Reshape", [y], spec=op.spec(0))


def _positions(op: OpContext) -> Tensor:
    known = op.constant(3)
    if known is not None:
        count = op.spec(1).shape[0] if op.spec(1).shape else 0
        wrong = known[(known < 0) | (known >= count)]
        if wrong.size:
            raise op.invalid(f"position {wrong.flat[0]} is out of range for {count}")
        return op.static("positions", known, DType.INT_32)
    return narrowed(op, "positions", op.tensor(3))
