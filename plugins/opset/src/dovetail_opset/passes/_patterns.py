"""Building blocks for passes that recognize patterns of small ops."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from dovetail.ir import Array, Graph, Node, Shape, Tensor
from dovetail.ops import bind_node
from dovetail_opset._package import is_op, schema_of
from dovetail_opset._shapes import ints
from dovetail_opset.build import static
from dovetail_opset.ops.reduction import ReduceMean
from dovetail_opset.passes._rewrite import is_constant, is_float, is_inner, merge

# Tolerance for the value of a constant: two roundings of a float32, which has 24 bits.
_NEAR = 2.0**-22


def maker(graph: Graph, tensor: Tensor | None, *op_types: str) -> Node | None:
    """Return the node that writes a tensor, if it is one of these standard ops."""
    node = None if tensor is None else graph.producer(tensor)
    return node if is_op(node, *op_types) else None


def one_number(tensor: Tensor | None) -> float | None:
    """Return the number in a constant of one element; None for any other tensor."""
    if tensor is None or not is_constant(tensor) or not is_float(tensor):
        return None
    values = tensor.values()
    return float(values.reshape(-1)[0]) if values.size == 1 else None


def with_number(node: Node) -> tuple[Tensor, float] | None:
    """Return the other input and the number of a node of two inputs, in either order."""
    if len(node.inputs) != 2:
        return None
    for x, other in (node.inputs, node.inputs[::-1]):
        number = one_number(other)
        if x is not None and number is not None:
            return x, number
    return None


def factor_of(node: Node | None) -> tuple[Tensor, float] | None:
    """Return the tensor and the factor of a multiplication or division by a number."""
    if node is not None and is_op(node, "ElementWiseMultiply"):
        return with_number(node)
    if node is None or not is_op(node, "ElementWiseDivide"):
        return None
    x, divisor = node.inputs[0], one_number(node.inputs[1])
    return (x, 1 / divisor) if x is not None and divisor else None


def is_factor(number: float, wanted: float) -> bool:
    """Return whether a factor equals the expected one, rounded to float32."""
    return math.isclose(number, wanted, rel_tol=_NEAR)


def is_square(node: Node | None, x: Tensor) -> bool:
    """Return whether a node multiplies a tensor with itself, as a product or a power."""
    if node is not None and is_op(node, "ElementWisePower"):
        return node.inputs[0] is x and one_number(node.inputs[1]) == 2
    return node is not None and is_op(node, "ElementWiseMultiply") and node.inputs == (x, x)


def mean_axes(node: Node) -> Shape | None:
    """Return the axes of a mean in order; None if it does not keep them as 1."""
    schema = schema_of(node)
    op = None if schema is None else bind_node(schema, node)
    if not isinstance(op, ReduceMean) or not op.keep_dims:
        return None
    return tuple(sorted(ints(op.axes)))


def is_closed(graph: Graph, nodes: Collection[Node], last: Node) -> bool:
    """Return whether nodes compute in plain floats and only the last result is used elsewhere.

    An inner result with an encoding counts as used: its range was chosen.
    """
    inside, dtype = set(nodes), last.outputs[0].dtype
    for node in inside:
        result = node.outputs[0]
        if not is_float(result) or result.dtype is not dtype:
            return False
        if node is not last and not _is_hidden(graph, result, inside):
            return False
    return True


def _is_hidden(graph: Graph, tensor: Tensor, inside: Collection[Node]) -> bool:
    if not is_inner(tensor) or tensor.encoding is not None:
        return False
    return all(reader in inside for reader in graph.consumers(tensor))


def over_axes(tensor: Tensor | None, x: Tensor, axes: Shape) -> Array | None:
    """Return a constant in the sizes of x at the axes; None if it varies on other axes."""
    shape = x.shape
    if tensor is None or not is_constant(tensor) or tensor.dtype is not x.dtype:
        return None
    values = tensor.values()
    if values.ndim > len(shape):
        return None
    aligned = values.reshape((1,) * (len(shape) - values.ndim) + values.shape)
    if any(n != 1 for i, n in enumerate(aligned.shape) if i not in axes):
        return None
    wanted = [shape[i] if i in axes else 1 for i in range(len(shape))]
    return np.broadcast_to(aligned, wanted).reshape([shape[a] for a in axes])


def absorb_over_axes(graph: Graph, norm: Node, axes: Shape, op_type: str, port: int) -> None:
    """Fuse a constant factor or summand of a norm's result into an input of the norm."""
    x, result = norm.inputs[0], norm.outputs[0]
    reader = graph.only_reader(result)
    if reader is None or not is_op(reader, op_type) or reader.outputs[0].spec != result.spec:
        return
    others = [t for t in reader.inputs if t is not result]
    values = over_axes(others[0], x, axes) if x is not None and len(others) == 1 else None
    if values is None or others[0] is None:
        return
    constant = static(graph, f"{others[0].name}.{norm.name}", values, source=others[0].source)
    inputs = [*norm.inputs, None, None][:port]
    graph.set_inputs(norm, [*inputs, constant])
    merge(graph, norm, reader)
