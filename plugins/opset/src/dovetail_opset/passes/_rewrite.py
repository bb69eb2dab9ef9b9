"""Small rewriting steps of several passes, and conditions for them."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.ir import (
    AxisScaleOffset,
    DType,
    Graph,
    Node,
    Param,
    ScaleOffset,
    Shape,
    Tensor,
    TensorKind,
)
from dovetail.ops import Op, bind_node
from dovetail_opset._package import PACKAGE, schema_of
from dovetail_opset.perms import composed, from_source, is_identity, perm_of

# As names, which are quicker; see `dovetail.ir.tensor`.
_NATIVE, _STATIC = TensorKind.NATIVE, TensorKind.STATIC


def bound(node: Node | None) -> Op | None:
    """Return the op of a node of the standard set with its params; None for other nodes."""
    schema = None if node is None else schema_of(node)
    return None if node is None or schema is None else bind_node(schema, node)


def is_constant(tensor: Tensor | None) -> bool:
    """Return whether a tensor's data never change: static, and not UPDATEABLE."""
    return tensor is not None and tensor.kind is _STATIC and tensor.data is not None


def is_float(*tensors: Tensor | None) -> bool:
    """Return whether all given tensors hold plain floats, so that a pass may compute with them."""
    return all(t is None or (t.dtype.is_float and t.dtype.bits >= 32) for t in tensors)


def is_any_float(tensor: Tensor) -> bool:
    """Return whether a tensor holds plain floats or float16."""
    return tensor.dtype is DType.FLOAT_16 or is_float(tensor)


def is_inner(tensor: Tensor) -> bool:
    """Return whether a tensor is internal: only nodes read and write it."""
    return tensor.kind is _NATIVE


def sole_producer(graph: Graph, tensor: Tensor | None) -> Node | None:
    """Return the node that writes a tensor with a single reader, so that both may merge."""
    if tensor is None or graph.only_reader(tensor) is None:
        return None
    return graph.producer(tensor)


def first_input(node: Node) -> Tensor:
    """Return a node's first input, which its op does not allow to be omitted."""
    found = node.inputs[0]
    if found is None:
        raise AssertionError(f"{node.where} has no first input")
    return found


def merge(graph: Graph, first: Node, second: Node) -> None:
    """Merge two nodes into `first`, which then writes the outputs of `second`.

    The output of `first` must be inner, without other readers.
    """
    between, outputs = first.outputs, second.outputs
    graph.remove_node(second)
    graph.set_outputs(first, outputs)
    first.sources = tuple(dict.fromkeys((*first.sources, *second.sources)))
    for tensor in between:
        graph.remove_tensor(tensor)


def merge_into_reader(graph: Graph, first: Node, second: Node, x: Tensor) -> None:
    """Merge two nodes into `second`, which then reads an input of `first`.

    The output of `first` must be inner, without other readers.
    """
    between = first.outputs[0]
    graph.remove_node(first)
    graph.replace_input(second, between, x)
    second.sources = tuple(dict.fromkeys((*first.sources, *second.sources)))
    graph.remove_tensor(between)


def bypass(graph: Graph, node: Node) -> bool:
    """Remove a node whose output equals its first input; return whether that was possible.

    An output of the graph stays: the input's producer then writes it, if there is one.
    """
    source, target = first_input(node), node.outputs[0]
    if source.spec != target.spec or source.kind.is_updateable:
        return False
    if is_inner(target):
        graph.replace_uses(target, source)
        graph.remove_node(node)
        graph.remove_tensor(target)
        return True
    producer = graph.producer(source)
    if producer is None or not is_inner(source) or target.kind.is_updateable:
        return False
    graph.remove_node(node)
    graph.replace_output(producer, source, target)
    graph.replace_uses(source, target)
    graph.remove_tensor(source)
    return True


def to_reshape(graph: Graph, *nodes: Node) -> Node:
    """Replace nodes in a row, with no other readers, by one Reshape and return it."""
    source, target, last = first_input(nodes[0]), nodes[-1].outputs[0], nodes[-1]
    for old in reversed(nodes):
        graph.remove_node(old)
    for old in nodes[:-1]:
        graph.remove_tensor(old.outputs[0])
    sources = sources_of(nodes)
    made = Node(last.name, PACKAGE.name, "Reshape", [source], [target], sources=sources)
    graph.add_node(made)
    return made


def sources_of(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return the sources of nodes that become one, each once."""
    return tuple(dict.fromkeys(source for node in nodes for source in node.sources))


def perm_param(perm: Shape, node: str) -> Param:
    """Return the perm param of the Transpose node of this name."""
    return PACKAGE.schemas["Transpose"].params["perm"].param_of(perm, node)


def source_perm_after(tensor: Tensor, perm: Shape) -> Shape | None:
    """Return the `source_perm` of `tensor` transposed by `perm`; None if both cancel."""
    found = composed(from_source(tensor), perm)
    return None if is_identity(found) else found


def has_one_scale(tensor: Tensor) -> bool:
    """Return whether a tensor has no scale, or one for all its elements."""
    # scales by axis would have to say which axis that is after a reshape
    return isinstance(tensor.encoding, ScaleOffset | None)


def share_one_scale(first: Tensor, *others: Tensor | None) -> bool:
    """Return whether tensors have the same scale, if any: stored values move as they are."""
    return has_one_scale(first) and all(
        t is not None and t.encoding == first.encoding for t in others
    )


def keeps_stored_values(node: Node) -> bool:
    """Return whether a Transpose moves stored values without a change of encoding."""
    source, target = first_input(node).encoding, node.outputs[0].encoding
    if source is None or isinstance(source, ScaleOffset):
        return source == target
    return isinstance(source, AxisScaleOffset) and source.transposed(perm_of(node)) == target
