"""Selection of the tensors to write."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.cli.inputs.listed import InputList
from dovetail.cli.inputs.selection import computed, named_tensors, selected_tensors
from dovetail.errors import Problem
from dovetail.ir import Graph


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
    if debug:
        if listed.layers or listed.tensors:
            where = listed.where((*listed.layers, *listed.tensors)[0][0])
            problems.append(Problem("the list selects outputs, but --debug writes all", where))
        return computed(graph), problems
    wanted = selected_tensors(graph, listed, problems)
    asked = [("--set-output-tensors", name) for name in added]
    wanted += named_tensors(asked, graph, problems)
    if not (listed.layers or listed.tensors):
        wanted = [*(t.name for t in graph.outputs), *wanted]
    return tuple(dict.fromkeys(wanted)), problems
