"""Tensors that users select by the names of tensors or nodes."""

from __future__ import annotations

from dovetail.cli.inputs.listed import InputList
from dovetail.cli.inputs.spellings import spellings, tensor_spellings
from dovetail.errors import Problem, suggest_name
from dovetail.ir import Graph


def computed(graph: Graph) -> tuple[str, ...]:
    """Return the tensors that nodes write, in order of insertion."""
    return tuple(t.name for t in graph.tensors.values() if graph.producer(t) is not None)


def selectable(graph: Graph) -> tuple[str, ...]:
    """Return the tensors that can be written: those that nodes write, and the outputs."""
    return tuple(dict.fromkeys([*computed(graph), *(t.name for t in graph.outputs)]))


def selected_tensors(graph: Graph, listed: InputList, problems: list[Problem]) -> list[str]:
    """Return the tensors that the first lines of an input list select; empty if there are none.

    Args:
        graph: The graph.
        listed: Its input list.
        problems: A fault is added for each unknown node (`#`) or tensor (`%`).
    """
    nodes = outputs_by_node(graph)
    spelled = spellings(nodes)
    tensors = tensor_spellings(graph.tensors[name] for name in selectable(graph))
    found: list[str] = []
    for number, layer in listed.layers:
        name = spelled.get(layer)
        if name is None and layer in tensors:  # in lists for SNPE, layers are called like outputs
            found.append(tensors[layer])
        elif name is None:
            text = f"a # line selects nodes, but node '{layer}' not found in the graph"
            problems.append(Problem(text, listed.where(number), suggest_name(layer, nodes)))
        else:
            found += nodes[name]
    named = [(listed.where(number), name) for number, name in listed.tensors]
    return found + named_tensors(named, graph, problems)


def named_tensors(named: list[tuple[str, str]], graph: Graph, problems: list[Problem]) -> list[str]:
    """Return selectable tensors by their names or other spellings of these.

    Args:
        named: Where each name is given, and the name.
        graph: The graph.
        problems: A fault is added for each unknown name.
    """
    tensors = selectable(graph)
    spelled = tensor_spellings(graph.tensors[name] for name in tensors)
    problems += [
        Problem(
            f"computed tensor '{name}' not found in the graph", where, suggest_name(name, tensors)
        )
        for where, name in named
        if name not in spelled
    ]
    return [spelled[name] for _, name in named if name in spelled]


def outputs_by_node(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Return the tensors that nodes write, by the nodes' names in the graph and the user's model.

    If a node of the user's model became several nodes, the outputs of the last one count.
    """
    found: dict[str, tuple[str, ...]] = {}
    for node in graph.nodes:
        found |= dict.fromkeys(node.sources, tuple(t.name for t in node.outputs))
    return found | {node.name: tuple(t.name for t in node.outputs) for node in graph.nodes}
