"""Each node on the vendor's own integers: how far the vendor's result is from the definition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.vendor.summary import NodeResult
from dovetail.ir import Array, Graph, Tensor
from dovetail.ops import NodeView, simulate
from dovetail.ops.check import check_ops
from dovetail.ops.simulate import keeps_stored
from dovetail.plugins.ops import installed_ops
from dovetail_numpy.integer import DEFINITIONS


def compare(graph: Graph, theirs: Mapping[str, Array]) -> Iterator[NodeResult]:
    """Compute each quantized node from the vendor's integers.

    Args:
        graph: Quantized.
        theirs: The vendor's stored values by tensor, with a first axis of samples.

    Yields:
        The result of each node; without counts if the vendor's file lacks one of its tensors.
    """
    for view in check_ops(graph, installed_ops()).nodes:
        if view.is_quantized:
            yield _compare(view, theirs)


def _compare(view: NodeView, theirs: Mapping[str, Array]) -> NodeResult:
    node = view.node
    computed = [t for t in (*node.inputs, *node.outputs) if t is not None and not t.kind.is_static]
    types = [s.dtype.name for s in (*view.ins[:2], *view.outs[:1]) if s is not None]
    about = (node.name, node.op_type, tuple(types), _source(view))
    if any(tensor.name not in theirs for tensor in computed):
        return NodeResult(*about, (), 0.0)
    apart = np.concatenate(
        [
            (theirs[out.name][i].astype(np.int64) - ours).reshape(-1)
            for i in range(len(theirs[node.outputs[0].name]))
            for out, ours in zip(node.outputs, _ours(view, theirs, i), strict=True)
        ]
    )
    counts = np.bincount(np.abs(apart))
    return NodeResult(*about, tuple(counts.tolist()), float(apart.mean()))


def _source(view: NodeView) -> str:
    if DEFINITIONS.of(view) is not None:
        return "definition"
    schema, _ = view.definition
    return "copy" if keeps_stored(schema.domain, view.ins, view.outs) else "simulation"


def _ours(view: NodeView, theirs: Mapping[str, Array], sample: int) -> Any:
    ins = [_value(tensor, theirs, sample) for tensor in view.node.inputs]
    definition = DEFINITIONS.of(view)
    if definition is not None:
        return definition.compute(view, ins)
    return simulate(*view.definition, ins, view.ins, view.outs)


def _value(tensor: Tensor | None, theirs: Mapping[str, Array], sample: int) -> Array | None:
    if tensor is None:
        return None
    return tensor.stored() if tensor.kind.is_static else theirs[tensor.name][sample]
