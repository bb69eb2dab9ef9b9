"""A backend whose values are in the memory of a device, which runs graphs in its thread."""

from __future__ import annotations

import queue
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

from fake_device import Block, FakeDevice

from dovetail.container import WeightStore
from dovetail.errors import BackendError
from dovetail.ops import CheckedGraph, simulate
from dovetail.runtime.base import BackendBase, ContextBase, PreparedBase
from dovetail.runtime.contract import (
    Binding,
    Capabilities,
    Done,
    MemoryDescriptor,
    PrepareRequest,
    RunControl,
)

Bindings = Mapping[str, Binding]


@dataclass(frozen=True)
class SpacedPrepared(PreparedBase):
    graph: CheckedGraph
    device: FakeDevice
    constants: Mapping[str, Block]

    def run(self, inputs: Bindings, outputs: Bindings, control: RunControl) -> None:
        event: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self.submit(inputs, outputs, control, event.put)
        if (error := event.get()) is not None:
            raise error

    def submit(self, inputs: Bindings, outputs: Bindings, control: RunControl, done: Done) -> None:
        def command() -> None:
            error: BaseException | None = None
            try:
                self._execute(inputs, outputs, control)
            except BaseException as failure:  # noqa: BLE001 - travels to who waits
                error = failure
            done(error)

        self.device.enqueue(command)

    def close(self) -> None:
        for block in self.constants.values():
            block.release()

    def _execute(self, inputs: Bindings, outputs: Bindings, control: RunControl) -> None:
        with ExitStack() as temporary:
            values = dict(self.constants)

            def upload(name: str, array: Binding) -> None:
                values[name] = block = self.device.upload(array)
                temporary.callback(block.release)

            for name, given in inputs.items():
                if isinstance(given, Block):
                    values[name] = given
                else:
                    upload(name, given)
            for view in self.graph.nodes:
                control.check()
                tensors = view.node.inputs
                ins = [None if t is None else values[t.name].download(t.spec) for t in tensors]
                try:
                    results = simulate(*view.definition, ins, view.ins, view.outs)
                except Exception as error:
                    raise BackendError(str(error), where=view.node.where) from error
                for tensor, result in zip(view.node.outputs, results, strict=True):
                    upload(tensor.name, result)
            for tensor in self.graph.outputs:
                if isinstance(taken := outputs[tensor.name], Block):
                    taken.stored = values[tensor.name].stored
                else:
                    taken[...] = values[tensor.name].download(tensor.spec)


class SpacedContext(ContextBase):
    """A context with a device of its own."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self.space = FakeDevice()

    def register_memory(self, descriptor: MemoryDescriptor) -> Binding:
        block = (descriptor.custom or {}).get("block")
        return block if isinstance(block, Block) else super().register_memory(descriptor)

    def close(self) -> None:
        self.space.close()


class SpacedBackend(BackendBase):
    name: ClassVar[str] = "spaced"

    def capabilities(self) -> Capabilities:
        flags = ("op_packages", "cancel", "asynchronous", "overlap", "memory_handles")
        return Capabilities(**dict.fromkeys((*flags, "custom_memory"), True))

    def open_context(self, device: object, config: object, weights: WeightStore) -> SpacedContext:
        return SpacedContext(self, device, config, weights)

    def prepare(
        self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase
    ) -> SpacedPrepared:
        assert isinstance(context, SpacedContext)
        request.control.check()
        static = [tensor for tensor in graph.tensors() if tensor.data is not None]
        constants = {tensor.name: context.space.upload(tensor.stored()) for tensor in static}
        return SpacedPrepared(graph, context.space, constants)
