"""Placing: the backend of each node of a graph, the parts, and what must hold of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dovetail.errors import BackendError, ConfigError, Problem, suggest_name
from dovetail.ops import CheckedGraph, NodeView
from dovetail.ops.simulate import keeps_stored
from dovetail.runtime.contract import Support
from dovetail.runtime.placement.flow import Flow, seam_bytes
from dovetail.runtime.placement.members import Member
from dovetail.runtime.placement.moves import moved
from dovetail.runtime.placement.options import HeteroDeviceConfig, HeteroGraphConfig, HeteroOptions
from dovetail.runtime.placement.partition import partition
from dovetail.runtime.placement.report import Moved, Placement, Share


@dataclass(frozen=True, slots=True)
class PlacedPart:
    """Nodes of a graph that one member runs together.

    Attributes:
        member: Index of the member.
        nodes: The nodes, in topological order.
    """

    member: int
    nodes: tuple[NodeView, ...]


def place(
    graph: CheckedGraph,
    members: Sequence[Member],
    options: HeteroOptions,
    device: HeteroDeviceConfig,
    config: HeteroGraphConfig,
) -> tuple[tuple[PlacedPart, ...], Placement]:
    """Return the parts of a graph in the order in which they run, and the report.

    Args:
        graph: The graph.
        members: The members.
        options: The options of `hetero`.
        device: Settings of the device.
        config: Settings of the graph.

    Raises:
        ConfigError: Pins name nodes that the graph does not have; all are listed.
        BackendError: PLACEMENT_CHECK_FAILED: a backend does not support a node that is pinned to
            it, a node is on a forbidden backend, or the first backend runs too little; everything
            that is wrong is listed.
    """
    return _Placing(graph, members, options, device, config).result()


class _Placing:
    """The placing of one graph; nodes and members are indices."""

    def __init__(
        self,
        graph: CheckedGraph,
        members: Sequence[Member],
        options: HeteroOptions,
        device: HeteroDeviceConfig,
        config: HeteroGraphConfig,
    ) -> None:
        self._graph = graph
        self._nodes = graph.nodes
        self._members = members
        self._options = options
        self._configs = device, config
        self._verdicts: dict[tuple[int, int], Support] = {}
        self._pinned = self._find_pinned({**options.pin, **config.pin})
        self._macs = [_macs(view) for view in graph.nodes]
        # the first choice, before any moves
        self._chosen = [self._choice(i) for i in range(len(self._nodes))]

    def result(self) -> tuple[tuple[PlacedPart, ...], Placement]:
        """Return the parts and the report; see `place`."""
        flow, owner = Flow.of(self._graph), self._chosen
        part = partition(flow, owner)
        better = moved(flow, owner, part, self._may_run)
        if self._fraction(better[0]) >= self._options.min_fraction:
            owner, part = better
        parts = self._parts(owner, part)
        shares = tuple(self._share(m, owner, parts) for m in range(len(self._members)))
        exiled = tuple(
            Moved(view.node.where, self._members[owner[i]].name, self._reason(i, owner[i]))
            for i, view in enumerate(self._nodes)
            if owner[i]
        )
        report = Placement(shares, exiled, seam_bytes(flow.links, part))
        if faults := [*self._impossible(), *self._forbidden(owner), *self._shortfall(report)]:
            raise BackendError(
                "the placement breaks the contract of the config",
                code="PLACEMENT_CHECK_FAILED",
                where=self._graph.where,
                hint="the first lines say what must hold; change the model or `[placement]`",
                problems=faults,
            )
        return parts, report

    # -- choices ---------------------------------------------------------------------------------

    def _verdict(self, node: int, member: int) -> Support:
        key = node, member
        if key not in self._verdicts:
            asked = self._members[member]
            self._verdicts[key] = asked.validate(self._nodes[node], *self._configs)
        return self._verdicts[key]

    def _find_pinned(self, pin: Mapping[str, str]) -> dict[int, int]:
        """Return the member of each pinned node.

        Raises:
            ConfigError: Pins match no node; all are listed.
        """
        index = {member.name: m for m, member in enumerate(self._members)}
        known: dict[str, list[int]] = {}
        for i, view in enumerate(self._nodes):
            for name in {view.node.name, *view.node.sources}:
                known.setdefault(name, []).append(i)
        if unknown := [name for name in pin if name not in known]:
            raise ConfigError(
                "pinned nodes not found",
                where=self._graph.where,
                problems=[
                    Problem(f"node '{n}' not found", "pin", suggest_name(n, known)) for n in unknown
                ],
            )
        return {i: index[backend] for name, backend in pin.items() for i in known[name]}

    def _choice(self, node: int) -> int:
        """Return the pinned member of a node, or the first one that supports it."""
        if node in self._pinned:
            return self._pinned[node]
        found = (m for m in range(len(self._members)) if self._verdict(node, m).ok)
        return next(found, 0)  # every node has been validated

    def _may_run(self, node: int, member: int) -> bool:
        """Return whether a node may move to a member.

        Nodes that multiply stay: they would cost more there than is saved. So do nodes that compute
        stored integers from others: backends may round them in other ways.
        """
        if member == self._chosen[node]:
            return True
        if node in self._pinned or self._macs[node] or _computes_integers(self._nodes[node]):
            return False
        is_forbidden = self._members[member].name in self._options.forbid
        return not is_forbidden and self._verdict(node, member).ok

    # -- results ---------------------------------------------------------------------------------

    def _parts(self, owner: Sequence[int], part: Sequence[int]) -> tuple[PlacedPart, ...]:
        """Return the parts in order; a graph without nodes is one part, too."""
        nodes: dict[int, list[int]] = {}
        for i, p in enumerate(part):
            nodes.setdefault(p, []).append(i)
        found = (
            PlacedPart(owner[each[0]], tuple(self._nodes[i] for i in each))
            for _, each in sorted(nodes.items())
        )
        return tuple(found) or (PlacedPart(0, ()),)

    def _share(self, member: int, owner: Sequence[int], parts: Sequence[PlacedPart]) -> Share:
        macs = [self._macs[i] for i, m in enumerate(owner) if m == member]
        count = sum(part.member == member for part in parts)
        return Share(self._members[member].name, len(macs), sum(macs), count)

    def _reason(self, node: int, member: int) -> str:
        """Return the first reason why a node is not on the first member."""
        if node in self._pinned:
            return "pinned by the config"
        if member != self._chosen[node]:
            return "moved to its neighbors, so that fewer bytes pass from part to part"
        return str(self._verdict(node, 0))

    # -- what must hold --------------------------------------------------------------------------

    def _impossible(self) -> Iterator[Problem]:
        for node, member in self._pinned.items():
            if not (verdict := self._verdict(node, member)).ok:
                name = self._members[member].name
                text = f"pinned to '{name}', which does not support it: {verdict}"
                yield Problem(text, self._nodes[node].node.where)

    def _forbidden(self, owner: Sequence[int]) -> Iterator[Problem]:
        for i, view in enumerate(self._nodes):
            name = self._members[owner[i]].name
            if name in self._options.forbid:
                reason = f": {self._reason(i, owner[i])}" if owner[i] else ""
                yield Problem(f"would run on forbidden backend '{name}'{reason}", view.node.where)

    def _fraction(self, owner: Sequence[int]) -> float:
        """Return the fraction on the first member, of nodes or MACs, whichever is smaller."""
        first = [i for i, member in enumerate(owner) if not member]
        macs = sum(self._macs)
        of_macs = sum(self._macs[i] for i in first) / macs if macs else 1.0
        return min(len(first) / len(owner), of_macs) if owner else 1.0

    def _shortfall(self, report: Placement) -> Iterator[Problem]:
        needed, share, is_short = self._options.min_fraction, report.shares[0], False
        for unit, counts in (
            ("nodes", [s.nodes for s in report.shares]),
            ("MACs", [s.macs for s in report.shares]),
        ):
            if (total := sum(counts)) and counts[0] / total < needed:
                is_short = True
                yield Problem(
                    f"backend '{share.backend}' runs {counts[0]:,} of {total:,} {unit}, "
                    f"{counts[0] / total:.2%}; min_fraction is {needed:.2%}"
                )
        if is_short:
            yield from (Problem(f"on '{m.backend}': {m.reason}", m.node) for m in report.moved)


def _computes_integers(view: NodeView) -> bool:
    """Return whether a node has fixed-point inputs and outputs, and does more than move values."""
    if view.is_opaque:
        return False
    schema, _ = view.definition
    return (
        any(spec is not None and spec.dtype.is_fixed_point for spec in view.ins)
        and any(spec.dtype.is_fixed_point for spec in view.outs)
        and not keeps_stored(schema.domain, view.ins, view.outs)
    )


def _macs(view: NodeView) -> int:
    if view.is_opaque:
        return 0
    schema, op = view.definition
    return schema.work(op, view.ins, view.outs)
