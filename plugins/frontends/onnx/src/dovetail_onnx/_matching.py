"""Patterns of operators in a model, and the replacement of what matches."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from onnx import TensorProto, helper

from dovetail.ir.patterns import Match, Pattern, find
from dovetail_onnx._attributes import Attributes
from dovetail_onnx._dtypes import DTYPES
from dovetail_onnx._source import SourceGraph, SourceNode
from dovetail_onnx._tensors import TensorReader

Found: TypeAlias = Match[str, SourceNode]

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
# Operators of one number, by their number of inputs. A CastLike here is like x, which is a float.
_COMPUTED: Mapping[tuple[str, int], Callable[[float], float]] = {
    **dict.fromkeys((("Identity", 1), ("Cast", 1), ("CastLike", 2)), float),
    ("Sqrt", 1): lambda x: math.sqrt(x) if x >= 0 else math.nan,
    ("Reciprocal", 1): lambda x: 1 / x if x else math.inf,
}


class SourceView:
    """A model as patterns read it: values are names of tensors, nodes have one output.

    Args:
        source: The model.
        reader: Reads its constants.
    """

    def __init__(self, source: SourceGraph, reader: TensorReader) -> None:
        self.source = source
        self._reader = reader
        self._makers = {name: node for node in source.nodes for name in node.outputs if name}
        self._readers: dict[str, list[SourceNode]] = defaultdict(list)
        for node in source.nodes:
            for name in node.reads:
                self._readers[name].append(node)
        self._numbers: dict[str, float | None] = {}
        self._names = set(source.names())
        self._outputs = set(source.outputs)

    def producer(self, value: str) -> SourceNode | None:
        """Return the node whose only output a tensor is, or None."""
        maker = self.maker(value)
        return maker if maker is not None and len(maker.outputs) == 1 else None

    def maker(self, value: str) -> SourceNode | None:
        """Return the node that has a tensor among its outputs, or None."""
        return self._makers.get(value)

    def readers(self, value: str) -> list[SourceNode]:
        """Return the nodes that read a tensor, one as often as it does."""
        return self._readers[value]

    def op_type(self, node: SourceNode) -> str:
        """Return the operator with its domain, where that is not ONNX's own."""
        return node.full_type

    def inputs(self, node: SourceNode) -> Sequence[str | None]:
        """Return the inputs of a node, None for a left-out one."""
        return [name or None for name in node.inputs]

    def number(self, value: str) -> float | None:
        """Return the number that a tensor holds, also one that is computed from constants."""
        steps = []
        while value not in self._numbers:
            maker = self.producer(value)
            step = None if maker is None else _step(maker)
            if maker is None or step is None:
                self._numbers[value] = self._constant(value)
            else:
                steps.append((value, step))
                value = maker.inputs[0]
        known = self._numbers[value]
        for name, step in reversed(steps):
            known = self._numbers[name] = None if known is None else step(known)
        return known

    def is_closed(self, nodes: Collection[SourceNode], last: SourceNode) -> bool:
        """Return whether only the last node's output is used elsewhere, or by the application."""
        inner = [name for node in nodes if node is not last for name in node.outputs]
        return self._outputs.isdisjoint(inner) and all(
            reader in nodes for name in inner for reader in self._readers[name]
        )

    def fresh(self, stem: str) -> str:
        """Return a name that nothing in the model has."""
        name = stem
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name

    def _constant(self, name: str) -> float | None:
        maker = self.maker(name)
        proto = self.source.initializers.get(name)
        if maker is not None and (maker.full_type, maker.reads) == ("Constant", ()):
            attributes = Attributes(maker.proto)
            if "value_float" in attributes:
                return attributes.number("value_float", 0.0)
            proto = attributes.tensor("value") if "value" in attributes else None
        if proto is None or math.prod(proto.dims) != 1 or proto.data_type not in DTYPES:
            return None
        reader = self._reader
        found = reader.read_initializer(proto) if maker is None else reader.read(proto, name)
        return float(found.values.reshape(()))


def _step(node: SourceNode) -> Callable[[float], float] | None:
    """Return what a node does to the number that it reads; None if it is not in the table."""
    if node.full_type == "Cast" and Attributes(node.proto).integer("to", 0) not in _FLOATS:
        return None
    return _COMPUTED.get((node.full_type, len(node.inputs)))


def replace_matches(
    source: SourceGraph,
    reader: TensorReader,
    pattern: Pattern,
    nodes_of: Callable[[SourceView, Found], Iterable[SourceNode]],
) -> SourceGraph:
    """Return a model in which everything that matches a pattern is replaced.

    Args:
        source: The model.
        reader: Reads its constants.
        pattern: A pattern of the results to replace.
        nodes_of: Returns the nodes instead of a match, none for one that has to stay.
    """
    if not pattern.may_occur({node.full_type for node in source.nodes}):
        return source
    view = SourceView(source, reader)
    gone: set[str] = set()
    made: dict[str, list[SourceNode]] = {}
    for node in source.nodes:
        for match in find(pattern, view, node.outputs[0]) if node.outputs else ():
            names = {inner.name for inner in match.nodes}
            if not gone.isdisjoint(names) or not view.is_closed(match.nodes, node):
                continue
            if new := list(nodes_of(view, match)):
                gone |= names
                made[node.name] = new
                break
    nodes: list[SourceNode] = []
    for node in source.nodes:
        nodes += made.get(node.name, [] if node.name in gone else [node])
    return replace(source, nodes=_still_read(nodes, source))


def _still_read(nodes: Iterable[SourceNode], source: SourceGraph) -> tuple[SourceNode, ...]:
    """Return the nodes without those, such as constants, that only removed nodes read."""
    before = {name for node in source.nodes for name in node.reads}
    needed, kept = set(source.outputs), []
    for node in reversed(tuple(nodes)):
        if needed.isdisjoint(node.outputs) and not before.isdisjoint(node.outputs):
            continue
        needed.update(node.reads)
        kept.append(node)
    return tuple(reversed(kept))


class Replacement:
    """Nodes that replace those of a match.

    Args:
        view: The model.
        match: The match; the last of its nodes gives its name and outputs to the last new one.
        opset: The smallest opset of the new nodes.
    """

    def __init__(self, view: SourceView, match: Found, opset: int) -> None:
        self._view = view
        self._last = match.nodes[-1]
        self._opset = max(self._last.opset, opset)
        self._sources = tuple(node.name for node in match.nodes)
        self._nodes: list[SourceNode] = []

    def constant(self, name: str, shape: Sequence[int], numbers: Sequence[int]) -> str:
        """Add INT64 numbers; return their name."""
        tensor = helper.make_tensor(name, TensorProto.INT64, shape, numbers)
        return self._add(name, "Constant", (), value=tensor)

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; return the name of its output."""
        return self._add(op_type.lower(), op_type, inputs, **attributes)

    def end(self, op_type: str, *inputs: str) -> Sequence[SourceNode]:
        """Add the last node, and return all."""
        self._append(self._last.name, op_type, inputs, self._last.outputs)
        return self._nodes

    def _add(self, name: str, op_type: str, inputs: Sequence[str], **attributes: Any) -> str:
        made = self._view.fresh(f"{self._last.name}.{name}")
        self._append(made, op_type, inputs, (made,), **attributes)
        return made

    def _append(
        self,
        name: str,
        op_type: str,
        inputs: Sequence[str],
        outputs: tuple[str, ...],
        **attributes: Any,
    ) -> None:
        proto = helper.make_node(op_type, inputs, outputs, name=name, **attributes)
        self._nodes.append(
            SourceNode(name, op_type, "", self._opset, tuple(inputs), outputs, proto, self._sources)
        )
