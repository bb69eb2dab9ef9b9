"""Candidates: the backends among which `auto` chooses."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from dovetail.errors import ConfigError, DovetailError, PluginError
from dovetail.ir import DType, Spec
from dovetail.ops import NodeView, OpRegistry
from dovetail.plugins import names
from dovetail.runtime.choice.options import AutoOptions
from dovetail.runtime.contract import SUPPORTED, Support
from dovetail.runtime.installed import backend_class
from dovetail.runtime.names import AUTO, COMPOSITE
from dovetail.runtime.placement.members import Member, close_all, create_members
from dovetail.runtime.placement.options import (
    HeteroDeviceConfig,
    HeteroGraphConfig,
    HeteroOptions,
    find_faults,
    find_missing,
)
from dovetail.runtime.placement.report import Candidate
from dovetail.runtime.plugin_errors import translate_errors

log = logging.getLogger("dovetail.auto")


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates of a backend handle.

    Attributes:
        usable: Those that have started, in the order of preference.
        unusable: The others, with the reasons.
    """

    usable: tuple[Member, ...]
    unusable: tuple[Candidate, ...]

    @classmethod
    def of(cls, ops: OpRegistry, options: AutoOptions) -> Candidates:
        """Create the candidates that options name, else all native backends.

        Raises:
            ConfigError: The options have faults, those of candidates included.
            PluginError: Named candidates are not installed; all are listed.
        """
        if faults := find_faults(options):
            raise ConfigError("the options have faults", where="auto", problems=faults)
        if missing := find_missing(options):
            raise PluginError(
                "candidates are not installed",
                code="PLUGIN_MISSING",
                where="auto",
                problems=missing,
            )
        usable: list[Member] = []
        unusable: list[Candidate] = []
        chosen = _native(unusable) if options.order is None else options.order
        for name in options.members.keys() - {*chosen}:
            log.warning("the options of backend '%s' are not used: it is no candidate", name)
        try:
            for name in chosen:
                _create(name, ops, options, usable, unusable)
        except BaseException:
            close_all((member.name, member.plugin) for member in usable)
            raise
        if options.order is None:
            usable.sort(key=lambda m: (-m.capabilities.power_efficiency, m.name))
        return cls(tuple(usable), tuple(unusable))


def _native(unusable: list[Candidate]) -> list[str]:
    """Return the installed backends that are native; add those that cannot be loaded."""
    found = []
    for name in names("dovetail.backends"):
        if name in COMPOSITE:
            continue
        try:
            if getattr(backend_class(name), "is_native", False):
                found.append(name)
        except PluginError as error:
            unusable.append(Candidate(name, excluded=reason_of(error)))
    return found


def _create(
    name: str,
    ops: OpRegistry,
    options: AutoOptions,
    usable: list[Member],
    unusable: list[Candidate],
) -> None:
    """Create a candidate and add it to those that can be used, or to the others.

    Raises:
        ConfigError: Its options are wrong.
    """
    own = {name: options.members[name]} if name in options.members else {}
    try:
        (member,) = create_members(ops, HeteroOptions(order=(name,), members=own))
    except ConfigError:
        raise
    except DovetailError as error:
        unusable.append(Candidate(name, excluded=reason_of(error)))
        return
    reason = ""
    if member.capabilities.records_only:
        reason = "records calls and computes nothing"
    elif options.order is None and not getattr(member.plugin, "is_native", False):
        reason = f"the device is the processor; {AUTO}:{name},cpu tries it"
    if reason:
        close_all([(name, member.plugin)])
        unusable.append(Candidate(name, excluded=reason))
        return
    usable.append(member)


def reason_of(error: DovetailError) -> str:
    """Return an error in one line: its message and its first problem."""
    problems = [str(problem) for problem in error.problems[:1]]
    more = len(error.problems) - 1
    rest = [f"and {more} more"] if more > 0 else []
    return "; ".join([error.message, *problems, *rest])


@dataclass(frozen=True, slots=True)
class NarrowMember(Member):
    """A candidate that rounds float32 values more than is accepted: it gets no nodes with them.

    Quantize and Dequantize only read or only write them, so that it may run these.

    Attributes:
        verdict: Why it does not get such nodes.
    """

    verdict: Support = SUPPORTED

    def validate(
        self, node: NodeView, device: HeteroDeviceConfig, config: HeteroGraphConfig
    ) -> Support:
        """Return whether it supports a node and may run it, with the reason if not."""
        if any(map(_is_float32, node.ins)) and any(map(_is_float32, node.outs)):
            return self.verdict
        return Member.validate(self, node, device, config)


def _is_float32(spec: Spec | None) -> bool:
    return spec is not None and spec.dtype is DType.FLOAT_32


def restricted(member: Member, config: HeteroGraphConfig, options: AutoOptions) -> Member:
    """Return a candidate that gets only nodes for which its precision is accepted.

    Args:
        member: The candidate.
        config: Settings of the graph.
        options: The options of `auto`.
    """
    ask = getattr(member.plugin, "float_precision", None)
    if ask is None:
        return member
    with translate_errors(member.name, "`float_precision` failed", "GRAPH_ERROR_GENERAL"):
        found = ask(member.config(config, member.plugin.configs.graph))
    if found in options.accepted:
        return member
    allowed = tuple(each.value for each in options.accepted)
    verdict = Support(False, "precision", "rounding of float32 values", found.value, allowed)
    return NarrowMember(member.name, member.plugin, member.capabilities, verdict=verdict)
