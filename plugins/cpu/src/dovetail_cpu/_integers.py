"""Nodes of the standard op set that the CPU backend computes on stored integers.

A quantized node of an op in `_OPS` is computed on integers if each fixed-point tensor with an
encoding has a type of the table: UFIXED_POINT_8, unless `_OTHERS` lists the types of its position.

Source: CPU columns of the op definition supplement, SDK 2.25.
"""

from __future__ import annotations

from dovetail.ir import DType
from dovetail.ops import NodeView
from dovetail_opset import STANDARD

_NAMES = """
ArgbToRgb Argmax Argmin BatchToSpace Batchnorm Cast ChannelShuffle Concat Conv2d Conv3d Convert
CumulativeSum DepthToSpace DepthWiseConv2d Dequantize DetectionOutput ElementWiseAbs ElementWiseAdd
ElementWiseAnd ElementWiseAtan ElementWiseCeil ElementWiseDivide ElementWiseEqual ElementWiseExp
ElementWiseFloor ElementWiseFloorDiv ElementWiseGreater ElementWiseGreaterEqual ElementWiseLess
ElementWiseLessEqual ElementWiseLog ElementWiseMaximum ElementWiseMinimum ElementWiseMultiply
ElementWiseNeg ElementWiseNeuron ElementWiseNot ElementWiseNotEqual ElementWisePower
ElementWiseRound ElementWiseRsqrt ElementWiseSelect ElementWiseSin ElementWiseSquareRoot
ElementWiseSquaredDifference ElementWiseSubtract ElementWiseUnary ExpandDims ExtractGlimpse
FullyConnected Gather GatherNd Gelu HardSwish HeatMapMaxKeyPoint InstanceNorm L2Norm LayerNorm Lrn
Lstm MatMul MultiClassNms Nv12ToRgb Nv21ToRgb Pack Pad PoolAvg2d PoolAvg3d PoolMax2d PoolMax3d Prelu
Quantize ReduceMax ReduceMean ReduceMin ReduceSum Relu Relu1 Relu6 ReluMinMax Reshape Resize
ResizeBilinear ResizeNearestNeighbor RoiAlign ScatterNd Sigmoid Softmax SpaceToBatch SpaceToDepth
Split Squeeze StridedSlice Tanh Tile TopK Transpose TransposeConv2d TransposeConv3d UnPack
"""
_OPS = frozenset(_NAMES.split())

_U8, _S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
_U16, _S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16
_U32, _S32 = DType.UFIXED_POINT_32, DType.SFIXED_POINT_32
_DEFAULT = frozenset({_U8})
_BYTES = frozenset({_U8, _S8})
_WORDS = frozenset({*_BYTES, _U16, _S16})
_BIAS = frozenset({_U8, _S32})
_CONVOLUTION = {"in[1]": _BYTES, "in[2]": _BIAS}
_OTHERS: dict[str, dict[str, frozenset[DType]]] = {
    "Argmax": {"in[0]": _BYTES},
    "Argmin": {"in[0]": _BYTES},
    "Batchnorm": {"in[2]": _BIAS},
    "Cast": {"in[0]": _BYTES, "out[0]": _BYTES},
    "Conv2d": _CONVOLUTION,
    "Conv3d": _CONVOLUTION,
    "Convert": {"in[0]": _WORDS, "out[0]": _WORDS},
    "DepthWiseConv2d": _CONVOLUTION,
    "Dequantize": {"in[0]": _WORDS | {_U32, _S32}},
    "FullyConnected": {"in[2]": _BIAS},
    "InstanceNorm": {"in[2]": _BIAS},
    "LayerNorm": {"in[2]": _BIAS},
    "Lstm": {
        **{f"in[{i}]": frozenset({_S32}) for i in (7, 8, 9, 21, 23)},
        **{f"in[{i}]": frozenset({_S16}) for i in (11, 12, 13, 14, 15, 18, 19, 20)},
        "out[1]": frozenset({_S16}),
    },
    "Quantize": {"out[0]": _WORDS},
    "TransposeConv2d": _CONVOLUTION,
}


def computes_on_integers(view: NodeView) -> bool:
    """Return whether a quantized node runs on integers; nodes of other op packages do."""
    if view.package != STANDARD:
        return True
    others = _OTHERS.get(view.op_type, {})
    return view.op_type in _OPS and all(
        spec.dtype in others.get(position, _DEFAULT)
        for position, spec in view.named_specs()
        if spec.dtype.is_fixed_point and spec.encoding is not None
    )
