"""The effort of computing one operator at import, checked by shape before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnx import AttributeProto, NodeProto

from dovetail.ir import Shape
from dovetail_opset.importing.budget import MAX_STEPS, Budget

# Multiplications within one product of matrices: of integers NumPy does some 10 ** 9 a second.
_PRODUCTS = 1 << 32
# Larger numbers make even small results slow, as pads and strides together do.
_MOST_IN_ATTRIBUTES = 1 << 12
# Operators that NumPy computes at once.
# fmt: off
_VECTORIZED = frozenset(
    (
        "Abs", "Add", "And", "BatchNormalization", "BitShift", "BitwiseAnd", "BitwiseNot",
        "BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Ceil", "Clip", "Concat",
        "ConstantOfShape", "Cos", "CumSum", "DepthToSpace", "Div", "Equal", "Exp", "Expand",
        "Flatten", "Floor",
        "Gather", "GatherElements", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Log",
        "Max", "Mean", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pad", "Pow",
        "Range", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp",
        "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
        "Relu", "Reshape", "Round", "Shape", "Sigmoid", "Sign", "Sin", "Size", "Slice",
        "Softmax", "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tan", "Tanh",
        "Tile", "Transpose", "Trilu", "Unsqueeze", "Where", "Xor",
    )
)
# fmt: on
_PRODUCT = ("MatMul", "Gemm", "MatMulInteger", "QLinearMatMul")


def allows(budget: Budget, node: NodeProto, ins: Sequence[Shape], outs: Sequence[Shape]) -> bool:
    """Return whether a node is quick to compute; count it if it is.

    Args:
        budget: The limits of the model.
        node: The node.
        ins: Shapes of its inputs.
        outs: Shapes of its outputs, as far as they are known.
    """
    # a loop along one axis takes its time even where another one has no elements
    elements = sum(max((math.prod(shape), *shape)) for shape in (*ins, *outs))
    if node.op_type in _VECTORIZED:
        return True
    if node.op_type in _PRODUCT:
        deep = max((shape[-1] for shape in ins if shape), default=1)
        return math.prod(outs[0]) * deep <= _PRODUCTS if outs else elements <= MAX_STEPS
    return budget.has_steps(_work(node, ins, elements))


def _work(node: NodeProto, ins: Sequence[Shape], elements: int) -> int:
    """Return the approximate number of steps of a loop over elements."""
    if _largest_number(node) > _MOST_IN_ATTRIBUTES:
        return MAX_STEPS + 1
    if node.op_type == "Einsum":
        # at worst every pair of elements: far too many in general, but quick for a shape
        return math.prod(max(1, math.prod(shape)) for shape in ins)
    if node.op_type == "NonMaxSuppression":
        return elements**2
    return elements * _taps(node, ins)


def _largest_number(node: NodeProto) -> int:
    numbers = [abs(a.i) for a in node.attribute if a.type == AttributeProto.INT]
    numbers += [abs(i) for a in node.attribute for i in a.ints]
    return int(max(numbers, default=0))


def _taps(node: NodeProto, ins: Sequence[Shape]) -> int:
    """Return how often an element is read; with kernels and pads that may be often."""
    lists = {a.name: list(a.ints) for a in node.attribute}
    kernel = lists.get("kernel_shape") or (ins[1][2:] if "Conv" in node.op_type and ins[1:] else ())
    spatial = ins[0][2:] if ins else ()
    pads = lists.get("pads", ())
    grown = math.prod(1 + sum(map(abs, pads)) // max(1, extent) for extent in spatial)
    taps = math.prod(abs(int(extent)) for extent in kernel)
    return taps * (grown if pads else 1)
