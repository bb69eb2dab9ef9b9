"""Weights behind a flattening, with their columns put back in the order of the user's model.

Conversion lets them take flattened channels-last data as they lie. Scales for blocks of columns are
for the order of the user's model, and there is none for the other.
"""

from __future__ import annotations

from collections.abc import Callable

from dovetail.errors import QuantizationError
from dovetail.ir import Graph, Node, Tensor
from dovetail_opset import PACKAGE
from dovetail_opset.build import add, static
from dovetail_opset.passes import COLUMNS_LAST, COLUMNS_MOVED, DeadCode


def has_moved_columns(tensor: Tensor) -> bool:
    """Return whether a static tensor's columns are in another order than in the user's model."""
    return any(m in tensor.name and m not in tensor.source for m in (COLUMNS_LAST, COLUMNS_MOVED))


def put_columns_back(graph: Graph, weight: Tensor) -> Tensor:
    """Return weights in the user's order in the place of others; what they multiply is transposed.

    Args:
        graph: Changed.
        weight: Of a FullyConnected; its columns were moved.

    Raises:
        QuantizationError: It is not known how, or not where.
    """
    (layer, *others) = graph.consumers(weight)
    flat = layer.inputs[0]
    reshape = None if flat is None else graph.producer(flat)
    x = None if reshape is None or not _is(reshape, "Reshape") else reshape.inputs[0]
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
    """Put the columns back of all weights that are to get blocks of a size, if any are."""
    if size is not None:
        put_back_where(graph, lambda tensor: tensor.shape[-1] % size == 0)


def put_back_where(graph: Graph, is_blocked: Callable[[Tensor], bool]) -> None:
    """Put the columns back of all weights of which something holds."""
    for tensor in list(graph.tensors.values()):
        if tensor.kind.is_static and has_moved_columns(tensor) and is_blocked(tensor):
            put_columns_back(graph, tensor)


def _is(node: Node, op_type: str) -> bool:
    return node.package == PACKAGE.name and node.op_type == op_type
