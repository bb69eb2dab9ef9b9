"""Groups of tensors that share one encoding.

Tensors between which values are only moved share an encoding. So do, unless this is switched off,
the input and output of a Relu or clip: clipped values need no points on the grid.

A given encoding is only shared with tensors whose values its tensors contain. The range of a slice
or of a maximum pool would clip what other nodes read from the input.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from dovetail.ir import DType, Graph, Node, ScaleOffset, Tensor
from dovetail.ops import OpRegistry, Range
from dovetail.quantization import QuantizationOptions, Style
from dovetail_opset import is_op
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.roles import schema_of
from dovetail_quantizers.planning.rules import (
    added_by,
    fixed_range,
    is_quantized,
    joins,
    kept_by,
    op_of,
)
from dovetail_quantizers.planning.value_range import (
    Far,
    RowFloor,
    ValueRange,
    span,
    value_range_of,
    values_of,
)

# A join may widen the grid of a known range by as much.
_WIDER = 8


class Claim(NamedTuple):
    """A given encoding, width or type of a tensor.

    Attributes:
        value: The content; tensors with equal ones can share an encoding.
        given: The given encoding; None for other claims, whose range is observed.
    """

    value: Hashable
    given: EncodingDecision | None = None


class Bound(NamedTuple):
    """Values that an op adds to a group.

    Attributes:
        range: The range of these values.
        where: The node.
        encodings: The encodings that the op prescribes for them, by type.
        node: The node if the range of its input may narrow that of its result.
    """

    range: Range
    where: str
    encodings: Mapping[DType, ScaleOffset] = MappingProxyType({})
    node: Node | None = None


@dataclass(eq=False, slots=True)
class Group:
    """Tensors with one encoding.

    Attributes:
        members: In the order of the graph, with constants.
        sources: Members with new values, which are observed.
        constants: Static members.
        bounds: Ranges that are known from ops.
        inside: Nodes that only move or clip values within the group.
        choosing: Nodes that move values within the group, and have other results that depend on
            values that they do not move: the indices of the largest ones.
        states: Members with the encoding of a node's state, whose clipping would change every
            following step.
        squashed: Members whose own range does not count, with the nodes that clip them.
        needed: The range in which the consumers are not flat: values beyond are clipped.
        floors: Members that only Softmaxes read, and their values that count; see `masks`.
        far: The limits from which numbers represent infinity.
    """

    members: dict[Tensor, None] = field(default_factory=dict)
    sources: dict[Tensor, None] = field(default_factory=dict)
    constants: dict[Tensor, None] = field(default_factory=dict)
    bounds: list[Bound] = field(default_factory=list)
    inside: set[Node] = field(default_factory=set)
    choosing: set[Node] = field(default_factory=set)
    states: dict[Tensor, None] = field(default_factory=dict)
    squashed: dict[Tensor, Node] = field(default_factory=dict)
    needed: Range = (-math.inf, math.inf)
    floors: dict[Tensor, RowFloor] = field(default_factory=dict)
    far: Far = field(default_factory=Far)

    @property
    def leader(self) -> Tensor:
        """The tensor that the others share the encoding of."""
        return next(iter(self.sources or self.members))

    def known_range(self, of: Callable[[Bound], Range] | None = None) -> ValueRange | None:
        """Return the range that is known without observing: constants and bounds.

        Args:
            of: Returns the range of a bound, which may depend on other groups.
        """
        ranges = [ValueRange(*(of(bound) if of else bound.range)) for bound in self.bounds]
        for tensor in self.constants:
            values = values_of(tensor)
            if values.size:
                ranges.append(value_range_of(values, self.far))
        return functools.reduce(ValueRange.joined, ranges) if ranges else None


def find_groups(
    graph: Graph,
    ops: OpRegistry,
    options: QuantizationOptions,
    claims: Mapping[Tensor, Claim],
    floats: Container[Node] = (),
) -> Mapping[Tensor, Group]:
    """Return the group of each tensor that takes an encoding as an activation does.

    Args:
        graph: A float graph; not changed.
        ops: Finds ops.
        options: Whether the tensors of a Concat share, whether the input of a Relu shares with its
            output, and whether ranges end where consumers are flat.
        claims: Given encodings and widths; tensors with different ones do not share.
        floats: Nodes that stay float: what such a Concat joins needs no common grid.
    """
    finder = _Finder(graph, ops, claims, narrows=clips_flat_parts(options))
    # first the ops that lose no values: then each group has all claims that are valid for it
    spares = options.quantization_style is Style.DOVETAIL
    for node in sorted(graph.nodes, key=lambda node: not op_of(node, ops).keeps_all):
        is_float_join = node in floats and joins(schema_of(node, ops))
        if not is_float_join and not (spares and finder.would_coarsen(node)):
            finder.move(node, *kept_by(node, ops, options.concat))
    if not options.disable_relu_squashing:
        for node in graph.nodes:
            if op_of(node, ops).clips:
                finder.squash(node)
    if clips_flat_parts(options):
        finder.limit()
    for node in graph.nodes:
        if (known := fixed_range(node, ops)) is not None:
            finder.fix(node, known)
    return finder.groups


def clips_flat_parts(options: QuantizationOptions) -> bool:
    """Return whether values do not count for which other consumers than a Relu are flat."""
    return not options.disable_relu_squashing and options.quantization_style is Style.DOVETAIL


class _Finder:
    def __init__(
        self, graph: Graph, ops: OpRegistry, claims: Mapping[Tensor, Claim], *, narrows: bool
    ) -> None:
        self.groups: dict[Tensor, Group] = {}
        self._narrows = narrows
        self._graph = graph
        self._ops = ops
        self._claims = claims
        for tensor in _flowing(graph):
            self.groups[tensor] = Group({tensor: None}, {tensor: None})
        for node in graph.nodes:
            for i in schema_of(node, ops).op.state_outputs:
                if i < len(node.outputs) and (group := self.groups.get(node.outputs[i])):
                    group.states[node.outputs[i]] = None

    def move(self, node: Node, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> None:
        """Join the tensors between which a node only moves values."""
        if not inputs:
            return
        for tensor in (t for t in inputs if t not in self.groups):  # constants
            self.groups[tensor] = Group({tensor: None}, constants={tensor: None})
        if not self._can_share(node, inputs, outputs):
            return
        merged = self.groups[inputs[0]]
        for other in (*inputs[1:], *outputs):
            merged = self._join(merged, self.groups[other])
        for tensor in outputs:
            merged.sources.pop(tensor, None)
        others = (t for t in node.outputs if t not in outputs)
        (merged.choosing if any(map(self._is_seen, others)) else merged.inside).add(node)
        if (added := added_by(node, self._ops)) is not None:
            merged.bounds.append(Bound(added, node.where))

    def _can_share(
        self, node: Node, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]
    ) -> bool:
        """Return whether what is given for some tensors of a node is valid for all of them."""
        claims = self._claims_of(self.groups[t] for t in (*inputs, *outputs))
        if len({claim.value for claim in claims}) > 1:
            return False
        given = claims[0].given if claims else None
        if given is None:
            return True
        before = [self.groups[t] for t in inputs if not self._is_within(self.groups[t], given)]
        if not before:
            return True  # the results consist of values of the inputs
        after = [t for t in outputs if not self._is_within(self.groups[t], given)]
        keeps_all = op_of(node, self._ops).keeps_all
        if not after and keeps_all and not any(self._is_cut(t) for t in outputs):
            return True
        if any(self._is_seen(t) for t in after):
            return False
        return all(self._is_private(group, node) for group in before)

    def _is_within(self, group: Group, given: EncodingDecision) -> bool:
        """Return whether an encoding is given for a group, or spans it as it is constant."""
        if self._claims_of([group]):
            return True
        known = None if group.sources else group.known_range()
        if known is None or given.ends is None or not isinstance(given.encoding, ScaleOffset):
            return False
        low, high = given.ends
        rounding = given.encoding.scale / 2
        return low - rounding <= known.minimum and known.maximum <= high + rounding

    def _is_cut(self, tensor: Tensor) -> bool:
        """Return whether a given encoding is that of the clips after a tensor, not of its values.

        Other consumers of what the tensor was moved from would see the clips.
        """
        claim, readers = self._claims.get(tensor), self._graph.consumers(tensor)
        return bool(readers) and all(
            op_of(node, self._ops).clips and self._claims.get(node.outputs[0]) == claim
            for node in readers
        )

    def _is_seen(self, tensor: Tensor) -> bool:
        return self._graph.is_output(tensor) or bool(self._graph.consumers(tensor))

    def _is_private(self, group: Group, node: Node) -> bool:
        """Return whether nothing but a node reads values of a group, in this call or the next."""
        if group.states or any(self._graph.is_output(t) for t in group.members):
            return False
        return all(
            reader is node or reader in group.inside
            for tensor in group.members
            for reader in self._graph.consumers(tensor)
        )

    def would_coarsen(self, node: Node) -> bool:
        """Return whether a join would widen the grid of a known range that others read, too.

        As in a YOLO, which computes boxes from parts of a Sigmoid and joins them with other parts.
        """
        if not joins(schema_of(node, self._ops)):
            return False
        groups = dict.fromkeys(self.groups[t] for t in node.inputs if t in self.groups)
        known = {group: self._known_range(group) for group in groups}
        return any(
            own is not None
            and not self._is_private(group, node)
            and any(other is None or span(other) > _WIDER * span(own) for other in known.values())
            for group, own in known.items()
        )

    def _known_range(self, group: Group) -> Range | None:
        """Return the range that ops give a group; None if its values must be observed."""
        makers = [self._graph.producer(tensor) for tensor in group.sources]
        ranges = [None if node is None else fixed_range(node, self._ops) for node in makers]
        found = [known for known in ranges if known is not None]
        if not found or len(found) < len(ranges) or group.constants:
            return None
        return min(low for low, _ in found), max(high for _, high in found)

    def squash(self, node: Node) -> None:
        """Join input and output of a clipping node, if the input has no other consumer."""
        cut, left = node.inputs[0], node.outputs[0]
        if cut is None or cut not in self.groups or left not in self.groups:
            return
        before, after = self.groups[cut], self.groups[left]
        if before is after or before.constants or before.bounds or before.states:
            return
        # an encoding of the input is not valid for the output
        if self._claimed(before) and self._claimed(before) != self._claimed(after):
            return
        if any(not self._is_hidden(t, before, node) for t in before.members):
            return
        sources = dict(before.sources)
        merged = self._join(before, after)
        for tensor in sources:
            del merged.sources[tensor]
            merged.squashed[tensor] = node
        merged.inside.add(node)

    def limit(self) -> None:
        """Find the ranges in which the consumers of each group are not flat."""
        for group in dict.fromkeys(self.groups.values()):
            if group.states or any(not t.kind.is_internal for t in group.members):
                continue
            readers = {n for t in group.members for n in self._graph.consumers(t)} - group.inside
            needs = [op_of(node, self._ops).flat_beyond for node in readers]
            if needs:
                low, high = min(n[0] for n in needs), max(n[1] for n in needs)
                group.needed = (min(low, 0.0), max(high, 0.0))

    def fix(self, node: Node, known: Range) -> None:
        """Use the fixed range of an op's output instead of observing it."""
        group = self.groups.get(node.outputs[0])
        if group is not None and node.outputs[0] in group.sources:
            del group.sources[node.outputs[0]]
            encodings = op_of(node, self._ops).result_encodings
            rises = node if self._narrows and is_op(node, "Sigmoid", "Tanh") else None
            group.bounds.append(Bound(known, node.where, encodings, rises))

    def _is_hidden(self, tensor: Tensor, group: Group, last: Node) -> bool:
        if not tensor.kind.is_internal:
            return False
        return all(n is last or n in group.inside for n in self._graph.consumers(tensor))

    def _claims_of(self, groups: Iterable[Group]) -> list[Claim]:
        return [self._claims[t] for group in groups for t in group.members if t in self._claims]

    def _claimed(self, group: Group) -> set[Hashable]:
        return {claim.value for claim in self._claims_of([group])}

    def _join(self, one: Group, other: Group) -> Group:
        if one is other:
            return one
        one.members |= other.members
        one.sources |= other.sources
        one.constants |= other.constants
        one.bounds += other.bounds
        one.inside |= other.inside
        one.choosing |= other.choosing
        one.states |= other.states
        one.squashed |= other.squashed
        for tensor in other.members:
            self.groups[tensor] = one
        return one


def _flowing(graph: Graph) -> Iterator[Tensor]:
    """Yield every quantized tensor that is not static: inputs and outputs of nodes."""
    for tensor in graph.tensors.values():
        if is_quantized(tensor) and not tensor.kind.is_static:
            yield tensor
