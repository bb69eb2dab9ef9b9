"""Comparison of graphs in everything that they say."""

from __future__ import annotations

from typing import Any

from dovetail.ir import Graph, Param, Scalar, Tensor


def description(graph: Graph) -> dict[str, Any]:
    """Return all that a graph says, to be compared; the order of params has no meaning."""
    return {
        "name": graph.name,
        "tensors": [_tensor(t) for t in graph.tensors.values()],
        "nodes": [
            (
                node.name,
                node.package,
                node.op_type,
                [None if t is None else t.name for t in node.inputs],
                [t.name for t in node.outputs],
                {name: _param(param) for name, param in node.params.items()},
                node.sources,
            )
            for node in graph.nodes
        ],
        "grids": graph.source_encodings,
        "removed": graph.removed_sources,
    }


def _tensor(tensor: Tensor) -> tuple[Any, ...]:
    data = None if tensor.data is None else tensor.data.bytes.tobytes()
    return (
        tensor.name,
        tensor.dtype,
        tensor.shape,
        tensor.kind,
        tensor.encoding,
        None if tensor.encoding is None else tensor.encoding.kind,
        data,
        tensor.source,
        tensor.source_perm,
        tensor.dynamic,
        tensor.memory_type,
        tensor.data_format,
    )


def _param(param: Param) -> Any:
    if isinstance(param, Scalar):
        # as text: -0.0 is not 0.0, and NaN is NaN
        return param.dtype, type(param.value) is str, str(param.value)
    return _tensor(param)
