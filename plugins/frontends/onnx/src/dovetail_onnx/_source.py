"""The model as the file states it, checked: unique names, nothing undefined, no cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
)

from dovetail.errors import FrontendError, Problem
from dovetail.ir import topological_order

_SUBGRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


class SourceNode(msgspec.Struct, frozen=True, eq=False):
    """A node of the model.

    Attributes:
        name: Its own name, or one of its operator and index; unique.
        op_type, domain: Its operator; the domain is empty for ONNX's own.
        opset: The version of the domain's operator set that the model imports; 0 if it does not.
        inputs, outputs: Names of tensors, empty for left-out ones.
        proto: As in the file.
        sources: Names of all nodes of the model that it replaces.
        captured: Tensors of enclosing graphs that its subgraphs read.
    """

    name: str
    op_type: str
    domain: str
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    proto: NodeProto
    sources: tuple[str, ...]
    captured: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """All tensors that it needs, by name."""
        names = self.inputs + self.captured
        return names if "" not in names else tuple(filter(None, names))

    @property
    def where(self) -> str:
        """The node as the user knows it."""
        return f"{self.full_type} node '{self.name}'"

    @property
    def full_type(self) -> str:
        """The operator with its domain, where that is not ONNX's own."""
        return f"{self.domain}:{self.op_type}" if self.domain else self.op_type

    @property
    def has_subgraphs(self) -> bool:
        """True if it has subgraphs, as If and Loop do."""
        return any(a.type in _SUBGRAPHS for a in self.proto.attribute)


@dataclass(frozen=True, slots=True, eq=False)
class SourceGraph:
    """The main graph of a model.

    Attributes:
        name: Name of the graph.
        nodes: In topological order.
        inputs: Inputs that the application provides, by name; not those with an initializer.
        outputs: Names of the outputs.
        initializers: Constants by name.
        opsets: Imported versions by domain.
        ir_version: IR version of the file.
        declared: Declared types and shapes of the nodes' outputs, by name.
        unused_inputs: Inputs that no output depends on. They are among `inputs` unless the graph
            is cut at other outputs than the model's.
    """

    name: str
    nodes: tuple[SourceNode, ...]
    inputs: dict[str, ValueInfoProto]
    outputs: tuple[str, ...]
    initializers: dict[str, TensorProto]
    opsets: dict[str, int]
    ir_version: int
    declared: dict[str, ValueInfoProto] = field(default_factory=dict)
    unused_inputs: tuple[str, ...] = field(default=())

    def names(self) -> Iterator[str]:
        """Yield the names of all tensors."""
        yield from self.inputs
        yield from self.initializers
        yield from (name for node in self.nodes for name in node.outputs if name)


def parse_model(model: ModelProto) -> SourceGraph:
    """Return the main graph of a model.

    Raises:
        FrontendError: The graph is not well formed; says everything that is wrong.
    """
    graph = model.graph
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    nodes = tuple(_nodes(graph, opsets))
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    inputs = {i.name: i for i in graph.input if i.name not in initializers}
    problems = [*_twice(graph, nodes), *_undefined(graph, nodes)]
    if not graph.output:
        problems.append(Problem("the graph has no outputs", hint="export the model again"))
    if not all(o.name for o in graph.output):
        problems.append(Problem("an output has no name", hint="export the model again"))
    if graph.sparse_initializer:
        problems.append(Problem("unsupported sparse initializers"))
    if problems:
        raise _broken(graph.name, problems)
    outputs = tuple(dict.fromkeys(o.name for o in graph.output))
    return SourceGraph(
        graph.name or "main",
        _sorted(graph.name, nodes),
        inputs,
        outputs,
        initializers,
        opsets,
        model.ir_version,
        {o.name: o for o in (*graph.value_info, *graph.output)},
    )


def cut(source: SourceGraph, out_names: Sequence[str], *, keep_nodes: bool = False) -> SourceGraph:
    """Return the part of a graph that its outputs, or those named instead, depend on.

    All inputs stay unless outputs are named: the application may feed what the model declares.

    Args:
        source: The graph.
        out_names: Names of tensors that it has.
        keep_nodes: Whether nodes stay that no output depends on. Results that nothing reads become
            outputs: otherwise the next pass would remove these nodes.
    """
    outputs = tuple(dict.fromkeys(out_names)) or source.outputs
    if keep_nodes:
        read = {name for node in source.nodes for name in node.reads}
        loose = (n for node in source.nodes for n in node.outputs if n and n not in read)
        outputs = tuple(dict.fromkeys((*outputs, *loose)))
    needed, kept = set(outputs), []
    for node in reversed(source.nodes):
        if not needed.isdisjoint(node.outputs):
            kept.append(node)
            needed.update(node.reads)
    return replace(
        source,
        nodes=tuple(reversed(kept)),
        outputs=outputs,
        inputs={n: info for n, info in source.inputs.items() if n in needed or not out_names},
        unused_inputs=tuple(name for name in source.inputs if name not in needed),
    )


def check_text(model: ModelProto) -> None:
    """Check that all names are usable text: protobuf returns bytes for names that are not UTF-8.

    Raises:
        FrontendError: Some names are not usable.
    """
    wrong = [text for text in _texts(model) if isinstance(text, bytes) or "\0" in text]
    if wrong:
        raise FrontendError(
            f"{len(wrong)} names are not UTF-8 or contain a zero byte, for example {wrong[0]!r}",
            hint="the file is damaged; fetch or export the model again",
        )


def _texts(model: ModelProto) -> list[str | bytes]:
    """Return all names in a model, its functions and its subgraphs."""
    texts: list[str | bytes] = [entry.domain for entry in model.opset_import]
    waiting: list[GraphProto | FunctionProto] = [model.graph, *model.functions]
    while waiting:
        part = waiting.pop()
        texts.append(part.name)
        if isinstance(part, FunctionProto):
            texts += (part.domain, *part.input, *part.output, *part.attribute)
            texts += (entry.domain for entry in part.opset_import)
        else:
            for info in (*part.input, *part.output):
                texts += (info.name, *(d.dim_param for d in info.type.tensor_type.shape.dim))
            for tensor in part.initializer:
                texts += _texts_of(tensor)
        for node in part.node:
            texts += (node.name, node.op_type, node.domain, *node.input, *node.output)
            for attribute in node.attribute:
                texts.append(attribute.name)
                if attribute.HasField("t"):
                    texts += _texts_of(attribute.t)
                waiting.extend(_any_graphs(attribute))
    return texts


def _texts_of(tensor: TensorProto) -> list[str | bytes]:
    """Return a tensor's name and the location of its elements."""
    texts: list[str | bytes] = [tensor.name]
    for entry in tensor.external_data:
        texts += (entry.key, entry.value)
    return texts


def _nodes(graph: GraphProto, opsets: dict[str, int]) -> Iterator[SourceNode]:
    taken = Counter(node.name for node in graph.node if node.name)
    given: set[str] = set()
    for i, proto in enumerate(graph.node):
        name = proto.name or f"{proto.op_type}_{i}"
        while name in given or (name != proto.name and name in taken):
            name = f"{name}_{i}"
        given.add(name)
        yield source_node(proto, name, opsets)


def source_node(
    proto: NodeProto, name: str, opsets: Mapping[str, int], sources: tuple[str, ...] = ()
) -> SourceNode:
    """Return a node in the form that the reader expects.

    Args:
        proto: The node.
        name: Its name, which no other node has.
        opsets: Versions of operator sets by domain.
        sources: The nodes of the model that it replaces; by default itself.
    """
    return SourceNode(
        name,
        proto.op_type,
        proto.domain,
        opsets.get(proto.domain, 0),
        tuple(proto.input),
        tuple(proto.output),
        proto,
        sources or (name,),
        captured_names(proto) if proto.attribute else (),
    )


def captured_names(node: NodeProto) -> tuple[str, ...]:
    """Return the tensors of enclosing graphs that a node's subgraphs read."""
    found: dict[str, None] = {}
    for graph in subgraphs(node):
        own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
        own |= {name for inner in graph.node for name in inner.output}
        for inner in graph.node:
            found |= dict.fromkeys(n for n in inner.input if n and n not in own)
            found |= dict.fromkeys(n for n in captured_names(inner) if n not in own)
        found |= dict.fromkeys(o.name for o in graph.output if o.name not in own)
    return tuple(found)


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the subgraphs of a node."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def any_graphs(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the subgraphs in a node, even in attributes that declare another type.

    ONNX's own code may read these.
    """
    for attribute in node.attribute:
        yield from _any_graphs(attribute)


def _any_graphs(attribute: AttributeProto) -> Iterator[GraphProto]:
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def _twice(graph: GraphProto, nodes: Sequence[SourceNode]) -> Iterator[Problem]:
    hint = "tensor names are unique within a model; export it again"
    for word, names in (
        ("input", [i.name for i in graph.input]),
        ("initializer", [t.name for t in graph.initializer]),
    ):
        for name, count in Counter(names).items():
            if count > 1:
                yield Problem(f"duplicate name, used {count} times", f"{word} '{name}'", hint)
    given: dict[str, str | SourceNode] = {i.name: "an input of the model" for i in graph.input}
    given |= {t.name: "an initializer" for t in graph.initializer}
    for node in nodes:
        for name in filter(None, node.outputs):
            if name in given:
                other = given[name]
                what = other if isinstance(other, str) else f"an output of {other.where}"
                yield Problem(f"output '{name}' is also {what}", node.where, hint)
            given[name] = node


def _undefined(graph: GraphProto, nodes: Sequence[SourceNode]) -> Iterator[Problem]:
    known = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    known |= {name for node in nodes for name in node.outputs}
    hint = "the file is damaged or was cut by hand; export it again"
    for node in nodes:
        for name in node.reads:
            if name not in known:
                yield Problem(f"input '{name}' is not defined in the model", node.where, hint)
    for output in graph.output:
        if output.name not in known:
            yield Problem("not defined in the model", f"output '{output.name}'", hint)


def _sorted(graph: str, nodes: Sequence[SourceNode]) -> tuple[SourceNode, ...]:
    """Sort topologically; keep the file's order where the data flow permits."""
    order = topological_order([n.reads for n in nodes], [n.outputs for n in nodes])
    if len(order) < len(nodes):
        stuck = [nodes[i].name for i in sorted(set(range(len(nodes))).difference(order))]
        listed = ", ".join(f"'{name}'" for name in stuck[:5])
        why = f"{len(stuck)} nodes form a cycle, among them {listed}"
        raise _broken(graph, [Problem(why, hint="an ONNX graph must be acyclic; export it again")])
    return tuple(nodes[i] for i in order)


def _broken(graph: str, problems: Sequence[Problem]) -> FrontendError:
    return FrontendError(
        "the model is not well formed", where=f"graph '{graph}'", problems=problems
    )
