"""Graphs whose dynamically quantized activations are multiplied as bytes, for a plan.

Models that quantize their activations when they run take the minimum and maximum of a tensor,
divide by a scale, round, and multiply ((q - zero) * scale) by constant weights, which were bytes,
too. The nodes that do so become `dynamic_ops`. The bytes of the weights are recovered: their real
numbers are the same bit by bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from dovetail.ir import Array, DataFormat, DType, Node, Scalar, Tensor, TensorKind
from dovetail.ir.patterns import GraphView, Match, Pattern, either, find, number, op, value
from dovetail.ir.storage import DeferredBlob
from dovetail.ops import CheckedGraph, NodeView, OpSchema, matched_node
from dovetail.runtime.plan import Rewriting
from dovetail_onednn._library import library
from dovetail_onednn.dynamic_ops import PACKAGE
from dovetail_onednn.known_answer import Kind, is_right
from dovetail_onednn.weight_levels import levels_of
from dovetail_opset import STANDARD

_DATA, _WEIGHTS, _BIAS = 0, 1, 2  # inputs of a product
_LONGEST = 1 << 15  # terms of a sum: products of 8 bits by 9 and their sum fit 32
_BYTES = (0.0, 255.0)
Found = Match[Tensor, Node]


def with_dynamic_products(graph: CheckedGraph, cast: OpSchema) -> CheckedGraph:
    """Return a graph with `dynamic_ops` where it quantizes activations for products.

    Args:
        graph: The graph; it is returned as it is if it has no such products.
        cast: The op that converts numbers between types.
    """
    view = GraphView(graph, STANDARD)
    found = {
        each.node: match for each in graph.nodes if (match := _dequantized(view, each)) is not None
    }
    if not found or not (library().has_vnni and is_right(Kind.INTEGER, strict=False)):
        return graph
    return _Dynamic(graph, cast, view).run(found)


class _Dynamic(Rewriting):
    """A graph with `dynamic_ops` while it is made."""

    def __init__(self, old: CheckedGraph, schema: OpSchema, view: GraphView) -> None:
        super().__init__(old, schema)
        self._view = view
        self._wholes: dict[Tensor, Tensor] = {}  # the zero points as products read them
        self._stored: dict[tuple[Tensor, int], tuple[Tensor, Tensor, int] | None] = {}
        self._unneeded: set[Node] = set()  # if nothing else reads what they write

    def run(self, products: dict[Node, Found]) -> CheckedGraph:
        made = {
            node: new
            for node, match in products.items()
            if (new := self._product(self.old.view(node), match)) is not None
        }
        if not made:
            return self.old
        starts = self._quantizations(dict.fromkeys(products[node].values["q"] for node in made))
        kept = self._needed(made, starts)
        for view in self.old.nodes:
            node = view.node
            for quantization in starts.get(node, ()):
                self._add(quantization)
            if node in made:
                zero = products[node].values["zero"]
                if not self.has(whole := self._wholes[zero]):
                    self.cast(zero, whole)
                self._add(made[node])
            elif node in kept:
                self.add(node, node.inputs, node.outputs, view)
        return self.result()

    def _needed(self, made: Mapping[Node, Node], starts: Mapping[Node, list[Node]]) -> set[Node]:
        """Return the nodes that stay: those of matches only if something else reads them."""
        replaced = {t for nodes in starts.values() for node in nodes for t in node.outputs}
        kept: set[Node] = set()
        read: set[Tensor | None] = set()
        for view in reversed(self.old.nodes):
            node = view.node
            if node in made:
                read.update(made[node].inputs)
            elif outputs := [t for t in node.outputs if t not in replaced]:
                is_read = any(self.old.is_visible(t) or t in read for t in outputs)
                if is_read or node not in self._unneeded:
                    kept.add(node)
                    read.update(node.inputs)
            read.update(t for start in starts.get(node, ()) for t in start.inputs)
        return kept

    def _product(self, view: NodeView, match: Found) -> Node | None:
        """Return the node that replaces a product; None if its weights are not on a grid."""
        node, values = view.node, match.values
        weights = node.inputs[_WEIGHTS]
        if weights is None:
            raise AssertionError(f"{node.where} lacks weights")
        key = weights, _units_axis(view)
        if key not in self._stored:
            self._stored[key] = self._stored_weights(*key)
        if (stored := self._stored[key]) is None:
            return None
        self._unneeded.update(match.nodes)
        if (zero := values["zero"]) not in self._wholes:
            self._wholes[zero] = self.fresh(f"{zero.name}.whole", zero, DType.INT_32)
        start = values["q"], values["scale"], self._wholes[zero]
        inputs = [*start, *stored[:2], *node.inputs[_BIAS:]]
        return Node(
            node.name,
            PACKAGE.name,
            "DynamicMatMul",
            inputs,
            node.outputs,
            {"offset": Scalar(DType.INT_32, stored[2])},
            sources=_sources((*match.nodes, node)),
        )

    def _stored_weights(self, weights: Tensor, axis: int) -> tuple[Tensor, Tensor, int] | None:
        """Return the bytes of weights, (depth, units), their scales and their offset, or None."""
        levels = levels_of(_columns(weights.values(), axis))
        if weights.data is not None:
            weights.data.release()
        if levels is None:
            return None

        def stored() -> Array:
            return np.ascontiguousarray(levels.bytes(_columns(weights.values(), axis)))

        count, units = math.prod(weights.shape), weights.shape[axis]
        data = DeferredBlob(count, stored, weights.data)
        shape = (count // units, units)
        name = self.fresh(f"{weights.name}.bytes{axis}", weights, DType.INT_8).name
        matrix = Tensor(name, DType.INT_8, shape, TensorKind.STATIC, data=data)
        scales = self.fresh(f"{name}.scales", weights, DType.FLOAT_32).name
        return matrix, Tensor.static(scales, levels.scales), levels.offset

    def _quantizations(self, stored: Iterable[Tensor]) -> dict[Node, list[Node]]:
        """Return the nodes that replace quantizations, by the first node of each."""
        order = {view.node: i for i, view in enumerate(self.old.nodes)}
        found: dict[Node, list[Node]] = {}
        written: set[Tensor] = set()
        for q in stored:
            match, last = next(find(_QUANTIZED, self._view, q), None), self.old.producer(q)
            if match is None or last is None:
                continue
            x, scale, zero = (match.values[name] for name in ("x", "scale", "zero"))
            # another one may write the scale and the zero point; these bytes stay as they were
            if x.shape != q.shape or not written.isdisjoint((scale, zero)):
                continue
            written.update((scale, zero))
            self._unneeded.update(match.nodes)
            node = Node(
                last.name,
                PACKAGE.name,
                "DynamicQuantize",
                [x],
                [q, scale, zero, self._wholes[zero]],
                sources=_sources(match.nodes),
            )
            found.setdefault(min(match.nodes, key=order.__getitem__), []).append(node)
        return found

    def _add(self, node: Node) -> None:
        view, faults = matched_node(node, PACKAGE.schemas[node.op_type])
        if view is None:
            raise AssertionError(f"{node.where} does not match its op: {faults}")
        self.add(node, node.inputs, node.outputs, view)


def _is_bytes(node: Node) -> bool:
    return node.outputs[0].dtype is DType.UINT_8


def _is_whole(node: Node) -> bool:
    """Return whether a node reduces all axes of a float32 tensor."""
    return math.prod(node.outputs[0].shape) == 1 and node.outputs[0].dtype is DType.FLOAT_32


def _clips(node: Node) -> bool:
    limits = [node.params.get(name) for name in ("min_value", "max_value")]
    return all(
        isinstance(limit, Scalar) and limit.value == wanted
        for limit, wanted in zip(limits, _BYTES, strict=True)
    )


def _clipped(x: Pattern) -> Pattern:
    return op("Cast", op("ReluMinMax", x, where=_clips), where=_is_bytes)


def _either_order(op_type: str, x: Pattern, constant: float) -> Pattern:
    return either(op(op_type, x, number(constant)), op(op_type, number(constant), x))


_X, _ZERO = value("x"), value("zero")
_LOW = _either_order("ElementWiseMinimum", op("ReduceMin", _X, where=_is_whole), 0)
_HIGH = _either_order("ElementWiseMaximum", op("ReduceMax", _X, where=_is_whole), 0)
_EXTENT = value("extent", op("ElementWiseSubtract", _HIGH, _LOW))
_SCALE = value(
    "scale",
    op(
        "ElementWiseSelect",
        op("ElementWiseEqual", _EXTENT, number(0)),
        number(1),
        op("ElementWiseDivide", _EXTENT, number(_BYTES[1])),
    ),
)
_POINT = value(
    "zero",
    _clipped(
        op("ElementWiseRound", op("ElementWiseDivide", op("ElementWiseNeg", _LOW), value("scale")))
    ),
)
_QUANTIZED = _clipped(
    op(
        "ElementWiseAdd",
        op("ElementWiseRound", op("ElementWiseDivide", _X, _SCALE)),
        op("Cast", _POINT),
    )
)
_DEQUANTIZED = op(
    "ElementWiseMultiply",
    op("ElementWiseSubtract", op("Cast", value("q")), op("Cast", _ZERO)),
    value("scale"),
)


def _dequantized(view: GraphView, product: NodeView) -> Found | None:
    """Return how the activations of a product are dequantized, or None."""
    if product.is_opaque or product.is_quantized or not _multiplies_one_matrix(product):
        return None
    x = product.node.inputs[_DATA]
    match = None if x is None else next(find(_DEQUANTIZED, view, x), None)
    if x is None or match is None:
        return None
    q, zero, scale = (match.values[name] for name in ("q", "zero", "scale"))
    fits = (
        (q.dtype, zero.dtype, scale.dtype) == (DType.UINT_8, DType.UINT_8, DType.FLOAT_32)
        and math.prod(zero.shape) == math.prod(scale.shape) == 1
        and q.shape == x.shape
    )
    return match if fits else None


def _multiplies_one_matrix(view: NodeView) -> bool:
    """Return whether a node is a product by one float matrix, of sums of bytes that fit 32 bits."""
    if (view.package, view.op_type) not in ((STANDARD, "MatMul"), (STANDARD, "FullyConnected")):
        return False
    weights, tensor, result = view.spec(_WEIGHTS), view.node.inputs[_WEIGHTS], view.outs[0]
    return (
        tensor is not None
        and tensor.kind is TensorKind.STATIC
        and tensor.data_format is DataFormat.DENSE
        and all(spec is None or spec.dtype is DType.FLOAT_32 for spec in (*view.ins, result))
        and math.prod(weights.shape[:-2]) == 1
        and not (view.op_type == "MatMul" and view.op.transpose_in0)
        and 0 not in (*weights.shape, *result.shape)
        and math.prod(weights.shape) <= _LONGEST * result.shape[-1]
    )


def _units_axis(view: NodeView) -> int:
    """Return the axis of the weights of a product that its columns are along."""
    rank = len(view.spec(_WEIGHTS).shape)
    if view.op_type == "FullyConnected":
        return 0
    return rank - 2 if view.op.transpose_in1 else rank - 1


def _columns(weights: Array, axis: int) -> Array:
    """Return weights as (depth, units)."""
    matrix = weights.reshape(weights.shape[-2:])
    return matrix if axis == weights.ndim - 1 else matrix.T


def _sources(nodes: Iterable[Node]) -> Iterator[str]:
    return iter(dict.fromkeys(source for node in nodes for source in node.sources))
