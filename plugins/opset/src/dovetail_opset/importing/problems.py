"""Problems of single nodes, and unsupported nodes grouped by reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dovetail.errors import DovetailError, Problem, UnsupportedOpError, counted, listed
from dovetail_opset.importing.source import SourceNode

_SHOWN = 3


class ValueNeededError(UnsupportedOpError):
    """A node cannot be converted because a tensor is not known at import.

    Args:
        message: As of any error.
        tensor: The tensor's name.
        where: The node.
        hint: What to do.
    """

    def __init__(self, message: str, tensor: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message, where=where, hint=hint)
        self.tensor = tensor


@dataclass(frozen=True, slots=True)
class UnsupportedNode:
    """Why one node cannot be converted.

    Attributes:
        node: The node.
        version: Version of its operator's schema; 0 where the operator is unknown.
        why: The reason.
        hint: What to do.
        needs: The tensor that must be known, if that is the reason.
    """

    node: SourceNode
    version: int
    why: str
    hint: str = ""
    needs: str = ""


def grouped(unsupported: Iterable[UnsupportedNode]) -> list[Problem]:
    """Return one problem for each operator, version and reason, in the order of first nodes."""
    groups: dict[tuple[str, int, str, str], list[SourceNode]] = {}
    for each in unsupported:
        key = each.node.full_type, each.version, each.why, each.hint
        groups.setdefault(key, []).append(each.node)
    return [
        Problem(why, _where(nodes, version), hint)
        for (_, version, why, hint), nodes in groups.items()
    ]


def count_nodes(unsupported: Iterable[UnsupportedNode]) -> str:
    """Return how many nodes cannot be converted, in words."""
    return counted(len({each.node.name for each in unsupported}), "node")


def _where(nodes: list[SourceNode], version: int) -> str:
    names = list(dict.fromkeys(node.name for node in nodes))
    if len(names) == 1:
        return nodes[0].where
    operator = f"{nodes[0].full_type} (version {version})" if version else nodes[0].full_type
    return f"{operator}: {len(names)} nodes, {listed(names, _SHOWN)}"


def unsupported_nodes(
    node: SourceNode, version: int, error: UnsupportedOpError
) -> list[UnsupportedNode]:
    """Return why a node cannot be converted, from the error of its importer."""
    needs = error.tensor if isinstance(error, ValueNeededError) else ""
    return [
        UnsupportedNode(node, version, _reason(problem, node), problem.hint, needs)
        for problem in problems_of(node, error)
    ]


def problems_of(node: SourceNode, error: DovetailError) -> list[Problem]:
    """Return the problems of an error that a node caused, each with its location in the model."""
    if error.problems:
        return [Problem(p.message, p.where or node.where, p.hint) for p in error.problems]
    is_same = error.where.endswith(f"node '{node.name}'")  # the op's node, named like its source
    about = "" if not error.where or is_same else f"{error.where}: "
    return [Problem(f"{about}{error.message}", node.where, error.hint)]


def _reason(problem: Problem, node: SourceNode) -> str:
    prefix = "" if problem.where == node.where else f"{problem.where}: "
    return prefix + problem.message
