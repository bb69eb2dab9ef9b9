"""A graph from the tensors and nodes of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dovetail.errors import DovetailError, FrontendError, Problem
from dovetail.ir import DType, Graph, Node, Param, Spec, Tensor, find_faults
from dovetail_qnn._extras import NO_NODE, NO_TENSOR, Extras, NodeExtras, TensorExtras, read_entry
from dovetail_qnn._vocabulary import in_op_set

_OMITTED = ""  # the name of an omitted input


@dataclass(frozen=True, slots=True)
class FileNode:
    """A node of a file.

    Attributes:
        name, package, op_type: As in `dovetail.ir.Node`.
        inputs, outputs: Names of tensors in the file; empty for an omitted input.
        params: Scalars and tensors.
    """

    name: str
    package: str
    op_type: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    params: Mapping[str, Param]


@dataclass(frozen=True, slots=True)
class FileGraph:
    """The content of a file.

    Attributes:
        name: Name of the graph.
        tensors: In the order of the file, with their names there.
        nodes: In any order.
        extras: What else is known.
        where: Name of the file, for errors.
        problems: Faults that were found.
    """

    name: str
    tensors: Sequence[Tensor]
    nodes: Sequence[FileNode]
    extras: Extras
    where: str
    problems: list[Problem] = field(default_factory=list)


def assemble(file: FileGraph) -> Graph:
    """Return the graph of a file.

    Raises:
        FrontendError: The file has faults; all are listed.
    """
    graph = Graph(file.extras.graph or file.name)
    problems = list(file.problems)
    tensors: dict[str, Tensor] = {}
    ranks = {name: rank for rank, name in enumerate(file.extras.order)}
    for tensor in sorted(file.tensors, key=lambda t: ranks.get(t.name, len(ranks))):
        name = tensor.name
        try:
            apply_extras(tensor, file.extras.tensors.get(name, NO_TENSOR))
            tensors[name] = graph.add_tensor(tensor)
        except DovetailError as error:
            problems.append(error.as_problem(f"tensor '{name}'"))
    for node in file.nodes:
        problems += _add_node(graph, node, tensors, file.extras.nodes.get(node.name, NO_NODE))
    problems += _add_facts(graph, file.extras)
    problems = problems or find_faults(graph)
    if problems:
        raise FrontendError("the model has faults", where=file.where, problems=problems)
    return graph


def complete(graph: Graph, extras: Extras) -> list[Problem]:
    """Complete a graph that has its own names; return what in the extras does not match it."""
    problems: list[Problem] = []
    for tensor in graph.tensors.values():
        problems += _complete_tensor(tensor, extras.tensors.get(tensor.name, NO_TENSOR))
    for node in graph.nodes:
        found = extras.nodes.get(node.name, NO_NODE)
        node.sources = node.sources if found.sources is None else found.sources
        for key, param in node.params.items():
            if isinstance(param, Tensor):
                problems += _complete_tensor(param, found.params.get(key, NO_TENSOR))
    return [*problems, *_add_facts(graph, extras)]


def _complete_tensor(tensor: Tensor, extras: TensorExtras) -> list[Problem]:
    """Complete a tensor; return what in the extras does not match it."""
    where = f"tensor '{tensor.name}'"
    try:
        apply_extras(tensor, extras)
    except DovetailError as error:
        return [error.as_problem(where)]
    return []


def apply_extras(tensor: Tensor, extras: TensorExtras) -> None:
    """Complete a tensor.

    Raises:
        FrontendError: The extras do not match it.
        ContainerError: Arrays of its encoding do not match.
    """
    name = tensor.name
    tensor.name = name if extras.name is None else extras.name
    tensor.source = tensor.name if extras.source is None else extras.source
    if isinstance(extras.source_perm, tuple) or extras.source_perm is None:
        tensor.source_perm = extras.source_perm
    perm = tensor.source_perm
    if perm is not None and sorted(perm) != list(range(len(tensor.shape))):
        raise FrontendError(f"`source_perm` {perm} is not a permutation of its axes")
    tensor.dynamic = tensor.dynamic or (extras.dynamic if any(extras.dynamic) else ())
    tensor.memory_type = tensor.memory_type or extras.memory_type
    if extras.encoding is not None:
        if tensor.encoding is not None:
            raise FrontendError("`encoding` is given twice, here and in the rest of the file")
        tensor.encoding = read_entry(extras.encoding, f"tensor '{name}'")


def _add_node(
    graph: Graph, node: FileNode, tensors: Mapping[str, Tensor], extras: NodeExtras
) -> list[Problem]:
    """Add a node to the graph; return its faults instead if it has any."""
    where = f"{node.op_type} node '{node.name}'"
    unknown = [n for n in (*node.inputs, *node.outputs) if n not in tensors and n != _OMITTED]
    faults = [f"tensor '{name}' is not defined" for name in dict.fromkeys(unknown)]
    if _OMITTED in node.outputs:
        faults.append("an output has no name")
    if faults:
        return [Problem(fault, where) for fault in faults]
    inputs = [None if name == _OMITTED else tensors[name] for name in node.inputs]
    inputs += [None] * ((extras.inputs or 0) - len(inputs))
    op_type, params = in_op_set(node.package, node.op_type, dict(node.params))
    name = node.name if extras.name is None else extras.name
    try:
        for key, param in params.items():
            if isinstance(param, Tensor):
                param.name = f"{name}.{key}"
                apply_extras(param, extras.params.get(key, NO_TENSOR))
        graph.add_node(
            Node(
                name,
                node.package,
                op_type,
                inputs,
                [tensors[each] for each in node.outputs],
                params,
                sources=extras.sources,
            )
        )
    except DovetailError as error:
        return [error.as_problem(error.where or where)]
    return []


def _add_facts(graph: Graph, extras: Extras) -> list[Problem]:
    """Add the facts that are of no tensor or node; return what is wrong with them."""
    problems = []
    graph.removed_sources = frozenset(extras.removed_sources)
    for source, grid in extras.grids.items():
        where = f"grid of '{source}'"
        try:
            encoding = None if grid.encoding is None else read_entry(grid.encoding, where)
            graph.source_encodings[source] = Spec(DType(grid.dtype), grid.shape, encoding)
        except (DovetailError, ValueError) as error:
            problems.append(Problem(getattr(error, "message", str(error)), where))
    return problems
