"""Restoration of graphs in parts from an image."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from dovetail.errors import Problem
from dovetail.ops import CheckedGraph
from dovetail.runtime.contract import BackendContext, Image, PrepareRequest, Restored
from dovetail.runtime.placement.images import StoredGraph, damaged, image_of, interface_of
from dovetail.runtime.placement.members import Member, close_all
from dovetail.runtime.placement.parts import part_graphs
from dovetail.runtime.placement.prepared import HeteroPrepared, PreparedPart


def restore_graphs(
    image: Image,
    stored: Mapping[str, StoredGraph],
    contexts: Iterable[tuple[Member, BackendContext]],
    graph: Callable[[str], CheckedGraph] | None,
    request: Callable[[Member, str], PrepareRequest],
) -> Mapping[str, Restored]:
    """Return the graphs of an image, whose parts their members restore.

    Args:
        image: The image.
        stored: Its graphs, by name.
        contexts: The members and their contexts.
        graph: As for `BackendContext.restore`.
        request: Returns how a member is to prepare the parts of the graph of a name.

    Raises:
        ContainerError: The image is damaged.
    """
    home = {part.name: name for name, each in stored.items() for part in each.parts}
    part_graph = None if graph is None else _PartGraphs(graph, stored, home).of
    restored: dict[str, Restored] = {}
    try:
        for i, (member, context) in enumerate(contexts):
            plans = {
                part.name: part.plan
                for each in stored.values()
                for part in each.parts
                if part.backend == member.name
            }
            if plans:
                part_request = partial(_part_request, request, member, home)
                restored |= context.restore(image_of(image, i, plans), part_graph, part_request)
        if missing := home.keys() - restored.keys():
            faults = [Problem("not in the image of its backend", f"part '{p}'") for p in missing]
            raise damaged("parts of graphs are missing", faults)
        return {name: _joined(name, each, restored) for name, each in stored.items()}
    except BaseException:
        close_all((name, one.prepared) for name, one in restored.items())
        raise


def _part_request(
    request: Callable[[Member, str], PrepareRequest],
    member: Member,
    home: Mapping[str, str],
    part: str,
) -> PrepareRequest:
    return request(member, _home_of(part, home))


def _home_of(part: str, home: Mapping[str, str]) -> str:
    """Return the graph of a part that a member has found in its image.

    Raises:
        ContainerError: The image has no such part.
    """
    if part not in home:
        raise damaged(f"part '{part}' not found")
    return home[part]


class _PartGraphs:
    """The parts of graphs as an image divides them; each graph is divided once.

    Args:
        graph: Returns the graph of a name.
        stored: The graphs in the image.
        home: The graph of each part, both by name.
    """

    def __init__(
        self,
        graph: Callable[[str], CheckedGraph],
        stored: Mapping[str, StoredGraph],
        home: Mapping[str, str],
    ) -> None:
        self._graph = graph
        self._stored = stored
        self._home = home
        self._known: dict[str, CheckedGraph] = {}

    def of(self, part: str) -> CheckedGraph:
        """Return the graph of a part.

        Raises:
            ContainerError: The image has no such part, or the parts do not have the nodes of the
                graph, each once.
        """
        if part not in self._known:
            name = _home_of(part, self._home)
            whole, parts = self._graph(name), self._stored[name].parts
            nodes = {view.node.name: view.node for view in whole.nodes}
            given = [node for each in parts for node in each.nodes]
            if sorted(given) != sorted(nodes):
                raise damaged("the parts do not have the nodes of the graph", where=whole.where)
            names = [each.name for each in parts]
            divided = [[nodes[node] for node in each.nodes] for each in parts]
            self._known.update(zip(names, part_graphs(whole, names, divided), strict=True))
        return self._known[part]


def _joined(name: str, stored: StoredGraph, restored: Mapping[str, Restored]) -> Restored:
    parts = [
        PreparedPart(
            part.name,
            part.backend,
            part.nodes,
            part.updateable,
            restored[part.name].interface,
            restored[part.name].prepared,
        )
        for part in stored.parts
    ]
    interface = interface_of(name, stored, [part.interface for part in parts])
    return Restored(interface, HeteroPrepared(interface, parts, stored.placement))
