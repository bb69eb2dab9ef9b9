"""Types of 64 bits that become types of 32 bits before a graph is quantized."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from dovetail.errors import counted
from dovetail.ir import DType, Graph, run_passes
from dovetail.quantization import QuantizationOptions
from dovetail_opset.passes import NARROWER, NarrowTypes, RemoveIdentities


def narrow_floats(graph: Graph, options: QuantizationOptions) -> list[str]:
    """Narrow float64 tensors to float32, which is quantized; return notes.

    Args:
        graph: Changed in place. Inputs and outputs that keep their types get a Cast.
        options: The user's options.
    """
    wide = (DType.FLOAT_64,)
    ends = [t for t in (*graph.inputs, *graph.outputs) if t.dtype in wide]
    names = [t.name for t in ends if not options.preserves(t.name)]
    why = "since only floats of up to 32 bits are quantized"
    notes = narrow_types(graph, wide, why, interfaces=names)
    left = [
        t
        for t in graph.tensors.values()
        if t.dtype in wide and not (t in ends and options.preserves(t.name))
    ]
    if left:
        listed = ", ".join(f"'{tensor.source}'" for tensor in left)
        notes.append(
            f"graph '{graph.name}': tensors of FLOAT_64 whose nodes need the type are not "
            f"quantized: {listed}"
        )
    return notes


def narrow_types(
    graph: Graph, types: Collection[DType], why: str, *, interfaces: Collection[str] = ()
) -> list[str]:
    """Narrow types of 64 bits to those of 32 bits; return notes.

    Args:
        graph: Changed in place.
        types: The types, keys of `NARROWER`.
        why: The reason, for the notes.
        interfaces: Names of inputs and outputs of the graph that become narrow, too. Others keep
            their types and get a Cast.
    """
    before = Counter(t.dtype for t in graph.tensors.values() if t.dtype in types)
    if before:
        narrow = NarrowTypes(types, interfaces=interfaces, cast_inputs=True)
        run_passes(graph, (narrow, RemoveIdentities()))
    left = Counter(t.dtype for t in graph.tensors.values() if t.dtype in types)
    return [
        f"graph '{graph.name}': {counted(count, 'tensor')} of {dtype.name} narrowed to "
        f"{NARROWER[dtype].name}, {why}"
        for dtype, count in (before - left).items()
    ]
