"""Differences in the structure of two graphs: ops, params, connections, tensors, interface."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from dovetail.container import Difference, form_differences
from dovetail.ir import Graph, Node, Param, Tensor, TensorKind
from dovetail_tools._model_diff.matching import Matches, Way
from dovetail_tools._model_diff.weights import has_same_bytes

ABSENT = "none"


class NodeDiff(msgspec.Struct, frozen=True):
    """Two nodes that differ.

    Attributes:
        first, second: Their names.
        matched: How they were matched.
        differences: The facts in which they differ.
    """

    first: str
    second: str
    matched: Way
    differences: tuple[Difference, ...]


def node_diffs(first: Graph, second: Graph, matches: Matches) -> Iterator[NodeDiff]:
    """Yield the matched nodes that differ, in the order of the first graph."""
    for node, other in matches.nodes.items():
        found = (
            *_op_differences(node, other),
            *_param_differences(node, other),
            *_input_differences((first, node), (second, other), matches),
            *_output_differences(node, other),
        )
        if found:
            yield NodeDiff(node.name, other.name, matches.ways[node], found)


def interface_differences(first: Graph, second: Graph) -> Iterator[Difference]:
    """Yield the differences of the inputs and outputs of two graphs, by name or else by source."""
    for use, ours, theirs in (
        ("input", first.inputs, second.inputs),
        ("output", first.outputs, second.outputs),
    ):
        one = {t.name: t for t in ours}
        other = _by_first_names(one, theirs)
        for name in one | other:
            if name in one and name in other:
                if other[name].name != name:
                    yield Difference(f"{use} {name} name", name, other[name].name)
                yield from _tensor_differences(one[name], other[name], f"{use} {name}")
            else:
                yield Difference(f"{use} {name}", *(_presence(name, t) for t in (one, other)))
        if one.keys() == other.keys() and list(one) != list(other):
            yield Difference(f"order of {use}s", ", ".join(one), ", ".join(other))


def _by_first_names(first: Mapping[str, Tensor], second: Sequence[Tensor]) -> dict[str, Tensor]:
    """Return tensors by their names, or that of the first one of the same source."""
    names = {tensor.name for tensor in second}
    free = {t.source: name for name, t in first.items() if name not in names}
    found: dict[str, Tensor] = {}
    for tensor in second:
        is_known = tensor.name in first
        found[tensor.name if is_known else free.pop(tensor.source, tensor.name)] = tensor
    return found


def _presence(name: str, among: Iterable[str]) -> str:
    return "present" if name in among else ABSENT


def _op_differences(first: Node, second: Node) -> Iterator[Difference]:
    ours, theirs = (f"{n.package}::{n.op_type}" for n in (first, second))
    if ours != theirs:
        yield Difference("op", ours, theirs)


def _param_differences(first: Node, second: Node) -> Iterator[Difference]:
    for name in first.params | second.params:
        ours, theirs = first.params.get(name), second.params.get(name)
        if isinstance(ours, Tensor) and isinstance(theirs, Tensor):
            yield from (_prefixed(each, f"param {name}") for each in form_differences(ours, theirs))
            is_equal = has_same_bytes(ours, theirs)
        else:
            is_equal = ours == theirs
        if not is_equal:
            yield Difference(f"param {name}", _param_text(ours), _param_text(theirs))


def _param_text(param: Param | None) -> str:
    if param is None:
        return ABSENT
    if not isinstance(param, Tensor):
        return f"{param.dtype.name} {param.value}"
    return "no data" if param.data is None else np.array2string(param.values(), threshold=16)


def _input_differences(
    first: tuple[Graph, Node], second: tuple[Graph, Node], matches: Matches
) -> Iterator[Difference]:
    ours, theirs = first[1].inputs, second[1].inputs
    for i in range(max(len(ours), len(theirs))):
        a, b = (inputs[i] if i < len(inputs) else None for inputs in (ours, theirs))
        port = f"in[{i}]"
        if not _is_same_value((first[0], a), (second[0], b), matches):
            yield Difference(port, _origin(first[0], a), _origin(second[0], b))
        elif a is not None and b is not None and a.kind.is_static:
            yield from _tensor_differences(a, b, port)


def _output_differences(first: Node, second: Node) -> Iterator[Difference]:
    if len(first.outputs) != len(second.outputs):
        yield Difference("outputs", str(len(first.outputs)), str(len(second.outputs)))
    for i, (ours, theirs) in enumerate(zip(first.outputs, second.outputs, strict=False)):
        yield from _tensor_differences(ours, theirs, f"out[{i}]")


def _tensor_differences(first: Tensor, second: Tensor, where: str) -> Iterator[Difference]:
    yield from (_prefixed(each, where) for each in form_differences(first, second))
    for fact, ours, theirs in (
        ("kind", first.kind.name, second.kind.name),
        ("dynamic axes", _axes(first), _axes(second)),
        ("memory type", first.memory_type.name, second.memory_type.name),
    ):
        if ours != theirs:
            yield Difference(f"{where} {fact}", ours, theirs)


def _prefixed(difference: Difference, where: str) -> Difference:
    return Difference(f"{where} {difference.fact}", difference.first, difference.second)


def _axes(tensor: Tensor) -> str:
    axes = [str(i) for i, is_dynamic in enumerate(tensor.dynamic) if is_dynamic]
    return ", ".join(axes) or ABSENT


def _is_same_value(
    first: tuple[Graph, Tensor | None], second: tuple[Graph, Tensor | None], matches: Matches
) -> bool:
    """Return whether two tensors are written by counterparts; constants are compared elsewhere."""
    (graph, ours), (other_graph, theirs) = first, second
    if _is_omitted(ours) or _is_omitted(theirs):
        return _is_omitted(ours) and _is_omitted(theirs)
    if ours is None or theirs is None:
        return False
    producer, other = graph.producer(ours), other_graph.producer(theirs)
    if producer is not None and other is not None:
        is_same_port = producer.outputs.index(ours) == other.outputs.index(theirs)
        return is_same_port and matches.nodes.get(producer) is other
    if producer is not None or other is not None:
        return False
    if ours.kind.is_static or theirs.kind.is_static:
        return ours.kind.is_static and theirs.kind.is_static
    return matches.inputs.get(ours) is theirs


def _is_omitted(tensor: Tensor | None) -> bool:
    return tensor is None or tensor.kind is TensorKind.NULL


def _origin(graph: Graph, tensor: Tensor | None) -> str:
    if tensor is None or _is_omitted(tensor):
        return ABSENT
    producer = graph.producer(tensor)
    if producer is None:
        return f"{'constant' if tensor.kind.is_static else 'input'} {tensor.name}"
    return f"out[{producer.outputs.index(tensor)}] of {producer.name}"
