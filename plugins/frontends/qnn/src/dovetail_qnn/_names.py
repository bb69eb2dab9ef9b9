"""Names of tensors and nodes as QNN's converters write them: identifiers of C.

Source: docs/qnn_formats.md, "Names".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

from dovetail.files import identifier
from dovetail.ir import Graph, Node, Tensor

T = TypeVar("T")


def unique_identifiers(named: Iterable[tuple[T, str]], taken: set[str]) -> dict[T, str]:
    """Return an identifier for each object by its name; equal ones get a number.

    Args:
        named: Objects with their names.
        taken: Identifiers in use; those returned are added.
    """
    found: dict[T, str] = {}
    counts: dict[str, int] = {}
    waiting: list[tuple[T, str]] = []
    for each, name in named:  # a name that is an identifier stays, whatever comes before it
        if identifier(name) == name and name not in taken:
            taken.add(name)
            found[each] = name
        else:
            waiting.append((each, identifier(name)))
    for each, stem in waiting:
        unique, count = stem, counts.get(stem, 0)
        while unique in taken:
            count += 1
            unique = f"{stem}_{count}"
        counts[stem] = count
        taken.add(unique)
        found[each] = unique
    return found


class Names(Protocol):
    """Names of a graph's tensors and nodes in a file."""

    @property
    def tensors(self) -> Mapping[Tensor, str]:
        """Names of tensors."""

    @property
    def nodes(self) -> Mapping[Node, str]:
        """Names of nodes."""


class OwnNames:
    """The names in a file that has those of the graph.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: Graph) -> None:
        self.tensors: Mapping[Tensor, str] = {t: t.name for t in graph.tensors.values()}
        self.nodes: Mapping[Node, str] = {node: node.name for node in graph.nodes}


class FileNames:
    """The names of a graph's tensors, params and nodes in a file.

    Args:
        graph: The graph.

    Attributes:
        tensors: Names of tensors and of tensors in params, which are all different.
        nodes: Names of nodes.
    """

    def __init__(self, graph: Graph) -> None:
        taken: set[str] = set()
        tensors = unique_identifiers(((t, t.name) for t in graph.tensors.values()), taken)
        self.nodes: Mapping[Node, str] = unique_identifiers(
            ((n, n.name) for n in graph.nodes), set()
        )
        params = (
            ((node, name), f"{self.nodes[node]}_{name}")
            for node in graph.nodes
            for name, param in node.params.items()
            if isinstance(param, Tensor)
        )
        self.tensors: Mapping[Tensor, str] = tensors
        # by node and name: nodes may share the tensor of a param
        self.params: Mapping[tuple[Node, str], str] = unique_identifiers(params, taken)
