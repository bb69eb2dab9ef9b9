"""Selection of the tensors to write."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.cli.inputs.listed import InputList, resolve_layers
from dovetail.errors import Problem, suggest_name
from dovetail.ir import Graph


def computed(graph: Graph) -> tuple[str, ...]:
    """Return the tensors that nodes write, in order of insertion."""
    return tuple(t.name for t in graph.tensors.values() if graph.producer(t) is not None)


def outputs_by_node(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Return the tensors that nodes write, by the nodes' names in the graph and the user's model.

    If a node of the user's model became several nodes, the outputs of the last one count.
    """
    found: dict[str, tuple[str, ...]] = {}
    for node in graph.nodes:
        found |= dict.fromkeys(node.sources, tuple(t.name for t in node.outputs))
    return found | {node.name: tuple(t.name for t in node.outputs) for node in graph.nodes}


def chosen_outputs(
    graph: Graph, listed: InputList, added: Iterable[str], *, debug: bool
) -> tuple[tuple[str, ...], list[Problem]]:
    """Return the tensors to write, and the faults of the selection.

    Args:
        graph: The graph.
        listed: Its input list, whose first lines may select tensors.
        added: Additional tensors (`--set-output-tensors`).
        debug: Whether to write every tensor that a node writes.
    """
    problems: list[Problem] = []
    names = dict.fromkeys([*computed(graph), *(t.name for t in graph.outputs)])
    if debug:
        if listed.layers or listed.tensors:
            where = listed.where((*listed.layers, *listed.tensors)[0][0])
            problems.append(Problem("the list selects outputs, but --debug writes all", where))
        return computed(graph), problems
    wanted = resolve_layers(listed, outputs_by_node(graph), problems)
    asked = [(listed.where(number), name) for number, name in listed.tensors]
    asked += [("--set-output-tensors", name) for name in added]
    for where, name in asked:
        if name not in names:
            hint = suggest_name(name, names)
            problems.append(
                Problem(f"computed tensor '{name}' not found in the graph", where, hint)
            )
    wanted += [name for _, name in asked if name in names]
    if not (listed.layers or listed.tensors):
        wanted = [*(t.name for t in graph.outputs), *wanted]
    return tuple(dict.fromkeys(wanted)), problems
