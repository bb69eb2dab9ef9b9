"""The effects of nodes on ranges, by the facts that their ops state."""

from __future__ import annotations

import math

from dovetail.ir import DType, Node, Tensor, TensorKind
from dovetail.ops import Domain, Op, OpRegistry, OpSchema, Range, bind_node
from dovetail.quantization import Sharing
from dovetail_quantizers.planning.roles import present, schema_of
from dovetail_quantizers.planning.value_range import FLOAT16_MAX, HUGE

# Types whose tensors are quantized; integers, bools and text stay what they are.
QUANTIZED = (DType.FLOAT_32, DType.FLOAT_16, DType.BFLOAT_16)


def is_quantized(tensor: Tensor) -> bool:
    """Return whether a tensor is of a type that is quantized."""
    return tensor.dtype in QUANTIZED and tensor.kind is not TensorKind.NULL


def op_of(node: Node, ops: OpRegistry) -> Op:
    """Return a node's op with its params."""
    return bind_node(schema_of(node, ops), node)


def joins(schema: OpSchema) -> bool:
    """Return whether an op joins any number of tensors to one, such as Concat."""
    return schema.domain is Domain.MOVE and any(port.variadic for port in schema.inputs)


def kept_by(
    node: Node, ops: OpRegistry, concat: Sharing
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return the inputs and the outputs of a node between which values are only moved."""
    schema = schema_of(node, ops)
    inputs, outputs = present(node), node.outputs
    if schema.domain is not Domain.MOVE:
        kept = op_of(node, ops).keeps
        inputs = [(i, t) for i, t in inputs if i in kept]
        outputs = outputs[:1] if kept else ()
    elif concat is Sharing.REQUANTIZE and joins(schema):
        return (), ()
    return (
        tuple(t for _, t in inputs if is_quantized(t)),
        tuple(t for t in outputs if is_quantized(t)),
    )


def added_by(node: Node, ops: OpRegistry) -> Range | None:
    """Return the range of values that a moving node adds to those of its inputs.

    The border of a maximum pool is infinite, or the end of its type; the end of the grid is enough
    for it.
    """
    added = op_of(node, ops).added_range
    is_half = node.outputs[0].dtype is DType.FLOAT_16
    limit = FLOAT16_MAX if is_half else HUGE
    return None if added is None or max(map(abs, added)) >= limit else added


def fixed_range(node: Node, ops: OpRegistry) -> Range | None:
    """Return the fixed range of an op's output, None if it depends on the input."""
    op = op_of(node, ops)
    return None if op.clips or not all(map(math.isfinite, op.value_range)) else op.value_range
