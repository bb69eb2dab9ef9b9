"""Matrix products with weights of a few bits, with one scale for each block of weights."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array, DType, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx._grids import grid_of
from dovetail_onnx.operators._parts import reject_attributes, reject_inputs
from dovetail_onnx.operators.microsoft._stored import unpacked
from dovetail_onnx.operators.microsoft._table import MICROSOFT

_BITS = (2, 4, 8)
_LEAST_BLOCK = 16


@MICROSOFT.importer("MatMulNBits", versions=(1,))
def matmul_n_bits(op: OpContext) -> Tensor:
    """FullyConnected; the weights are unpacked to the type of the scales, which must be known."""
    reject_attributes(op, {"weight_prepacked": 0}, "save the model before its weights are packed")
    reject_inputs(op, {4: "g_idx"}, "quantize without reordering the rows (act order, desc_act)")
    units, inputs = (op.attr.integer(name, 0) for name in ("N", "K"))
    block, bits = op.attr.integer("block_size", 0), op.attr.integer("bits", 4)
    if bits not in _BITS:
        raise op.unsupported(f"unsupported weights of {bits} bits; expected 2, 4 or 8")
    if min(units, inputs) < 1 or block < _LEAST_BLOCK or block & (block - 1):
        raise op.invalid(
            f"N {units}, K {inputs} and block_size {block} must be positive, block_size a power "
            f"of two from {_LEAST_BLOCK} on"
        )
    x = op.spec(0).shape
    if not x or x[-1] != inputs:
        raise op.invalid(f"input {x} must have {inputs} elements in the last dimension")
    op.reserve_constant((units, inputs))
    blocks = -(-inputs // block)
    weights = _weights(op, units, blocks, block, bits)[:, :inputs]
    grid = grid_of(
        bits,
        signed=False,
        shape=weights.shape,
        scales=_shaped(op, 2, "scales", (units, blocks)),
        zeros=_zeros(op, units, blocks, bits),
        axis=1,
        block=block,
    )
    made = op.static("weights", weights, op.spec(2).dtype, grid)
    keep = True if len(x) > 2 else None
    return op.emit("FullyConnected", [op.tensor(0), made, op.optional(5)], keep_dims=keep)


def _weights(op: OpContext, units: int, blocks: int, block: int, bits: int) -> Array:
    """Return (units, blocks * block) of weights."""
    packed = _bytes(op, 1, "weights", (units, blocks, block * bits // 8))
    scales = _shaped(op, 2, "scales", (units, blocks)).astype(np.float32)
    stored = unpacked(packed, bits).astype(np.float32)
    stored -= _zeros(op, units, blocks, bits)[..., None]
    stored *= scales[..., None]
    weights: Array = stored.reshape(units, blocks * block)
    return weights


def _zeros(op: OpContext, units: int, blocks: int, bits: int) -> Array:
    """Return the zero points, (units, blocks); the middle of the range if they are omitted."""
    if not op.has(3):
        return np.full((units, blocks), 2 ** (bits - 1), np.float32)
    if op.spec(3).dtype.is_float:
        return _shaped(op, 3, "zero points", (units, blocks)).astype(np.float32)
    packed = _bytes(op, 3, "zero points", (units, -(-blocks * bits // 8)))
    return unpacked(packed, bits)[:, :blocks].astype(np.float32)


def _bytes(op: OpContext, i: int, what: str, shape: tuple[int, ...]) -> Array:
    if op.spec(i).dtype is not DType.UINT_8:
        raise op.invalid(f"{what} must be UINT_8, got {op.spec(i).dtype.name}")
    return _shaped(op, i, what, shape)


def _shaped(op: OpContext, i: int, what: str, shape: tuple[int, ...]) -> Array:
    """Return a known input in a shape; the file may store it flat."""
    values = op.need_constant(i, what)
    if values.size != np.prod(shape):
        raise op.invalid(f"{what} must have shape {shape}, got {values.shape}")
    return values.reshape(shape)
