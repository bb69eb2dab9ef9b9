"""Moves of blocks between space and channels."""

from __future__ import annotations

from dovetail.ir import Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.layout import spatial_input, spatial_output

_MODES = {"DCR": 0, "CRD": 1}


@ONNX.importer("DepthToSpace", versions=(1, 11, 13, 28))
def depth_to_space(op: OpContext) -> Tensor:
    """DepthToSpace."""
    return _exchanged(op, "DepthToSpace")


@ONNX.importer("SpaceToDepth", versions=(1, 13, 28))
def space_to_depth(op: OpContext) -> Tensor:
    """SpaceToDepth; before version 28 the mode is DCR."""
    return _exchanged(op, "SpaceToDepth")


def _exchanged(op: OpContext, op_type: str) -> Tensor:
    rank, size = len(op.spec(0).shape), op.attr.integer("blocksize", 0)
    mode = op.attr.text("mode", "DCR")
    if rank != 4:
        raise op.invalid(f"input must have rank 4, got rank {rank}")
    if size < 1:
        raise op.invalid(f"blocksize must be at least 1, got {size}")
    if mode not in _MODES:
        raise op.invalid(f"unsupported mode '{mode}'; expected one of {', '.join(_MODES)}")
    x, block = spatial_input(op), (size, size)
    y = op.step("channels_last", op_type, [x], block_size=block, mode=_MODES[mode])
    return spatial_output(op, y, rank)
