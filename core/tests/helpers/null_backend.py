"""The null backend: the whole contract, and no arithmetic. Every value is zero."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from msgspec.structs import fields

from dovetail.container import WeightStore
from dovetail.errors import BackendError, ContainerError
from dovetail.ir import Array, Tensor
from dovetail.ops import CheckedGraph
from dovetail.runtime.base import BackendBase, ContextBase, PreparedBase
from dovetail.runtime.contract import Capabilities, Image, PrepareRequest, Restored, RunControl
from dovetail.runtime.interface import Interface


class NullPrepared(PreparedBase):
    def __init__(self, graph: CheckedGraph, context: ContextBase) -> None:
        self.graph = graph
        self.context = context
        self.plan = [view.node.name for view in graph.nodes]

    def run(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], control: RunControl
    ) -> None:
        for view in self.graph.nodes:
            control.check()
            if control.reports_steps:
                made = {t.name: np.zeros(t.shape, t.dtype.storage) for t in view.node.outputs}
                now = time.perf_counter() * 1e6
                control.step_finished((view.node.name,), now, 0.0, lambda made=made: made)
        for array in outputs.values():
            array.fill(0)

    def update(self, tensors: Sequence[Tensor]) -> None:
        """Nothing is computed from them."""

    def section(self, names: object) -> Image:
        return self.context.image({self.graph.name: self})

    def apply(self, section: Image) -> None:
        """Nothing is computed from it."""


class NullContext(ContextBase):
    def image(self, graphs: Mapping[str, Any]) -> Image:
        plans = {name: made.plan for name, made in graphs.items()}
        return Image(self.backend.fingerprint(self.device), plans)

    def restore(
        self,
        image: Image,
        graph: Callable[[str], CheckedGraph] | None,
        request: Callable[[str], PrepareRequest],
    ) -> Mapping[str, Restored]:
        image.require(self.backend.fingerprint(self.device))
        if graph is None:
            raise BackendError("no model", code="CONTEXT_ERROR_UNSUPPORTED_FEATURE")
        made = {name: NullPrepared(graph(name), self) for name in image.graphs}
        if any(prepared.plan != image.graphs[name] for name, prepared in made.items()):
            raise ContainerError("an image of another graph", code="CONTAINER_INVALID")
        ends = {
            name: Interface.of(name, p.graph.inputs, p.graph.outputs) for name, p in made.items()
        }
        return {name: Restored(ends[name], prepared) for name, prepared in made.items()}


class NullBackend(BackendBase):
    name: ClassVar[str] = "null"

    def capabilities(self) -> Capabilities:
        missing = ("opaque_ops", "overlap", "custom_memory", "dynamic_dimensions", "records_only")
        flags = (f.name for f in fields(Capabilities) if f.default is False)
        return Capabilities(**{name: name not in missing for name in flags})

    def open_context(self, device: object, config: object, weights: WeightStore) -> NullContext:
        return NullContext(self, device, config, weights)

    def prepare(
        self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase
    ) -> NullPrepared:
        return NullPrepared(graph, context)
