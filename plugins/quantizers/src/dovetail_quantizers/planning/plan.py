"""The plan of one graph: its fixed-point nodes, and the source of each encoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from dovetail.calibration import RangeEstimator
from dovetail.ir import DType, Graph, Node, Tensor
from dovetail.ops import OpRegistry
from dovetail.quantization import QuantizationOptions
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.groups import Group, clips_flat_parts, find_groups
from dovetail_quantizers.planning.masks import Masks
from dovetail_quantizers.planning.overrides import Overrides
from dovetail_quantizers.planning.precision import (
    Float,
    all_float,
    fallen_back,
    float_nodes,
    touches_floats,
)
from dovetail_quantizers.planning.recipe import Recipe, Recipes
from dovetail_quantizers.planning.value_range import EVERYTHING_COUNTS, Far, RowFloor

T = TypeVar("T")


@dataclass(slots=True)
class Plan:
    """The plan for quantizing a float graph.

    Attributes:
        graph: The graph.
        ops: Finds its ops.
        options: The user's options.
        recipes: The recipes of the options.
        groups: The group of each tensor that is encoded like an activation.
        floats: Nodes that stay float.
        overrides: Given decisions.
        given: Given encodings, by group; these groups need no calibration.
        widths: Given bitwidths of groups without a given encoding.
        types: Given types of groups without a given encoding.
        notes: Notes for the user.
    """

    graph: Graph
    ops: OpRegistry
    options: QuantizationOptions
    recipes: Recipes
    groups: Mapping[Tensor, Group]
    floats: Mapping[Node, Float]
    overrides: Overrides
    given: Mapping[Group, EncodingDecision] = field(default_factory=dict)
    widths: Mapping[Group, int] = field(default_factory=dict)
    types: Mapping[Group, DType] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def is_fixed(self, node: Node) -> bool:
        """Return whether a node works on fixed-point tensors."""
        return node not in self.floats and touches_floats(node)

    def needed(self) -> Iterator[Group]:
        """Yield the groups that fixed-point nodes read or write, each once, in order."""
        done: set[Group] = set()
        for tensor, group in self.groups.items():
            if group in done or tensor.kind.is_static:
                continue
            producer = self.graph.producer(tensor)
            nodes = (*self.graph.consumers(tensor), *((producer,) if producer else ()))
            if any(self.is_fixed(node) for node in nodes):
                done.add(group)
                yield group

    def followed(self) -> dict[Tensor, EncodingDecision]:
        """Return the given encoding of each activation, be it given for one that it shares with."""
        return {
            tensor: self.given[group]
            for tensor, group in self.groups.items()
            if group in self.given and not tensor.kind.is_static
        }

    def watched(self) -> dict[str, Sequence[Tensor]]:
        """Return the tensors to observe, by the name of their group's leader."""
        return {
            group.leader.name: tuple(group.floors or group.sources)
            for group in self.needed()
            if group.sources and group not in self.given
        }

    def counting(self) -> dict[str, RowFloor | Far]:
        """Return which values of watched tensors count, by name; all values of others do."""
        found: dict[str, RowFloor | Far] = {}
        for group in self.needed():
            found |= {tensor.name: floor for tensor, floor in group.floors.items()}
            if group.far != EVERYTHING_COUNTS:
                found |= {tensor.name: group.far for tensor in group.sources}
        return found

    def how(self, group: Group) -> str:
        """Return what the range of a group depends on, besides the observed values, as text."""
        return f"{self.recipe(group).signature} {list(group.floors.values())} {group.far}"

    def note_infinities(self, tensor: Tensor) -> None:
        """Record, once, that an end of a tensor's grid represents infinities."""
        note = (
            f"an end of the grid of '{tensor.source}', far from the other values, represents "
            "infinities"
        )
        if note not in self.notes:
            self.notes.append(note)

    def recipe(self, group: Group) -> Recipe:
        """Return the recipe for the grid of a group."""
        recipe = self.recipes.activation
        if group in self.types:
            return recipe.of_type(self.types[group])
        width = self.widths.get(group, recipe.bitwidth)
        return recipe if width == recipe.bitwidth else recipe.with_bitwidth(width)

    def estimators(self) -> dict[str, RangeEstimator]:
        """Create an estimator for each group that is observed."""
        return {
            group.leader.name: self.recipe(group).new_estimator()
            for group in self.needed()
            if group.sources and group not in self.given
        }


def make_plan(
    graph: Graph,
    ops: OpRegistry,
    options: QuantizationOptions,
    recipes: Recipes,
    overrides: Overrides,
    *,
    floats_only: bool = False,
) -> Plan:
    """Return the plan of a float graph.

    Args:
        graph: The graph that the plan will annotate; not changed here.
        ops: Finds ops.
        options: The user's options.
        recipes: The recipes of the options.
        overrides: Given decisions on the graph's tensors.
        floats_only: Whether all tensors stay float.
    """
    groups = find_groups(graph, ops, options, overrides.claims, overrides.floats)
    if clips_flat_parts(options):
        Masks(graph, ops, groups).find()
    chosen = dict(overrides.floats)
    if options.float_fallback:
        missing = fallen_back(
            graph, ops, groups, overrides.encodings.keys(), options.float_bitwidth
        )
        chosen = missing | chosen
    elif floats_only:
        chosen = all_float(graph, ops, options.float_bitwidth)
    pinned = overrides.encodings.keys() | overrides.widths.keys()
    return Plan(
        graph,
        ops,
        options,
        recipes,
        groups,
        float_nodes(graph, ops, groups, chosen, pinned, options.float_bitwidth),
        overrides,
        _of_groups(groups, overrides.encodings),
        _of_groups(groups, overrides.widths),
        _of_groups(groups, overrides.types),
        overrides.notes,
    )


def _of_groups(groups: Mapping[Tensor, Group], given: Mapping[Tensor, T]) -> dict[Group, T]:
    return {groups[tensor]: value for tensor, value in given.items() if tensor in groups}
