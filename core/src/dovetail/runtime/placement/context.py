"""Contexts of `hetero`: the members' contexts, and graphs in parts on them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from dovetail.container import WeightStore
from dovetail.ir import Tensor
from dovetail.ops import CheckedGraph
from dovetail.runtime.base import unsupported
from dovetail.runtime.contract import (
    BackendContext,
    Binding,
    Fingerprint,
    Image,
    MemoryDescriptor,
    Prepared,
    PrepareRequest,
    Restored,
)
from dovetail.runtime.interface import Interface
from dovetail.runtime.placement.images import (
    StoredGraph,
    StoredPart,
    joined_image,
    require_members,
    stored_graphs,
)
from dovetail.runtime.placement.members import Member, close_all
from dovetail.runtime.placement.options import (
    HeteroContextConfig,
    HeteroDeviceConfig,
)
from dovetail.runtime.placement.parts import part_graphs
from dovetail.runtime.placement.placing import PlacedPart, place
from dovetail.runtime.placement.prepared import HeteroPrepared, PreparedPart, recorded_as
from dovetail.runtime.placement.report import Placement
from dovetail.runtime.placement.restoring import restore_graphs
from dovetail.runtime.plugin_errors import translate_errors

if TYPE_CHECKING:  # it opens contexts
    from dovetail.runtime.placement.backend import HeteroBackend


class HeteroContext:
    """A context of each member, and graphs whose parts are prepared in them.

    Args:
        backend: The backend.
        device: Settings of the device.
        config: Settings of the context.
        weights: Forms of constants; each member has a sibling, which its images are made of.
    """

    def __init__(
        self,
        backend: HeteroBackend,
        device: HeteroDeviceConfig,
        config: HeteroContextConfig,
        weights: WeightStore,
    ) -> None:
        self._backend = backend
        self._device = device
        self._config = config
        self._weights = weights
        self._contexts: dict[str, BackendContext] = {}
        try:
            self.open_members()
        except BaseException:
            self.close()
            raise

    @property
    def device(self) -> HeteroDeviceConfig:
        """Settings of the device."""
        return self._device

    def open_members(self) -> None:
        """Open the contexts of all members.

        Raises:
            BackendError: A member failed.
        """
        for member in self._backend.members:
            self._context(member)

    def prepare(self, graph: CheckedGraph, request: PrepareRequest) -> HeteroPrepared:
        """Partition a graph and prepare its parts; see `BackendContext.prepare`.

        Raises:
            ConfigError: The graph's config names other backends than the members, or pins nodes
                that the graph does not have.
            BackendError: The placement breaks the contract of the config, or a member failed.
        """
        config = self._backend.graph_config(request.config)
        members = self._backend.members
        parts, report = place(graph, members, self._backend.options, self._device, config)
        return self._prepare_parts(graph, members, parts, report, request)

    def _prepare_parts(
        self,
        graph: CheckedGraph,
        members: Sequence[Member],
        parts: Sequence[PlacedPart],
        report: Placement,
        request: PrepareRequest,
    ) -> HeteroPrepared:
        """Prepare the parts of a graph.

        Args:
            graph: The graph.
            members: The members that the parts have indices of.
            parts: The parts.
            report: The report on them.
            request: How to prepare the graph.
        """
        owners = [members[part.member] for part in parts]
        names = _part_names(graph.name, owners)
        graphs = part_graphs(graph, names, [[v.node for v in part.nodes] for part in parts])
        made: list[PreparedPart] = []
        try:
            for name, member, part in zip(names, owners, graphs, strict=True):
                request.control.check()
                own = self._request(request, member)
                with (
                    translate_errors(
                        member.name, "`prepare` failed", "GRAPH_ERROR_FINALIZE_FAILED"
                    ),
                    recorded_as(member.name, request.record),
                ):
                    prepared = self._context(member).prepare(part, own)
                made.append(_prepared_part(name, member, part, prepared))
        except BaseException:
            close_all((part.backend, part.prepared) for part in made)
            raise
        return HeteroPrepared(Interface.of(graph.name, graph.inputs, graph.outputs), made, report)

    def image(self, graphs: Mapping[str, Prepared]) -> Image:
        """Return the images of the parts in one; see `BackendContext.image`.

        Raises:
            BackendError: A member lacks the capability `caching`.
        """
        if not self._backend.capabilities().caching:
            raise unsupported("create context binaries", "CONTEXT_ERROR_UNSUPPORTED_FEATURE")
        placed = {name: _hetero(prepared) for name, prepared in graphs.items()}
        images: dict[str, Image] = {}
        members = self._image_members({p.backend for one in placed.values() for p in one.parts})
        for member in members:
            own = {
                part.name: part.prepared
                for prepared in placed.values()
                for part in prepared.parts
                if part.backend == member.name
            }
            context = self._context(member)
            images[member.name] = context.image(own) if own else Image(Fingerprint(), {})
        stored = {name: _stored(prepared, images) for name, prepared in placed.items()}
        fingerprint = self._backend.fingerprint_of(members, self._device)
        return joined_image(tuple(images.values()), fingerprint, stored)

    def restore(
        self,
        image: Image,
        graph: Callable[[str], CheckedGraph] | None,
        request: Callable[[str], PrepareRequest],
    ) -> Mapping[str, Restored]:
        """Restore the parts of graphs; see `BackendContext.restore`.

        Raises:
            BackendError: A member lacks the capability `caching`.
            ContainerError: The image is damaged, of another order or pins, or of members with
                other fingerprints.
        """
        if not self._backend.capabilities().caching:
            raise unsupported("restore context binaries", "CONTEXT_ERROR_UNSUPPORTED_FEATURE")
        stored = stored_graphs(image)
        used = {part.backend for each in stored.values() for part in each.parts}
        members = self._image_members(used)
        image.require(self._backend.fingerprint_of(members, self._device))
        require_members(stored, [member.name for member in self._backend.members])
        return restore_graphs(
            image,
            stored,
            [(member, self._context(member)) for member in members],
            graph,
            lambda member, name: self._request(request(name), member),
        )

    def register_memory(self, descriptor: MemoryDescriptor) -> Binding:
        """Return what a run receives; see `BackendContext.register_memory`.

        Several members share only memory of the host.

        Raises:
            BackendError: The memory is of another kind, or the only member does not support it.
        """
        if len(self._backend.members) == 1:
            return self._context(self._backend.members[0]).register_memory(descriptor)
        if descriptor.array is None:
            raise unsupported("use memory outside the host's", "MEM_ERROR_NOT_SUPPORTED")
        return descriptor.array

    def close(self) -> None:
        """Close the contexts of all members."""
        close_all(self._contexts.items())

    def _context(self, member: Member) -> BackendContext:
        """Return the context of a member; open it at the first call.

        Raises:
            ConfigError: The settings for this member are wrong.
            BackendError: The member failed.
        """
        if member.name not in self._contexts:
            configs = member.plugin.configs
            device = member.config(self._device, configs.device)
            own = member.config(self._config, configs.context)
            with translate_errors(
                member.name, "`open_context` failed", "COMMON_ERROR_RESOURCE_UNAVAILABLE"
            ):
                self._contexts[member.name] = member.plugin.open_context(
                    device, own, self._weights.sibling()
                )
        return self._contexts[member.name]

    def _image_members(self, used: Collection[str]) -> tuple[Member, ...]:
        """Return the members whose images and fingerprints are in an image.

        Args:
            used: Names of the members that run parts of its graphs.
        """
        return self._backend.members

    def _request(self, request: PrepareRequest, member: Member) -> PrepareRequest:
        """Return the request for a part of a graph on a member."""
        config = self._backend.graph_config(request.config)
        return replace(request, config=member.config(config, member.plugin.configs.graph))


def _part_names(graph: str, members: Sequence[Member]) -> list[str]:
    """Return unique names of parts; one part has the name of the graph."""
    if len(members) == 1:
        return [graph]
    return [f"{graph} part {i} on {member.name}" for i, member in enumerate(members)]


def _prepared_part(
    name: str, member: Member, graph: CheckedGraph, prepared: Prepared
) -> PreparedPart:
    params = (t for view in graph.nodes for t in view.node.params.values() if isinstance(t, Tensor))
    return PreparedPart(
        name,
        member.name,
        tuple(view.node.name for view in graph.nodes),
        tuple(t.name for t in (*graph.tensors(), *params) if t.kind.is_updateable),
        Interface.of(name, graph.inputs, graph.outputs),
        prepared,
    )


def _hetero(prepared: Prepared) -> HeteroPrepared:
    if not isinstance(prepared, HeteroPrepared):
        raise AssertionError("the graph was prepared by another backend")
    return prepared


def _stored(prepared: HeteroPrepared, images: Mapping[str, Image]) -> dict[str, Any]:
    """Return a graph in parts as JSON data.

    Args:
        prepared: The graph.
        images: The images of the members, by name.
    """
    parts = tuple(
        StoredPart(
            part.name,
            part.backend,
            part.nodes,
            part.updateable,
            images[part.backend].graphs.get(part.name),
        )
        for part in prepared.parts
    )
    ends = prepared.interface
    # without times of a trial: two images of a graph are equal
    report = msgspec.structs.replace(prepared.placement, choice=None)
    stored = StoredGraph(tuple(ends.inputs), tuple(ends.outputs), parts, report)
    found: dict[str, Any] = msgspec.to_builtins(stored)
    return found
