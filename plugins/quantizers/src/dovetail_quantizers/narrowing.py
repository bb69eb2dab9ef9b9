"""Types of 64 bits that become types of 32 bits before a graph is quantized."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from dovetail.ir import DType, Graph, Tensor, run_passes
from dovetail_opset.build import add
from dovetail_opset.passes import NARROWER, NarrowTypes, RemoveIdentities


def narrow_floats(graph: Graph, *, keeps_interfaces: bool) -> list[str]:
    """Narrow float64 tensors to float32, which is quantized; return notes.

    Args:
        graph: Changed in place.
        keeps_interfaces: Whether inputs and outputs of the graph keep their types, next to a Cast.
    """
    wide = (DType.FLOAT_64,)
    if keeps_interfaces:
        _put_casts(graph, wide)
    why = "since only floats of up to 32 bits are quantized"
    notes = narrow_types(graph, wide, why, interfaces=not keeps_interfaces)
    kept = (*graph.inputs, *graph.outputs) if keeps_interfaces else ()
    left = [t for t in graph.tensors.values() if t.dtype in wide and t not in kept]
    if left:
        names = ", ".join(f"'{tensor.source}'" for tensor in left)
        notes.append(
            f"graph '{graph.name}': tensors of FLOAT_64 whose nodes need the type are not "
            f"quantized: {names}"
        )
    return notes


def _put_casts(graph: Graph, types: Collection[DType]) -> None:
    """Insert a Cast of the same type at each input and output of some types."""
    for tensor in (*graph.inputs, *graph.outputs):
        if tensor.dtype not in types:
            continue
        inner = Tensor(
            graph.fresh_name(f"{tensor.name}.inner"),
            tensor.dtype,
            tensor.shape,
            source=tensor.source,
            source_perm=tensor.source_perm,
        )
        graph.add_tensor(inner)
        graph.replace_uses(tensor, inner)
        producer = graph.producer(tensor)
        if producer is not None:
            outputs = [inner if t is tensor else t for t in producer.outputs]
            graph.set_outputs(producer, outputs)
        read, written = (tensor, inner) if producer is None else (inner, tensor)
        add(graph, "Cast", [read], name=f"{tensor.name}.cast", outputs=written, sources=())


def narrow_types(
    graph: Graph, types: Collection[DType], why: str, *, interfaces: bool = False
) -> list[str]:
    """Narrow types of 64 bits to those of 32 bits; return notes.

    Args:
        graph: Changed in place.
        types: The types, keys of `NARROWER`.
        why: The reason, for the notes.
        interfaces: Whether inputs and outputs of the graph become narrow too.
    """
    before = Counter(t.dtype for t in graph.tensors.values() if t.dtype in types)
    if before:
        run_passes(graph, (NarrowTypes(types, interfaces=interfaces), RemoveIdentities()))
    left = Counter(t.dtype for t in graph.tensors.values() if t.dtype in types)
    return [
        f"graph '{graph.name}': {count} tensors of {dtype.name} become {NARROWER[dtype].name}, "
        f"{why}"
        for dtype, count in (before - left).items()
    ]
