"""The limits of computation at import, checked by shape before anything is allocated.

A few numbers in a file can request any amount of memory or time. A node beyond these limits is
converted by its importer, so that the model computes it when it runs, or rejected if it has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from onnx import AttributeProto, NodeProto

from dovetail.ir import Shape

# Bytes of all results of a model together, and their multiple of the size of its files: a
# light VGG-19 of ONNX's tests has 548 MiB of weights that are computed from nothing.
_FREE_BYTES, _GROWTH = 640 << 20, 16
# Bytes read and written for them: some ten seconds.
_FREE_TRAFFIC, _TRAFFIC_GROWTH = 8 << 30, 64
# Elements that operators may take which ONNX's evaluator computes in Python loops, some 50 us each;
# of a model together: some ten seconds.
_LOOPED, _ALL_LOOPED = 1 << 16, 1 << 18
# Multiplications within one product of matrices: of integers NumPy does some 10 ** 9 a second.
_PRODUCTS = 1 << 32
# Larger numbers make even small results slow, as pads and strides together do.
_MOST_IN_ATTRIBUTES = 1 << 12
# Ops, which take some 100 us and some KiB each: a few operators become hundreds of them.
_FREE_OPS, _OPS_OF_NODE = 20_000, 20
# Operators that NumPy computes at once.
# fmt: off
_VECTORIZED = frozenset(
    (
        "Abs", "Add", "And", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor",
        "Cast", "CastLike", "Ceil", "Clip", "Concat", "ConstantOfShape", "Cos", "CumSum",
        "DepthToSpace", "Div", "Equal", "Exp", "Expand", "Flatten", "Floor",
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


class Budget:
    """The computation that one model may cause at import, and how much of it is left.

    Args:
        stored: Returns the bytes of constants that the model's files hold, as far as is known.
        nodes: Number of nodes of the model.

    Attributes:
        most_ops: Maximum number of ops of its graph.
    """

    def __init__(self, stored: Callable[[], int] = lambda: 0, nodes: int = 0) -> None:
        self.most_ops = _FREE_OPS + _OPS_OF_NODE * nodes
        self._stored = stored
        self._made = self._traffic = self._looped = self._ops = 0

    def allows(self, node: NodeProto, ins: Sequence[Shape], outs: Sequence[Shape]) -> bool:
        """Return whether a node is quick to compute; count it if it is.

        Args:
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
            return math.prod(outs[0]) * deep <= _PRODUCTS if outs else elements <= _LOOPED
        work = _work(node, ins, elements)
        if work > _LOOPED or self._looped + work > _ALL_LOOPED:
            return False
        self._looped += work
        return True

    def has_op(self) -> bool:
        """Return whether the graph may have one more op; count it if so."""
        self._ops += 1
        return self._ops <= self.most_ops

    def has(self, made: int, read: int) -> bool:
        """Return whether the limits of memory and time allow a result; count it if so.

        Args:
            made: Its bytes.
            read: The bytes that it is made of.
        """
        stored = self._stored()
        if self._made + made > _FREE_BYTES + _GROWTH * stored:
            return False
        if self._traffic + made + read > _FREE_TRAFFIC + _TRAFFIC_GROWTH * stored:
            return False
        self._made += made
        self._traffic += made + read
        return True


def _work(node: NodeProto, ins: Sequence[Shape], elements: int) -> int:
    """Return the approximate number of steps of a loop over elements."""
    if _greatest_number(node) > _MOST_IN_ATTRIBUTES:
        return _LOOPED + 1
    if node.op_type == "Einsum":
        # at worst every pair of elements: far too many in general, but quick for a shape
        return math.prod(max(1, math.prod(shape)) for shape in ins)
    if node.op_type == "NonMaxSuppression":
        return elements**2
    return elements * _taps(node, ins)


def _greatest_number(node: NodeProto) -> int:
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
