"""The layout of a model's images, as far as its ops show it."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.ir import Graph, Node, Shape, Tensor, TensorKind
from dovetail_opset._package import is_op
from dovetail_opset.layouts import rule_of
from dovetail_opset.passes._moving import is_before_spatial
from dovetail_opset.passes._rewrite import first_input
from dovetail_opset.perms import is_to_first, is_to_last, perm_of, to_first, to_last


def image_ranks(graph: Graph) -> frozenset[int]:
    """Return the ranks of what spatial ops compute, to or from channels-first tensors.

    Args:
        graph: The graph, as a frontend of a channels-first format builds it.
    """
    return frozenset(
        len(node.outputs[0].shape)
        for node in graph.nodes
        if is_before_spatial(graph, node) or _is_spatial(node)
    )


def is_channels_last(graph: Graph, tensor: Tensor) -> bool:
    """Return whether an input or output is channels-last in the model itself.

    A network of TensorFlow, for example, transposes its image before the first convolution.
    """
    is_input = tensor.kind is TensorKind.APP_WRITE
    waiting, seen, found = [tensor], {tensor}, False
    while waiting:
        each = waiting.pop()
        for node in _neighbours(graph, each, is_input=is_input):
            if (perm := _moved_axes(node)) is not None:
                if (is_to_last if is_input else is_to_first)(perm):
                    return False  # to or from the channels-last values of a spatial op
                found |= (is_to_first if is_input else is_to_last)(perm)
            elif _is_spatial(node):
                found = True
            elif rule_of(node) is not None:
                more = node.outputs if is_input else node.inputs
                same = {t for t in more if t is not None and len(t.shape) == len(tensor.shape)}
                waiting += same - seen
                seen |= same
    return found


def _neighbours(graph: Graph, tensor: Tensor, *, is_input: bool) -> Iterable[Node]:
    if is_input:
        return graph.consumers(tensor)
    maker = graph.producer(tensor)
    return () if maker is None else (maker,)


def _is_spatial(node: Node) -> bool:
    """Return whether a node computes channels-last values of a channels-first model."""
    perm = node.outputs[0].source_perm
    is_last = perm is not None and is_to_last(perm)
    return is_last and rule_of(node) is None and _moved_axes(node) is None


def _moved_axes(node: Node) -> Shape | None:
    """Return the perm of a Transpose, or of a Reshape to or from channels-last."""
    if is_op(node, "Transpose"):
        return perm_of(node)
    if not is_op(node, "Reshape"):
        return None
    source, target = first_input(node).shape, node.outputs[0].shape
    for perm in (to_last(len(source)), to_first(len(source))) if len(source) > 2 else ():
        moved = [axis for axis in perm if source[axis] != 1]
        if moved == sorted(moved) and tuple(source[axis] for axis in perm) == target:
            return perm
    return None
