"""Products of integers followed by a scale: written as products of real numbers.

This is the form of onnxruntime's dynamic quantization: the integers of DynamicQuantizeLinear times
stored weights, cast to float, times both scales. If both factors are dequantized before the
product, the weights keep their grid, and the rest is an ordinary float product.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from onnx import TensorProto, helper

from dovetail.ir.patterns import commutative, either, op, value
from dovetail_onnx._attributes import Attributes
from dovetail_onnx._matching import Found, SourceView, replace_matches
from dovetail_onnx._source import SourceGraph, SourceNode
from dovetail_onnx._tensors import TensorReader

_PRODUCTS = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
# The axis of the weights that scales or zero points may differ along.
_CHANNELS = {"MatMulInteger": -1, "ConvInteger": 0}
# DequantizeLinear takes one scale for each slice along an axis from here on.
_OPSET = 13


def _to_float(cast: SourceNode) -> bool:
    return Attributes(cast.proto).integer("to", 0) == TensorProto.FLOAT


# Both scales multiply one after the other, or by their product.
_CAST = op("Cast", either(*map(op, _PRODUCTS)), where=_to_float)
_SCALED = either(
    commutative("Mul", _CAST, value("scales")),
    commutative("Mul", commutative("Mul", _CAST, value("first")), value("second")),
)


def fuse_integer_products(source: SourceGraph, reader: TensorReader) -> SourceGraph:
    """Return the graph with every such product as two DequantizeLinear and a real product."""
    return replace_matches(source, reader, _SCALED, _real)


def _scale_of(view: SourceView, product: SourceNode) -> str | None:
    """Return the scale of a node that quantizes data for a product by constants, or None."""
    maker = view.maker(product.inputs[0])
    if maker is None or maker.full_type != "DynamicQuantizeLinear" or len(maker.outputs) != 3:
        return None
    x, scale, zero = maker.outputs
    constants = product.inputs[1], *filter(None, product.inputs[3:])
    if product.inputs[0] != x or product.inputs[2:3] != (zero,):
        return None
    return scale if all(name in view.source.initializers for name in constants) else None


def _weight_scale(view: SourceView, match: Found, scale: str) -> str | None:
    """Return the factor of a match besides the scale of the data, or None."""
    factors = {match.values.get("first", ""), match.values.get("second", "")}
    if "scales" in match.values:
        both = view.maker(match.values["scales"])
        factors = set(both.inputs) if both is not None and both.full_type == "Mul" else set()
    return (factors - {scale}).pop() if scale in factors and len(factors) == 2 else None


def _fits(view: SourceView, product: SourceNode, scale: str) -> bool:
    """Return whether the weights' scale is one, or one for each column of a matrix."""
    proto = view.source.initializers.get(scale)
    if proto is None or proto.data_type != TensorProto.FLOAT:
        return False
    if math.prod(proto.dims) == 1:
        return len(proto.dims) <= 1
    weights = view.source.initializers[product.inputs[1]].dims
    # a vector has no columns, even if it has as many elements as there are scales
    is_matrix = product.op_type == "MatMulInteger" and len(weights) > 1
    return is_matrix and list(proto.dims) == list(weights[-1:])


def _real(view: SourceView, match: Found) -> Iterator[SourceNode]:
    """Yield the nodes that replace a product of integers, none if it is not scaled in this way."""
    product, last = match.nodes[0], match.nodes[-1]
    scale = _scale_of(view, product) if 2 <= len(product.inputs) <= 4 else None
    weight = None if scale is None else _weight_scale(view, match, scale)
    if scale is None or weight is None or not _fits(view, product, weight):
        return
    sources = tuple(node.name for node in match.nodes)
    x, w, *zeros = product.inputs
    reals = []
    for stem, stored, factor, zero in (
        ("x", x, scale, zeros[0] if zeros else ""),
        ("w", w, weight, zeros[1] if len(zeros) > 1 else ""),
    ):
        name = view.fresh(f"{product.name}.real_{stem}")
        inputs = (stored, factor, zero) if zero else (stored, factor)
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
