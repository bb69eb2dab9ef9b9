"""Parts of patterns that several passes look for, and the replacement of what matches."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeAlias

import numpy as np

from dovetail.ir import Array, Graph, Node, Shape, Tensor
from dovetail.ir.patterns import (
    GraphView,
    Match,
    Pattern,
    Products,
    any_number,
    commutative,
    constant_number,
    either,
    find,
    number,
    op,
    value,
)
from dovetail_opset._package import PACKAGE, is_op
from dovetail_opset._shapes import ints
from dovetail_opset.build import add, static
from dovetail_opset.ops.reduction import Reduction
from dovetail_opset.ops.unary import ElementWiseUnary, Unary
from dovetail_opset.passes._rewrite import bound, is_constant, is_float, is_inner, merge, sources_of
from dovetail_opset.passes.dead_code import DeadCode

Found: TypeAlias = Match[Tensor, Node]
# The numbers may differ by two roundings of a float32, which has 24 bits.
PRODUCTS = Products("ElementWiseMultiply", "ElementWiseDivide", near=2.0**-22)

# A value x times a number; the number is a factor or a divisor.
SCALED = either(
    commutative("ElementWiseMultiply", value("x"), any_number("factor")),
    op("ElementWiseDivide", value("x"), any_number("divisor")),
)


def factor_of(match: Found) -> float:
    """Return the factor of a match of `SCALED`, 0 for a division by 0."""
    divisor = constant_number(match.values.get("divisor"))
    if divisor is None:
        return constant_number(match.values.get("factor")) or 0.0
    return 1 / divisor if divisor else 0.0


def square(x: Pattern) -> Pattern:
    """Return the pattern of a value times itself, as a product or a power."""
    return either(op("ElementWisePower", x, number(2)), op("ElementWiseMultiply", x, x))


def with_epsilon(x: Pattern) -> Pattern:
    """Return the pattern of the sum of a value and an epsilon, a named number."""
    return commutative("ElementWiseAdd", x, any_number("epsilon"))


def root(x: Pattern) -> Pattern:
    """Return the pattern of a square root, as that op or a power."""
    return either(op("ElementWiseSquareRoot", x), op("ElementWisePower", x, number(0.5)))


def inverse_root(x: Pattern) -> Pattern:
    """Return the pattern of one over a square root, in any spelling."""
    return either(
        op("ElementWiseRsqrt", x),
        op("ElementWisePower", x, number(-0.5)),
        op("ElementWiseDivide", number(1), root(x)),
        op("ElementWiseUnary", root(x), where=_is_reciprocal),
    )


def _is_reciprocal(node: Node) -> bool:
    function = bound(node)
    return isinstance(function, ElementWiseUnary) and function.operation is Unary.RECIPROCAL


def kept_axes(node: Node | None) -> Shape | None:
    """Return the axes of a reduction in order; None if it does not keep them as 1."""
    found = bound(node)
    if not isinstance(found, Reduction) or not found.keep_dims:
        return None
    return tuple(sorted(ints(found.axes)))


def fuse_matches(graph: Graph, pattern: Pattern, fuse: Callable[[Graph, Found], bool]) -> bool:
    """Fuse what matches a pattern; return whether that changed the graph.

    Args:
        graph: The graph, changed in place.
        pattern: A pattern of the results to fuse.
        fuse: Fuses a match; returns whether this was possible.
    """
    if not pattern.may_occur({node.op_type for node in graph.nodes}):
        return False
    view, changed = GraphView(graph, PACKAGE.name), False
    for node in graph.nodes:
        for result in node.outputs[:1]:
            changed |= any(fuse(graph, match) for match in find(pattern, view, result))
    if changed:
        DeadCode().run(graph)
    return changed


def fuse(graph: Graph, match: Found, op_type: str, **params: Any) -> Node | None:
    """Replace a match by one node that reads its x; return the node, None if others need a part."""
    x, last = match.values["x"], match.nodes[-1]
    # a number of a higher rank than x would give the result one more dimension
    if last.outputs[0].spec != x.spec or not is_closed(graph, match.nodes, last):
        return None
    graph.remove_node(last)
    result = add(
        graph,
        op_type,
        [x],
        name=last.name,
        outputs=last.outputs[0],
        sources=sources_of(match.nodes),
        **params,
    )
    return graph.producer(result)


def fuse_norm(graph: Graph, match: Found, op_type: str, axes: Shape) -> bool:
    """Fuse a norm with its epsilon, gamma and beta, and constants after it as gamma and beta.

    Args:
        graph: The graph, changed in place.
        match: A match with an x and an epsilon, and perhaps with a gamma and a beta.
        op_type: The op of the norm.
        axes: The axes that it normalizes over.

    Returns:
        Whether gamma and beta are constants over the axes, and no other node needs a part of the
        match.
    """
    x, given = match.values["x"], [match.values.get(name) for name in ("gamma", "beta")]
    values = [over_axes(tensor, x, axes) for tensor in given]
    if any(t is not None and v is None for t, v in zip(given, values, strict=True)):
        return False
    epsilon = constant_number(match.values["epsilon"])
    norm = fuse(graph, match, op_type, axes=axes, epsilon=epsilon)
    if norm is None:
        return False
    for port, (factor, known) in enumerate(zip(given, values, strict=True), 1):
        if factor is not None and known is not None:
            _set_constant(graph, norm, port, known, factor)
    if given == [None, None]:
        _fuse_constant(graph, norm, axes, "ElementWiseMultiply", 1)
    if given[1] is None:
        _fuse_constant(graph, norm, axes, "ElementWiseAdd", 2)
    return True


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


def _fuse_constant(graph: Graph, norm: Node, axes: Shape, op_type: str, port: int) -> None:
    """Fuse a constant factor or summand of a norm's result into an input of the norm."""
    x, result = norm.inputs[0], norm.outputs[0]
    reader = graph.only_reader(result)
    if reader is None or not is_op(reader, op_type) or reader.outputs[0].spec != result.spec:
        return
    others = [t for t in reader.inputs if t is not result]
    values = over_axes(others[0], x, axes) if x is not None and len(others) == 1 else None
    if values is None or others[0] is None:
        return
    _set_constant(graph, norm, port, values, others[0])
    merge(graph, norm, reader)


def _set_constant(graph: Graph, norm: Node, port: int, values: Array, origin: Tensor) -> None:
    constant = static(graph, f"{origin.name}.{norm.name}", values, source=origin.source)
    graph.set_inputs(norm, [*[*norm.inputs, None, None][:port], constant])
