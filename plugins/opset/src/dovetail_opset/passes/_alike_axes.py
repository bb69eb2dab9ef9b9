"""Ops that do the same along some neighbouring axes, on tensors that have these as one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dovetail.ir import Graph, Node, ScaleOffset, Shape, Spec, Tensor
from dovetail.ops import Op
from dovetail_opset._package import is_op
from dovetail_opset._shapes import ints
from dovetail_opset.build import add
from dovetail_opset.passes._rewrite import bound

_NORMS = ("LayerNorm", "RmsNorm", "L2Norm")
_ON_FIVE = ("Abs", "Add", "Divide", "Exp", "Multiply", "Power", "Rsqrt", "Select", "Subtract")
# The most axes that backends of QNN take.
MOST_AXES: Mapping[str, int] = {
    **dict.fromkeys(("MatMul", "LogSoftmax", *_NORMS), 4),
    **dict.fromkeys(("Cast", "Elu", "Gelu", "HardSwish", "Prelu", "Relu1", "Relu6", "Tanh"), 4),
    **dict.fromkeys(("Softmax", "Relu", "ReluMinMax", "Sigmoid"), 5),
    **dict.fromkeys((f"ElementWise{name}" for name in _ON_FIVE), 5),
}


def join_alike(graph: Graph, node: Node) -> Tensor | None:
    """Replace a node of too many axes by one on fewer; return its result, which has fewer, too.

    It joins neighbouring axes along both of which each operand varies, or does not.
    """
    op, y = bound(node), node.outputs[0]
    operands = [t for t in node.inputs[: 1 if is_op(node, *_NORMS) else None] if t is not None]
    excess = len(y.shape) - MOST_AXES[node.op_type]
    if op is None or excess < 1 or not all(_has_one_scale(t) for t in (*operands, y)):
        return None
    axes = _axes(op, node)
    end = len(y.shape) - 2 if is_op(node, "MatMul") else min(axes, default=len(y.shape))
    shapes = [(1,) * (len(y.shape) - len(t.shape)) + t.shape for t in (*operands, y)]
    for count in range(excess):
        pairs = (
            i
            for i in range(end - count - 1)
            if all(_are_alike(s[i : i + 2], shapes[-1][i : i + 2]) for s in shapes)
        )
        if (first := next(pairs, None)) is None:
            return None
        shapes = [(*s[:first], s[first] * s[first + 1], *s[first + 2 :]) for s in shapes]
    graph.remove_node(node)
    small = {t: _reshaped(graph, node, t, s) for t, s in zip(operands, shapes, strict=False)}
    params = {name: getattr(op, name) for name in node.params}
    if axes:
        moved = [axis - excess for axis in axes]
        params |= {"axes": moved} if "axes" in params else {"axis": moved[0]}
    return add(
        graph,
        node.op_type,
        [small.get(t, t) if t is not None else None for t in node.inputs],
        name=f"{node.name}.computed",
        spec=Spec(y.dtype, shapes[-1], y.encoding),
        sources=node.sources,
        **params,
    )


def _has_one_scale(tensor: Tensor) -> bool:
    # scales by axis would have to say which axis that is now
    return isinstance(tensor.encoding, ScaleOffset | None)


def _axes(op: Op, node: Node) -> Shape:
    """Return the axes along which a node does not do the same everywhere, as its params say."""
    params: Any = op
    if is_op(node, "L2Norm"):
        return tuple(params.over())
    if is_op(node, *_NORMS):
        return ints(params.axes)
    return (params.axis,) if is_op(node, "Softmax", "LogSoftmax") else ()


def _are_alike(sizes: Shape, of_result: Shape) -> bool:
    """Return whether an operand varies as the result does along some axes, or does not vary."""
    return sizes == of_result or math.prod(sizes) == 1


def _reshaped(graph: Graph, node: Node, tensor: Tensor, shape: Shape) -> Tensor:
    """Return a tensor in a shape, without more axes than it has."""
    shape = shape[max(0, len(shape) - len(tensor.shape)) :]
    if tensor.shape == shape:
        return tensor
    spec = Spec(tensor.dtype, shape, tensor.encoding)
    name = f"{node.name}.joined"
    return add(graph, "Reshape", [tensor], name=name, spec=spec, sources=node.sources)
