"""Weights after a flattening, with their columns in the order of the user's model.

Conversion reorders their columns for flattened channels-last data. Scales of blocks of columns only
exist for the order of the user's model.
"""

from __future__ import annotations

from collections.abc import Callable

from dovetail.errors import QuantizationError
from dovetail.ir import Graph, Tensor
from dovetail_opset import is_op
from dovetail_opset.build import add, static
from dovetail_opset.passes import COLUMNS_LAST, COLUMNS_MOVED, DeadCode


def has_moved_columns(tensor: Tensor) -> bool:
    """Return whether conversion reordered the columns of a static tensor."""
    return any(m in tensor.name and m not in tensor.source for m in (COLUMNS_LAST, COLUMNS_MOVED))


def put_columns_back(graph: Graph, weight: Tensor) -> Tensor:
    """Replace weights by weights in the user's order, transpose their input, and return them.

    Args:
        graph: Changed.
        weight: Weights of a FullyConnected with reordered columns.

    Raises:
        QuantizationError: The order or the node to change is unknown.
    """
    (layer, *others) = graph.consumers(weight)
    flat = layer.inputs[0]
    reshape = None if flat is None else graph.producer(flat)
    x = None if reshape is None or not is_op(reshape, "Reshape") else reshape.inputs[0]
    if others or flat is None or x is None or COLUMNS_LAST not in weight.name:
        raise QuantizationError(
            "the blocks are for another order of the columns, which conversion changed",
            where=f"tensor '{weight.source}'",
            hint="use scales per channel, or remove the entry",
        )
    rank = len(x.shape)
    first = (0, rank - 1, *range(1, rank - 1))
    turned = add(graph, "Transpose", [x], name=f"{flat.name}.turned", perm=first, sources=())
    again = add(graph, "Reshape", [turned], name=f"{flat.name}.again", spec=flat.spec, sources=())
    turned.source = again.source = flat.source
    spread = weight.values().reshape(-1, *x.shape[1:])
    moved = static(
        graph,
        weight.name.replace(COLUMNS_LAST, ""),
        spread.transpose(first).reshape(weight.shape),
        weight.dtype,
        source=weight.source,
        source_perm=weight.source_perm,
    )
    graph.set_inputs(layer, [again, moved, *layer.inputs[2:]])
    DeadCode().run(graph)
    return moved


def put_back_for_blocks(graph: Graph, size: int | None) -> None:
    """Restore the columns of all weights that get blocks of a size."""
    if size is not None:
        put_back_where(graph, lambda tensor: tensor.shape[-1] % size == 0)


def put_back_where(graph: Graph, is_blocked: Callable[[Tensor], bool]) -> None:
    """Restore the columns of all weights with some property."""
    for tensor in list(graph.tensors.values()):
        if tensor.kind.is_static and has_moved_columns(tensor) and is_blocked(tensor):
            put_columns_back(graph, tensor)
