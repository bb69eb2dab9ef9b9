"""Products of integers followed by a scale: written as products of real numbers.

This is the form of onnxruntime's dynamic quantization: the integers of DynamicQuantizeLinear times
stored weights, cast to float, times both scales. If both factors are dequantized before the
product, the weights keep their grid, and the rest is an ordinary float product.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from onnx import TensorProto, helper

from dovetail_onnx._attributes import Attributes
from dovetail_onnx._fusion import still_read
from dovetail_onnx._source import SourceGraph, SourceNode

_PRODUCTS = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
# The axis of the weights that scales or zero points may differ along.
_CHANNELS = {"MatMulInteger": -1, "ConvInteger": 0}
# DequantizeLinear takes one scale for each slice along an axis from here on.
_OPSET = 13


@dataclass(frozen=True, slots=True)
class _Match:
    """A product, the cast and multiplications after it, and the scales of both factors."""

    product: SourceNode
    behind: tuple[SourceNode, ...]
    scales: tuple[str, str]

    @property
    def names(self) -> set[str]:
        return {self.product.name, *(node.name for node in self.behind)}


def fuse_integer_products(source: SourceGraph) -> SourceGraph:
    """Return the graph with every such product as two DequantizeLinear and a real product."""
    if not any(node.op_type in _PRODUCTS for node in source.nodes):
        return source
    matcher = _Matcher(source)
    gone: set[str] = set()
    made: dict[str, list[SourceNode]] = {}
    for node in source.nodes:
        match = matcher.match(node)
        if match is not None and gone.isdisjoint(match.names):
            gone |= match.names
            made[match.behind[-1].name] = list(_real(match, matcher))
    nodes: list[SourceNode] = []
    for node in source.nodes:
        nodes += made.get(node.name, [] if node.name in gone else [node])
    return replace(source, nodes=still_read(nodes, source))


class _Matcher:
    def __init__(self, source: SourceGraph) -> None:
        self._initializers = source.initializers
        self._outputs = set(source.outputs)
        self._makers = {name: node for node in source.nodes for name in node.outputs}
        self._names = set(source.names())
        self._readers: dict[str, list[SourceNode]] = defaultdict(list)
        for node in source.nodes:
            for name in node.reads:
                self._readers[name].append(node)

    def match(self, node: SourceNode) -> _Match | None:
        """Return the nodes around a product of integers; None if it is not scaled in this way."""
        if node.full_type not in _PRODUCTS or not 2 <= len(node.inputs) <= 4:
            return None
        scale = self._scale_of(node)
        cast = self._only_reader(node)
        if scale is None or cast is None or cast.full_type != "Cast":
            return None
        if Attributes(cast.proto).integer("to", 0) != TensorProto.FLOAT:
            return None
        return self._scaled(node, cast, scale)

    def fresh(self, stem: str) -> str:
        """Return a name that nothing in the model has."""
        name = stem
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name

    def _scale_of(self, product: SourceNode) -> str | None:
        """Return the scale of a node that quantizes data for a product by constants, or None."""
        maker = self._makers.get(product.inputs[0])
        if maker is None or maker.full_type != "DynamicQuantizeLinear" or len(maker.outputs) != 3:
            return None
        x, scale, zero = maker.outputs
        constants = product.inputs[1], *filter(None, product.inputs[3:])
        if product.inputs[0] != x or product.inputs[2:3] != (zero,):
            return None
        return scale if all(name in self._initializers for name in constants) else None

    def _scaled(self, product: SourceNode, cast: SourceNode, scale: str) -> _Match | None:
        """Follow the multiplication by both scales, one after the other or by their product."""
        first = self._multiplication(cast)
        if first is None:
            return None
        factor = _other(first, cast.outputs[0])
        both = self._makers.get(factor)
        if both is not None and both.full_type == "Mul" and scale in both.inputs:
            weight = _other(both, scale)
            found = _Match(product, (cast, first), (scale, weight))
            return found if self._fits(product, weight) else None
        second = self._multiplication(first)
        if second is None:
            return None
        factors = {factor, _other(second, first.outputs[0])}
        if scale not in factors or len(factors) != 2:
            return None
        (weight,) = factors - {scale}
        found = _Match(product, (cast, first, second), (scale, weight))
        return found if self._fits(product, weight) else None

    def _multiplication(self, node: SourceNode) -> SourceNode | None:
        reader = self._only_reader(node)
        if reader is None or reader.full_type != "Mul" or len(set(reader.inputs)) != 2:
            return None
        return reader

    def _fits(self, product: SourceNode, scale: str) -> bool:
        """Return whether the weights' scale is one, or one for each column of a matrix."""
        proto = self._initializers.get(scale)
        if proto is None or proto.data_type != TensorProto.FLOAT:
            return False
        if math.prod(proto.dims) == 1:
            return len(proto.dims) <= 1
        weights = self._initializers[product.inputs[1]].dims
        # a vector has no columns, even if it has as many elements as there are scales
        is_matrix = product.op_type == "MatMulInteger" and len(weights) > 1
        return is_matrix and list(proto.dims) == list(weights[-1:])

    def _only_reader(self, node: SourceNode) -> SourceNode | None:
        if len(node.outputs) != 1 or node.outputs[0] in self._outputs:
            return None
        readers = self._readers[node.outputs[0]]
        return readers[0] if len(readers) == 1 and len(readers[0].outputs) == 1 else None


def _other(node: SourceNode, name: str) -> str:
    return next((other for other in node.inputs if other != name), name)


def _real(match: _Match, matcher: _Matcher) -> Iterator[SourceNode]:
    """Return the nodes that replace a product of integers."""
    product, last = match.product, match.behind[-1]
    sources = tuple(dict.fromkeys((product.name, *(node.name for node in match.behind))))
    x, w, *zeros = product.inputs
    reals = []
    for stem, stored, scale, zero in (
        ("x", x, match.scales[0], zeros[0] if zeros else ""),
        ("w", w, match.scales[1], zeros[1] if len(zeros) > 1 else ""),
    ):
        name = matcher.fresh(f"{product.name}.real_{stem}")
        inputs = (stored, scale, zero) if zero else (stored, scale)
        reals.append(name)
        axis = _CHANNELS[product.op_type] if stem == "w" else None
        proto = helper.make_node("DequantizeLinear", inputs, [name], name=name, axis=axis)
        yield SourceNode(name, "DequantizeLinear", "", _OPSET, inputs, (name,), proto, sources)
    op_type = _PRODUCTS[product.op_type]
    proto = helper.make_node(op_type, reals, list(last.outputs), name=last.name)
    proto.attribute.extend(product.proto.attribute)
    yield SourceNode(
        last.name,
        op_type,
        "",
        max(product.opset, _OPSET),
        tuple(reals),
        last.outputs,
        proto,
        sources,
    )
