"""Integer inputs and outputs of a graph that represent real numbers.

They stay integers for the application. Inside the graph, a Cast gives them a fixed-point type with
the same bits, at no cost. A Dequantize or Quantize connects them to the rest of the graph while it
is float.
"""

from __future__ import annotations

from collections.abc import Callable

from dovetail.ir import Graph, ScaleOffset, Spec, Tensor
from dovetail_opset.build import add
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.overrides import GIVEN_BY_MODEL, Overrides
from dovetail_quantizers.planning.qdq_patterns import (
    QdqPattern,
    counted_from_lowest,
    integers_given,
    integers_made,
)
from dovetail_quantizers.planning.rules import is_quantized


def open_inputs(
    graph: Graph, found: Overrides, take: Callable[[QdqPattern, EncodingDecision], None]
) -> None:
    """Dequantize each integer input at one point of the graph.

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
        stored = add(graph, "Cast", [x], name=f"{x.name}.stored", spec=spec, sources=first.sources)
        real = add(graph, "Dequantize", [stored], name=f"{x.name}.real", sources=first.sources)
        for tensor in (stored, real):
            tensor.source, tensor.source_perm = x.source, x.source_perm
        found.interfaces.append(stored)
        encoded = encoded_as(spec)
        take(QdqPattern(real, encoded.dtype, encoded.encoding, ends), encoded)


def open_integers(
    graph: Graph,
    found: Overrides,
    encoding_of: Callable[[Tensor, EncodingDecision], EncodingDecision | None],
) -> None:
    """Take the encodings of tensors that are quantized and whose integers are plain ones.

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
        stored.source, stored.source_perm = integers.source, integers.source_perm
        found.interfaces.append(stored)
        found.covered.add(x.source)
        encoded = encoding_of(x, encoded_as(stored.spec))
        if encoded is not None and found.encodings.setdefault(x, encoded) is encoded:
            text = f"of integers that are not dequantized: {integers.dtype.name}"
            found.change(x, "encoding", text)


def encoded_as(spec: Spec) -> EncodingDecision:
    """Return the encoding of integers that the model states, with a single scale."""
    assert isinstance(spec.encoding, ScaleOffset)
    return EncodingDecision(*counted_from_lowest(spec.dtype, spec.encoding), GIVEN_BY_MODEL)
