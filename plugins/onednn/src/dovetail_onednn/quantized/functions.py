"""Kernels of stored integers for what is no product."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.runtime.plan import Make
from dovetail_numpy.integer.moves import REQUANTIZING
from dovetail_numpy.kernels.lookup import OPS
from dovetail_onednn.movement import concatenated
from dovetail_onednn.quantized.conversions import dequantize
from dovetail_onednn.quantized.elementwise import elementwise
from dovetail_onednn.quantized.item_norm import group_norm, instance_norm
from dovetail_onednn.quantized.layer_norm import layer_norm
from dovetail_onednn.quantized.local_response import lrn
from dovetail_onednn.quantized.movement import rearranged, requantized
from dovetail_onednn.quantized.plain_norm import plain_norm
from dovetail_onednn.quantized.pooling import pool_avg, pool_max, reduced
from dovetail_onednn.quantized.resampling import resize
from dovetail_onednn.quantized.softmax import softmax

FUNCTIONS: Mapping[str, Make] = {
    **{op_type: elementwise for op_type in OPS if op_type != "Quantize"},
    **{f"PoolMax{axes}d": pool_max for axes in (2, 3)},
    **{f"PoolAvg{axes}d": pool_avg for axes in (2, 3)},
    **dict.fromkeys(("ReduceMean", "ReduceSum"), reduced),
    "Concat": concatenated,
    **dict.fromkeys(REQUANTIZING, requantized),
    "Dequantize": dequantize,
    "GroupNorm": group_norm,
    "InstanceNorm": instance_norm,
    "LayerNorm": layer_norm,
    **dict.fromkeys(("RmsNorm", "L2Norm"), plain_norm),
    "Lrn": lrn,
    **dict.fromkeys(("Resize", "ResizeBilinear"), resize),
    "Softmax": softmax,
    **dict.fromkeys(("Transpose", "ChannelShuffle", "DepthToSpace", "SpaceToDepth"), rearranged),
}
