"""The effects of ops on ranges: moving, clipping, or fixed ranges."""

from __future__ import annotations

import math

from dovetail.ir import DType, Node, Scalar, Tensor, TensorKind
from dovetail.ops import Domain, Op, OpRegistry, bind_node
from dovetail.quantization import Sharing
from dovetail_opset import PACKAGE
from dovetail_opset.ops.activation import ElementWiseNeuron, Neuron
from dovetail_opset.ops.binary import Binary, ElementWiseBinary
from dovetail_opset.ops.resize import Interpolation, Resize
from dovetail_opset.ops.scatter import ScatterElements, ScatterNd
from dovetail_opset.ops.slicing import Pad, PadScheme
from dovetail_quantizers.planning.roles import present, schema_of
from dovetail_quantizers.planning.value_range import HUGE, Range

# Types whose tensors are quantized; integers, bools and text stay what they are.
QUANTIZED = (DType.FLOAT_32, DType.FLOAT_16, DType.BFLOAT_16)

# Besides the ops with domain MOVE, these return only values of their inputs: the numbers of the
# inputs with these values, and of the outputs.
_KEEPERS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "PoolMax2d": ((0,), (0,)),
    "PoolMax3d": ((0,), (0,)),
    "ReduceMax": ((0,), (0,)),
    "ReduceMin": ((0,), (0,)),
    "ResizeNearestNeighbor": ((0,), (0,)),
    "Resize": ((0,), (0,)),
    "ScatterElements": ((0, 2), (0,)),
    "ScatterNd": ((0, 2), (0,)),
    "TopK": ((0,), (0,)),
}
# Ops that join several tensors.
JOINERS = ("Concat", "Pack")
_UNIT, _SIGNED_UNIT = (0.0, 1.0), (-1.0, 1.0)
_FIXED = {
    "Sigmoid": _UNIT,
    "Softmax": _UNIT,
    "MaskedSoftmax": _UNIT,
    "Tanh": _SIGNED_UNIT,
}
_FIXED_NEURONS = {
    Neuron.SIGMOID: _UNIT,
    Neuron.HARD_SIGMOID: _UNIT,
    Neuron.TANH: _SIGNED_UNIT,
}
# Beyond these inputs a function is flat, or closer to its limit than half a 16-bit step.
_EVERYTHING = (-math.inf, math.inf)
_FLAT = {
    "HardSwish": (-3.0, math.inf),
    "Gelu": (-6.0, math.inf),
    "Sigmoid": (-12.0, 12.0),
    "Tanh": (-6.5, 6.5),
}
_FLAT_NEURONS = {
    Neuron.HARD_SWISH: _FLAT["HardSwish"],
    Neuron.GELU: _FLAT["Gelu"],
    Neuron.SIGMOID: _FLAT["Sigmoid"],
    Neuron.TANH: _FLAT["Tanh"],
}
_BINARIES = {
    "ElementWiseAdd": Binary.ADD,
    "ElementWiseSubtract": Binary.SUBTRACT,
    "ElementWiseMultiply": Binary.MULTIPLY,
    "ElementWiseDivide": Binary.DIVIDE,
    "ElementWiseMaximum": Binary.MAXIMUM,
}
_CUTTERS = ("Relu", "Relu1", "Relu6", "ReluMinMax")
_CUTTING_NEURONS = (Neuron.RELU, Neuron.RELU_MIN_MAX)


def is_quantized(tensor: Tensor) -> bool:
    """Return whether a tensor is of a type that is quantized."""
    return tensor.dtype in QUANTIZED and tensor.kind is not TensorKind.NULL


def kept_by(
    node: Node, ops: OpRegistry, concat: Sharing
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return the inputs and the outputs of a node between which values are only moved."""
    schema = schema_of(node, ops)
    if node.package == PACKAGE.name and node.op_type in _KEEPERS:
        if not _keeps_after_all(bind_node(schema, node)):
            return (), ()
        ins, outs = _KEEPERS[node.op_type]
        inputs = tuple(t for i, t in present(node) if i in ins and is_quantized(t))
        outputs = (t for i, t in enumerate(node.outputs) if i in outs)
        return inputs, tuple(t for t in outputs if is_quantized(t))
    if schema.domain is not Domain.MOVE:
        return (), ()
    if node.op_type in JOINERS and concat is Sharing.REQUANTIZE:
        return (), ()
    inputs = tuple(t for _, t in present(node) if is_quantized(t))
    return inputs, tuple(t for t in node.outputs if is_quantized(t))


def added_by(node: Node, ops: OpRegistry) -> Range | None:
    """Return the range of values that a moving node adds to those of its inputs.

    The border of a maximum pool is infinite; the end of the grid is enough for it.
    """
    if node.package != PACKAGE.name or node.op_type != "Pad":
        return None
    op = _bound(node, ops)
    if not isinstance(op, Pad) or op.scheme is not PadScheme.CONSTANT:
        return None
    param = node.params.get("pad_constant_value")
    value = float(param.value) if isinstance(param, Scalar) else 0.0
    return (value, value) if abs(value) < HUGE else None


def fixed_range(node: Node, ops: OpRegistry) -> Range | None:
    """Return the fixed range of an op's output, None if it depends on the input."""
    if node.package != PACKAGE.name:
        return None
    op = _bound(node, ops)
    if isinstance(op, ElementWiseNeuron):
        return _FIXED_NEURONS.get(op.operation)
    return _FIXED.get(node.op_type)


def needed_by(node: Node, ops: OpRegistry) -> Range:
    """Return the range of inputs in which a node is not flat."""
    if node.package != PACKAGE.name:
        return _EVERYTHING
    op = _bound(node, ops)
    if isinstance(op, ElementWiseNeuron):
        if op.operation is Neuron.HARD_SIGMOID:
            return _hard_sigmoid(op)
        return _FLAT_NEURONS.get(op.operation, _EVERYTHING)
    return _FLAT.get(node.op_type, _EVERYTHING)


def cuts_off(node: Node, ops: OpRegistry) -> bool:
    """Return whether a node clips its input and does nothing else."""
    if node.package != PACKAGE.name:
        return False
    op = _bound(node, ops)
    if isinstance(op, ElementWiseNeuron):
        return op.operation in _CUTTING_NEURONS
    return node.op_type in _CUTTERS


def binary_of(node: Node, ops: OpRegistry) -> Binary | None:
    """Return the binary function of an op, None for other ops."""
    if node.package != PACKAGE.name:
        return None
    if node.op_type in _BINARIES:
        return _BINARIES[node.op_type]
    op = _bound(node, ops) if node.op_type == "ElementWiseBinary" else None
    return op.operation if isinstance(op, ElementWiseBinary) else None


def _bound(node: Node, ops: OpRegistry) -> Op:
    return bind_node(schema_of(node, ops), node)


def _keeps_after_all(op: Op) -> bool:
    if isinstance(op, Resize):
        return op.interpolation_mode is Interpolation.NEAREST
    return not (isinstance(op, ScatterElements | ScatterNd) and op.reduction)


def _hard_sigmoid(op: ElementWiseNeuron) -> Range:
    slope = 0.2 if op.alpha is None else float(op.alpha)
    middle = 0.5 if op.beta is None else float(op.beta)
    return (-middle / slope, (1 - middle) / slope) if slope > 0 else _EVERYTHING
