"""Ops that do the same along some neighboring axes, on tensors that have these as one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dovetail.ir import Graph, Node, Shape, Spec, Tensor
from dovetail.ops import Op
from dovetail_opset._package import is_op, schema_of
from dovetail_opset._shapes import ints
from dovetail_opset.build import add, add_all
from dovetail_opset.passes._rewrite import bound, has_one_scale

_NORMS = ("LayerNorm", "RmsNorm", "L2Norm", "GroupNorm")
_ON_AN_AXIS = ("Concat", "Softmax", "LogSoftmax", "Split")
# Backends of QNN take five axes, and four with these ops.
_MOST, _FEWER = 5, 4
_ON_FEWER = (
    *("MatMul", "LogSoftmax", *_NORMS),
    *("Cast", "Elu", "Gelu", "HardSwish", "Prelu", "Relu1", "Relu6", "Tanh"),
)


def join_alike(graph: Graph, node: Node) -> Sequence[Tensor]:
    """Replace a node of too many axes by one on fewer; return its results, which have fewer, too.

    It joins neighboring axes along both of which each operand varies, or does not. Without enough
    of them, and with other ops, the node stays and there are no results.
    """
    results = node.outputs
    rank = len(results[0].shape)
    excess = rank - (_FEWER if is_op(node, *_ON_FEWER) else _MOST)
    if excess < 1 or not _does_the_same(node):
        return ()
    op = bound(node)
    operands = [t for t in node.inputs[: 1 if is_op(node, *_NORMS) else None] if t is not None]
    if op is None or not all(has_one_scale(t) for t in (*operands, *results)):
        return ()
    axes = _axes(op, node)
    shapes = [(1,) * (rank - len(t.shape)) + t.shape for t in (*operands, *results)]
    for _ in range(excess):
        kept = {rank - 1, rank - 2} if is_op(node, "MatMul") else {*axes}
        rank -= 1
        pairs = (i for i in range(rank) if not kept & {i, i + 1} and _are_alike(shapes, i))
        if (first := next(pairs, None)) is None:
            return ()
        shapes = [(*s[:first], s[first] * s[first + 1], *s[first + 2 :]) for s in shapes]
        axes = tuple(axis - (axis > first) for axis in axes)
    graph.remove_node(node)
    small = {t: _reshaped(graph, node, t, s) for t, s in zip(operands, shapes, strict=False)}
    params = {name: getattr(op, name) for name in node.params}
    if axes and not is_op(node, "GroupNorm"):
        params |= {"axes": axes} if "axes" in params else {"axis": axes[0]}
    return add_all(
        graph,
        node.op_type,
        [small.get(t, t) if t is not None else None for t in node.inputs],
        name=f"{node.name}.computed",
        outputs=[graph.fresh_name(f"{t.name}.computed") for t in results],
        specs=[
            Spec(t.dtype, s, t.encoding)
            for t, s in zip(results, shapes[len(operands) :], strict=True)
        ],
        sources=node.sources,
        **params,
    )


def _does_the_same(node: Node) -> bool:
    """Return whether an op does the same along some axes."""
    schema = schema_of(node)
    if schema is None:
        return False
    return schema.op.is_elementwise or is_op(node, *_ON_FEWER, *_ON_AN_AXIS)


def _axes(op: Op, node: Node) -> Shape:
    """Return the axes along which a node does not do the same everywhere, as its params say."""
    params: Any = op
    if is_op(node, "L2Norm"):
        return tuple(params.over())
    if is_op(node, "GroupNorm"):  # batch and channels
        return 0, len(node.outputs[0].shape) - 1
    if is_op(node, *_NORMS):
        return ints(params.axes)
    return (params.axis,) if is_op(node, *_ON_AN_AXIS) else ()


def _are_alike(shapes: Sequence[Shape], first: int) -> bool:
    """Return whether each tensor varies along an axis and the next as the last one, or along none.

    Args:
        shapes: Their shapes, of the same rank.
        first: The axis.
    """
    pairs = [shape[first : first + 2] for shape in shapes]
    return all(pair == pairs[-1] or math.prod(pair) == 1 for pair in pairs)


def _reshaped(graph: Graph, node: Node, tensor: Tensor, shape: Shape) -> Tensor:
    """Return a tensor in a shape, without more axes than it has."""
    shape = shape[max(0, len(shape) - len(tensor.shape)) :]
    return tensor if tensor.shape == shape else reshaped(graph, node, tensor, shape)


def reshaped(
    graph: Graph, node: Node, tensor: Tensor, shape: Shape, *, suffix: str = "joined"
) -> Tensor:
    """Add a Reshape of a tensor that a node reads, and return its output."""
    spec = Spec(tensor.dtype, shape, tensor.encoding)
    name = f"{node.name}.{suffix}"
    return add(graph, "Reshape", [tensor], name=name, spec=spec, sources=node.sources)
