"""Comparison of two models, graph by graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from dovetail.container import Difference, Model
from dovetail.ir import Graph
from dovetail_tools._model_diff.matching import Matches, match_nodes
from dovetail_tools._model_diff.structure import (
    ABSENT,
    NodeDiff,
    interface_differences,
    node_diffs,
)
from dovetail_tools._model_diff.weights import Tolerance, WeightsDiff, compare_weights


class StructureDiff(msgspec.Struct, frozen=True):
    """The structures of two graphs.

    Attributes:
        interface: Differences of inputs and outputs.
        nodes: Matched nodes that differ.
        only_first: Names of nodes of the first graph without a counterpart.
        only_second: Those of the second graph.
    """

    interface: tuple[Difference, ...]
    nodes: tuple[NodeDiff, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """True if nothing differs."""
        return not (self.interface or self.nodes or self.only_first or self.only_second)


class GraphDiff(msgspec.Struct, frozen=True):
    """Two graphs.

    Attributes:
        first, second: Their names.
        matched: Number of nodes matched in each way.
        structure: Their structures; None if they are not compared.
        weights: Their weights; None if they are not compared.
    """

    first: str
    second: str
    matched: dict[str, int]
    structure: StructureDiff | None
    weights: WeightsDiff | None

    @property
    def is_equal(self) -> bool:
        """True if nothing that was compared differs."""
        parts = (self.structure, self.weights)
        return all(part is None or part.is_equal for part in parts)


class ModelDiff(msgspec.Struct, frozen=True):
    """Two models.

    Attributes:
        op_packages: Versions of op packages that differ.
        graphs: The graphs in both.
        only_first: Names of graphs of the first model without a counterpart.
        only_second: Those of the second model.
    """

    op_packages: tuple[Difference, ...]
    graphs: tuple[GraphDiff, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """True if nothing that was compared differs."""
        lists = (self.op_packages, self.only_first, self.only_second)
        return not any(lists) and all(graph.is_equal for graph in self.graphs)


@dataclass(frozen=True, slots=True)
class Scope:
    """The parts that are compared, and the tolerance.

    Attributes:
        structure: Whether structures are compared.
        weights: Whether weights are compared.
        tolerance: Of weights.
    """

    structure: bool = True
    weights: bool = True
    tolerance: Tolerance = field(default_factory=Tolerance)


def diff_models(first: Model, second: Model, scope: Scope) -> ModelDiff:
    """Compare two models: graphs of the same name, or the only ones.

    Raises:
        ContainerError: Data are damaged.
    """
    pairs = [(graph, second.graphs[n]) for n, graph in first.graphs.items() if n in second.graphs]
    if len(first.graphs) == len(second.graphs) == 1:
        pairs = list(zip(first.graphs.values(), second.graphs.values(), strict=True))
    ours, theirs = {a.name for a, _ in pairs}, {b.name for _, b in pairs}
    return ModelDiff(
        tuple(_package_differences(first, second)) if scope.structure else (),
        tuple(_diff_graphs(a, b, scope) for a, b in pairs),
        tuple(name for name in first.graphs if name not in ours),
        tuple(name for name in second.graphs if name not in theirs),
    )


def _package_differences(first: Model, second: Model) -> Iterator[Difference]:
    for name in sorted(first.op_packages | second.op_packages):
        versions = [model.op_packages.get(name, ABSENT) for model in (first, second)]
        if versions[0] != versions[1]:
            yield Difference(name, *versions)


def _diff_graphs(first: Graph, second: Graph, scope: Scope) -> GraphDiff:
    matches = match_nodes(first, second)
    return GraphDiff(
        first.name,
        second.name,
        dict(Counter(map(str, matches.ways.values()))),
        _diff_structures(first, second, matches) if scope.structure else None,
        compare_weights(first, second, matches, scope.tolerance) if scope.weights else None,
    )


def _diff_structures(first: Graph, second: Graph, matches: Matches) -> StructureDiff:
    return StructureDiff(
        tuple(interface_differences(first, second)),
        tuple(node_diffs(first, second, matches)),
        tuple(node.name for node in first.nodes if node not in matches.nodes),
        tuple(node.name for node in second.nodes if node not in matches.used),
    )
