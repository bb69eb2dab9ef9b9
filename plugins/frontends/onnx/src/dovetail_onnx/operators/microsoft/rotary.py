"""Rotary embeddings as a separate operator."""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr
from dovetail_onnx.operators._parts import constant, reject_attributes
from dovetail_onnx.operators.microsoft._rotation import angles, rotated
from dovetail_onnx.operators.microsoft._table import MICROSOFT
from dovetail_opset.importing.constant import Value
from dovetail_opset.importing.layout import reshaped


@MICROSOFT.importer("RotaryEmbedding", versions=(1,))
def rotary_embedding(op: OpContext) -> Tensor:
    """Products with cosines and sines, which are constants where the positions are known."""
    reject_attributes(op, {"is_packed_batching": 0}, "pass the sequences as a batch")
    if op.attr.number("scale", 1.0) not in (0, 1):
        raise op.unsupported(
            "unsupported attribute scale: ONNX Runtime's kernels differ in it",
            hint="put the scale into the tables of cosines and sines",
        )
    x = op.tensor(0)
    if len(x.shape) not in (3, 4):
        raise op.invalid(f"input must have rank 3 or 4, got shape {x.shape}")
    by_head = len(x.shape) == 4
    batch, rows = x.shape[0], x.shape[2 if by_head else 1]
    apart = x if by_head else _apart(op, x)
    shape = (batch, 1, rows) if by_head else (batch, rows, 1)
    turns = angles(op, (2, 3), _positions(op, batch, rows), shape)
    interleaved = bool(op.attr.integer("interleaved", 0))
    turned = rotated(op, "x", apart, turns, interleaved=interleaved)
    return op.emit("Reshape", [turned], spec=x.spec)


def _apart(op: OpContext, x: Tensor) -> Tensor:
    """Return (batch, rows, heads * size) as (batch, rows, heads, size)."""
    batch, rows, width = x.shape
    heads, size = op.attr.integer("num_heads", 0), 2 * op.spec(2).shape[-1]
    if op.attr.integer("rotary_embedding_dim", 0):
        if heads < 1:
            raise op.invalid("rotary_embedding_dim needs num_heads")
        size = width // heads
    if size < 1 or width % size:
        raise op.invalid(f"input {x.shape} does not consist of heads of {size} elements")
    return reshaped(op, "apart", x, (batch, rows, width // size, size))


def _positions(op: OpContext, batch: int, rows: int) -> Value:
    """Return (batch, rows) of positions; a single number is that of the first row."""
    given = op.value(1)
    if given.shape == (batch, rows):
        return given
    if given.shape not in ((), (1,)):
        raise op.invalid(f"position_ids must have shape (1,) or {(batch, rows)}, got {given.shape}")
    op.reserve_constant((batch, rows, 2))  # of 64 bits
    counted = np.broadcast_to(np.arange(rows), (batch, rows))
    return (Expr(op, given) + constant(op, "rows", counted, DType.INT_64)).value
