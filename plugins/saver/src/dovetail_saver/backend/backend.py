"""The backend `saver`."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import fields, replace

from dovetail.container import WeightStore
from dovetail.ir import DataFormat, EncodingKind
from dovetail.ops import CheckedGraph, NodeView, OpRegistry
from dovetail.plugins.hooks import hooks
from dovetail.runtime.base import BackendBase, ContextBase
from dovetail.runtime.contract import (
    SUPPORTED,
    Binding,
    Capabilities,
    Configs,
    Fingerprint,
    Image,
    MemoryDescriptor,
    Platform,
    Prepared,
    PrepareRequest,
    Restored,
    Support,
)
from dovetail_saver.backend.options import SaverOptions, SaverSdkConfig
from dovetail_saver.backend.own_calls import OwnCalls
from dovetail_saver.backend.prepared import SavedGraph, image_of, restored_graphs
from dovetail_saver.backend.target import Target
from dovetail_saver.tape import Tape, require_usable
from dovetail_saver.trace import PayloadPolicy


class ForeignMemory:
    """Memory that is not the host's; nothing is read from it or written to it."""

    def release(self) -> None:
        """Release nothing."""


class SaverContext(ContextBase):
    """A context of the Saver."""

    def prepare(self, graph: CheckedGraph, request: PrepareRequest) -> Prepared:
        """Return a graph that computes nothing."""
        for _ in graph.nodes:
            request.control.check()
        return SavedGraph.of(graph, self)

    def image(self, graphs: Mapping[str, Any]) -> Image:
        """Return the interfaces of graphs as data."""
        return image_of(graphs, self.backend.fingerprint(self.device))

    def restore(
        self,
        image: Image,
        graph: Callable[[str], CheckedGraph] | None,
        request: Callable[[str], PrepareRequest],
    ) -> Mapping[str, Restored]:
        """Return the graphs of an image; see `BackendContext.restore`."""
        image.require(self.backend.fingerprint(self.device))
        return restored_graphs(image, graph, self)

    def register_memory(self, descriptor: MemoryDescriptor) -> Binding:
        """Return the registered array, or a token of other memory."""
        return ForeignMemory() if descriptor.array is None else descriptor.array


class SaverBackend(BackendBase):
    """Accepts every call, records it and computes nothing: all outputs are zeros.

    Args:
        ops: The op registry of the handle.
        options: A `SaverOptions`.

    Raises:
        PluginError: The target is not installed, or cannot be loaded.
        ConfigError: The options of the target are wrong, or the folder is in use for something
            other than traces.
    """

    name: ClassVar[str] = "saver"
    configs: ClassVar[Configs] = Configs(backend=SaverOptions, sdk=SaverSdkConfig)

    def __init__(self, ops: OpRegistry, options: SaverOptions) -> None:
        super().__init__(ops, options)
        self._target = Target(ops, options) if options.target else None
        self._tape: Tape | None = None
        if options.output is not None:
            self._tape = self._new_tape(Path(options.output).absolute(), options)
            hooks.register(self._tape.hook)
            atexit.register(self._tape.close)

    def capabilities(self) -> Capabilities:
        """Return all capabilities, or those of the target; nothing is computed in any case."""
        if self._target is not None:
            return replace(self._target.plugin.capabilities(), records_only=True)
        flags = {each.name: True for each in fields(Capabilities) if each.default is False}
        formats, encodings = frozenset(DataFormat), frozenset(EncodingKind)
        return Capabilities(**flags, data_formats=formats, encodings=encodings)  # type: ignore[arg-type]

    def platform(self) -> Platform:
        """Return the host as the only device, or the devices of the target."""
        if self._target is not None:
            return self._target.plugin.platform()
        return Platform(notes=("records calls and computes nothing",))

    def validate(self, node: NodeView, device: Any, config: Any) -> Support:
        """Accept every node, or return the target's verdict."""
        return SUPPORTED if self._target is None else self._target.validate(node)

    def open_context(self, device: Any, config: Any, weights: WeightStore) -> SaverContext:
        """Return a context that keeps nothing of its own."""
        return SaverContext(self, device, config, weights)

    def prepare(
        self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase
    ) -> Prepared:
        """Return a graph that computes nothing."""
        return context.prepare(graph, request)

    def fingerprint(self, device: Any) -> Fingerprint:
        """Return name and version: prepared graphs depend on nothing else."""
        return Fingerprint({"backend": self.name, "version": version("dovetail-saver")})

    def close(self) -> None:
        """End the trace, after the record of `backend_free` if that is the caller."""
        if self._target is not None:
            self._target.plugin.close()
        if self._tape is None:
            return
        if not (isinstance(self._tape.hook, OwnCalls) and self._tape.hook.is_freeing):
            self._tape.close()
        atexit.unregister(self._tape.close)

    def _new_tape(self, output: Path, options: SaverOptions) -> Tape:
        """Return the trace of this backend.

        Raises:
            ConfigError: The folder is in use for something other than traces.
        """
        folder = output if options.program is None else output / "trace"
        require_usable(folder)
        arguments = {"name": self.name, "config": options, "ops": self.ops}

        def finished(trace: Path) -> None:
            if options.program is not None:
                # imported here: most traces stay traces
                from dovetail_saver.vendor.exporter import export_program

                names = options.program
                names = names.with_time() if options.append_timestamp else names
                export_program(trace, output, names.model_file_name, names.data_file_name)

        return Tape(
            folder,
            PayloadPolicy(options.payloads),
            lambda tape: OwnCalls(tape, self, arguments),
            finished,
        )
