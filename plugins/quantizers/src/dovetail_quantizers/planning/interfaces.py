"""Integers that the application gives or takes, and what they stand for in the model.

They stay integers for the application. Inside, a Cast tells what they stand for: to fixed-point
integers of the same bits, which is no work, and a Dequantize or Quantize makes the numbers between
them and the rest of the graph real until that is fixed-point itself.
"""

from __future__ import annotations

from collections.abc import Callable

from dovetail.ir import Graph, ScaleOffset, Spec
from dovetail_opset.build import add
from dovetail_opset.passes import DeadCode
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
    """Create integers that the application gives real in one place.

    Args:
        graph: Changed.
        found: Gets the fixed-point tensors.
        take: Takes out what makes them real elsewhere; is given what quantizes them.
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
        encoded = _encoded(spec)
        take(QdqPattern(real, encoded.dtype, encoded.encoding, ends), encoded)


def open_integers(graph: Graph, found: Overrides) -> None:
    """Create one Quantize of what makes integers that are not made real again.

    Args:
        graph: Changed.
        found: Gets the encodings, and the fixed-point tensors.
    """
    for node in graph.nodes:
        made = integers_made(graph, node)
        if made is None or not is_quantized(made[0]):
            continue
        x, spec, integers = made
        maker = graph.producer(integers)
        assert maker is not None
        graph.remove_node(maker)
        stored = add(
            graph, "Quantize", [x], name=f"{integers.name}.stored", spec=spec, sources=node.sources
        )
        stored.source, stored.source_perm = integers.source, integers.source_perm
        add(graph, "Cast", [stored], name=maker.name, outputs=integers, sources=maker.sources)
        found.interfaces.append(stored)
        found.covered.add(x.source)
        encoded = _encoded(spec)
        if found.encodings.setdefault(x, encoded) is encoded:
            text = f"of integers that are not made real again: {integers.dtype.name}"
            found.change(x, "encoding", text)
        DeadCode().run(graph)


def _encoded(spec: Spec) -> EncodingDecision:
    assert isinstance(spec.encoding, ScaleOffset)
    return EncodingDecision(*counted_from_lowest(spec.dtype, spec.encoding), GIVEN_BY_MODEL)
