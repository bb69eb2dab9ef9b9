"""Recognition of root mean square normalization written in small ops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.ir import Array, Graph, Node, Shape, Tensor
from dovetail.ops import bind_node
from dovetail_opset._package import is_op, schema_of
from dovetail_opset.build import add, static
from dovetail_opset.ops.unary import ElementWiseUnary, Unary
from dovetail_opset.passes._patterns import (
    absorb_over_axes,
    is_closed,
    is_square,
    maker,
    mean_axes,
    one_number,
    over_axes,
    with_number,
)
from dovetail_opset.passes._rewrite import first_input
from dovetail_opset.passes.dead_code import DeadCode


@dataclass(slots=True)
class _Match:
    """The parts of a recognized normalization; `nodes` grows along the data flow."""

    x: Tensor
    axes: Shape
    nodes: list[Node]
    epsilon: float = 0.0
    gamma: Array | None = None
    gamma_source: Tensor | None = None

    @property
    def result(self) -> Tensor:
        """The output of the last node."""
        return self.nodes[-1].outputs[0]


@dataclass(frozen=True, slots=True)
class FuseRmsNorm:
    """Fuse x / sqrt(mean of x * x + epsilon) * gamma + beta to RmsNorm.

    The square is a product or a power; the root divides, or its inverse multiplies: Rsqrt, a power
    of -0.5, 1 over the root or its reciprocal. gamma, a constant over the axes, multiplies x, the
    inverse root or the result; gamma and beta may be missing. Patterns that center x first are
    LayerNorm, which fuse-layer-norm handles before.
    """

    name: str = "fuse-rms-norm"

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        changed = False
        for node in graph.nodes:
            if is_op(node, "ReduceMean") and (match := _matched(graph, node)) is not None:
                changed |= _fuse(graph, match)
        if changed:
            DeadCode().run(graph)
        return changed


def _matched(graph: Graph, mean: Node) -> _Match | None:
    square, axes = graph.producer(first_input(mean)), mean_axes(mean)
    x = None if square is None else square.inputs[0]
    if square is None or axes is None or x is None or not is_square(square, x):
        return None
    match = _Match(x, axes, [square, mean])
    plus = graph.only_reader(match.result)
    epsilon = with_number(plus) if plus is not None and is_op(plus, "ElementWiseAdd") else None
    if plus is None or epsilon is None:
        return None
    match.nodes.append(plus)
    match.epsilon = epsilon[1]
    return match if _divides(graph, match) else None


def _divides(graph: Graph, match: _Match) -> bool:
    """Follow the root to where it divides x, or its inverse multiplies x."""
    root = graph.only_reader(match.result)
    if root is None:
        return False
    match.nodes.append(root)
    if _is_power(root, -0.5) or is_op(root, "ElementWiseRsqrt"):
        return _multiplies(graph, match)
    if not (_is_power(root, 0.5) or is_op(root, "ElementWiseSquareRoot")):
        return False
    division = graph.only_reader(match.result)
    if division is None:
        return False
    divisor = match.result
    match.nodes.append(division)
    if _is_reciprocal(division):
        return _multiplies(graph, match)
    if not is_op(division, "ElementWiseDivide") or division.inputs[1] is not divisor:
        return False
    if one_number(division.inputs[0]) == 1:
        return _multiplies(graph, match)
    return _is_x(graph, match, division.inputs[0])


def _multiplies(graph: Graph, match: _Match) -> bool:
    """Follow the inverse of the root to where it multiplies x."""
    product = graph.only_reader(match.result)
    if product is None or not is_op(product, "ElementWiseMultiply"):
        return False
    other = _other(product, match.result)
    match.nodes.append(product)
    if not _takes_gamma(match, other):
        return _is_x(graph, match, other)
    product = graph.only_reader(match.result)
    if product is None or not is_op(product, "ElementWiseMultiply"):
        return False
    other = _other(product, match.result)
    match.nodes.append(product)
    return other is match.x


def _is_x(graph: Graph, match: _Match, tensor: Tensor | None) -> bool:
    """Return whether a tensor is x, or x times a gamma, which is then recorded."""
    if tensor is match.x:
        return True
    product = maker(graph, tensor, "ElementWiseMultiply")
    if product is None or match.gamma is not None:
        return False
    match.nodes.insert(0, product)
    return match.x in product.inputs and _takes_gamma(match, _other(product, match.x))


def _takes_gamma(match: _Match, tensor: Tensor | None) -> bool:
    match.gamma = over_axes(tensor, match.x, match.axes)
    match.gamma_source = None if match.gamma is None else tensor
    return match.gamma is not None


def _other(node: Node, tensor: Tensor) -> Tensor | None:
    return node.inputs[1] if node.inputs[0] is tensor else node.inputs[0]


def _is_power(node: Node, exponent: float) -> bool:
    return is_op(node, "ElementWisePower") and one_number(node.inputs[1]) == exponent


def _is_reciprocal(node: Node) -> bool:
    schema = schema_of(node)
    if schema is None or not is_op(node, "ElementWiseUnary"):
        return False
    op = bind_node(schema, node)
    return isinstance(op, ElementWiseUnary) and op.operation is Unary.RECIPROCAL


def _fuse(graph: Graph, match: _Match) -> bool:
    last, x = match.nodes[-1], match.x
    if not is_closed(graph, match.nodes, last) or last.outputs[0].spec != x.spec:
        return False
    graph.remove_node(last)
    target = add(
        graph,
        "RmsNorm",
        list(_inputs(graph, match, last.name)),
        name=last.name,
        outputs=last.outputs[0],
        sources=dict.fromkeys(s for node in match.nodes for s in node.sources),
        axes=match.axes,
        epsilon=match.epsilon,
    )
    norm = graph.producer(target)
    if norm is not None:
        if match.gamma is None:
            absorb_over_axes(graph, norm, match.axes, "ElementWiseMultiply", 1)
        absorb_over_axes(graph, norm, match.axes, "ElementWiseAdd", 2)
    return True


def _inputs(graph: Graph, match: _Match, name: str) -> Iterator[Tensor]:
    yield match.x
    if match.gamma is not None and match.gamma_source is not None:
        source = match.gamma_source
        yield static(graph, f"{source.name}.{name}", match.gamma, source=source.source)
