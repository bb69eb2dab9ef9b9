"""Contract of architecture rules, which find what makes a network slow on its target.

A rule is a class that an entry point of `dovetail.architecture_rules` loads. It is created without
arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Protocol, cast, runtime_checkable

from dovetail.ir import Graph, Node, Pass
from dovetail.plugins import load_all

GROUP = "dovetail.architecture_rules"


@dataclass(frozen=True, slots=True)
class Issue:
    """A node, or a graph, that a rule advises to change.

    Attributes:
        node: The node; None for the graph.
        text: What is slow about it, and why.
        recommendation: What to do.
        modification: What the rule's change does with the node; empty if it leaves it alone.
    """

    node: Node | None
    text: str
    recommendation: str
    modification: str = ""


@runtime_checkable
class ArchitectureRule(Protocol):
    """Finds issues of one kind.

    Attributes:
        name: Name of its entry point.
        change: The pass that modifies the nodes of issues that have a modification, and no others;
            None if there are none. It may change results: the user then trains again.
    """

    name: ClassVar[str]
    change: ClassVar[Pass | None]

    def issues(self, graph: Graph) -> Iterable[Issue]:
        """Return the issues of a graph of the standard op set, in the order of its nodes."""


def installed_rules() -> dict[str, ArchitectureRule]:
    """Return the rules of all installed plugins by name, in alphabetic order.

    Broken plugins are left out, with a warning.
    """
    loaded = load_all(GROUP)
    return {name: cast("type[ArchitectureRule]", loaded[name])() for name in sorted(loaded)}
