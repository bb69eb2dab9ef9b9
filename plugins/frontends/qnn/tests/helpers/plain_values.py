"""Values of graphs that the text of the files can have."""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType, Graph, Tensor, pack


def with_plain_values(graph: Graph) -> Graph:
    """Give params values that JSON can have, and narrow tensors values of their width.

    JSON has one NaN, and bools are 0 and 1.
    """
    for param in (p for node in graph.nodes for p in node.params.values()):
        if isinstance(param, Tensor):
            values = param.values()
            if param.dtype is DType.BOOL_8:
                values = values.view(np.uint8) % 2 == 1
            elif values.dtype.kind == "f":
                values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
            param.data = pack(values, param.dtype)
    for tensor in graph.tensors.values():
        narrow = None if tensor.encoding is None else tensor.encoding.bitwidth
        if tensor.kind.is_static and narrow is not None:
            low, high = tensor.dtype.stored_range(narrow)
            tensor.data = pack(np.clip(tensor.stored(), low, high), tensor.dtype)
    return graph
