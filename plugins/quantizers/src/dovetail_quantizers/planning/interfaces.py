"""Integer and fixed-point inputs and outputs of a graph that is float.

They stay what they are for the application. Inside the graph, a Cast gives integers a fixed-point
type with the same bits, at no cost. A Dequantize or Quantize connects them to the rest of the graph
while it is float.
"""

from __future__ import annotations

from collections.abc import Callable

from dovetail.ir import DType, Graph, ScaleOffset, Spec, Tensor
from dovetail_opset import is_op
from dovetail_opset.build import add
from dovetail_quantizers.grid import storage_type
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.overrides import (
    GIVEN_BY_MODEL,
    STATED_BY_MODEL,
    Overrides,
    change_of,
)
from dovetail_quantizers.planning.precision import Float
from dovetail_quantizers.planning.qdq_patterns import (
    MOVERS,
    QdqPattern,
    counted_from_lowest,
    integers_given,
    integers_made,
    moved,
)
from dovetail_quantizers.planning.recipe import Recipe
from dovetail_quantizers.planning.rules import is_quantized


def open_inputs(
    graph: Graph, found: Overrides, take: Callable[[QdqPattern, EncodingDecision], None]
) -> None:
    """Dequantize each integer or fixed-point input at one point of the graph.

    Args:
        graph: Changed.
        found: Collects the fixed-point tensors.
        take: Removes the other ops that dequantize them; called with the quantizing pattern.
    """
    for x in graph.inputs:
        given = integers_given(graph, x)
        if given is None:
            continue
        spec, ends = given
        (first, *_) = (end.node for end in ends)
        stored = x
        if x.spec != spec:
            name = f"{x.name}.stored"
            stored = add(graph, "Cast", [x], name=name, spec=spec, sources=first.sources)
        real = add(graph, "Dequantize", [stored], name=f"{x.name}.real", sources=first.sources)
        for tensor in (stored, real):
            tensor.source, tensor.source_perm = x.source, x.source_perm
        found.interfaces.append(stored)
        encoded = encoded_as(spec, x)
        take(QdqPattern(real, encoded.dtype, encoded.encoding, ends, encoded.why), encoded)


def open_integers(
    graph: Graph,
    found: Overrides,
    encoding_of: Callable[[Tensor, EncodingDecision], EncodingDecision | None],
) -> None:
    """Take the encodings of tensors whose integers the application gets.

    Args:
        graph: Not changed, except for the names of fixed-point tensors.
        found: Collects the encodings and the fixed-point tensors.
        encoding_of: Returns the encoding of a quantized tensor, given that of its integers; None if
            other consumers need what the integers clip.
    """
    for node in graph.nodes:
        integers, x = integers_made(graph, node), node.inputs[0] if node.inputs else None
        if integers is None or x is None or not is_quantized(x):
            continue
        stored = node.outputs[0]
        if integers.dtype.is_int:
            stored.source = integers.source
        found.interfaces += moved(graph, stored)
        found.covered.add(x.source)
        encoded = encoding_of(x, encoded_as(stored.spec, integers))
        if encoded is not None and found.encodings.setdefault(x, encoded) is encoded:
            text = f"of integers that are not dequantized: {integers.dtype.name}"
            found.change(x, change_of(encoded), text)


def keep_float16(graph: Graph, found: Overrides) -> None:
    """Let inputs and outputs that a Cast connects to the float32 graph stay float16.

    Args:
        graph: Not changed. Other nodes may move their values on the way to the Cast.
        found: Collects them.
    """
    narrow, wide = DType.FLOAT_16, DType.FLOAT_32
    for node in graph.nodes:
        if not is_op(node, "Cast") or (x := node.inputs[0]) is None:
            continue
        types, path = (x.dtype, node.outputs[0].dtype), [node]
        if types == (narrow, wide):
            while (maker := graph.producer(x)) is not None and is_op(maker, *MOVERS):
                path.append(maker)
                x = maker.inputs[0] or x
            if graph.is_input(x):
                found.float_inputs[x] = 16
                found.floats |= dict.fromkeys(path, Float(16, STATED_BY_MODEL))
        elif types == (wide, narrow):
            while (reader := graph.only_reader(path[-1].outputs[0])) is not None:
                path.append(reader)
            moves = all(is_op(mover, *MOVERS) for mover in path[1:])
            if moves and graph.is_output(path[-1].outputs[0]):
                found.floats |= dict.fromkeys(path, Float(16, STATED_BY_MODEL))


def take_type_of_activations(found: Overrides, recipe: Recipe) -> None:
    """Let the graph compute fixed-point inputs and outputs in the type of other activations.

    They keep their own encoding, which a Convert connects to one of the same range.

    Args:
        found: Encodings are replaced where the type has a grid of the same range.
        recipe: The recipe of activations.
    """
    dtype = storage_type(recipe.bitwidth, recipe.scheme)
    sources = {stored.source for stored in found.interfaces}
    for tensor, given in found.encodings.items():
        if given.why == STATED_BY_MODEL and tensor.source in sources:
            found.encodings[tensor] = given.spread_over(dtype) or given


def encoded_as(spec: Spec, integers: Tensor) -> EncodingDecision:
    """Return the encoding of integers that the model states, with a single scale.

    Args:
        spec: Their type and encoding.
        integers: They, as the application has them; if these are fixed-point, nothing is said about
            the rest of the model.
    """
    assert isinstance(spec.encoding, ScaleOffset)
    why = STATED_BY_MODEL if integers.dtype.is_fixed_point else GIVEN_BY_MODEL
    return EncodingDecision(*counted_from_lowest(spec.dtype, spec.encoding), why)
