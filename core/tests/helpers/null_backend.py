"""The null backend: the whole contract, and no arithmetic. Every output is zero."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import ClassVar

from dovetail.container import WeightStore
from dovetail.ir import Array, Tensor
from dovetail.ops import CheckedGraph
from dovetail.runtime.base import BackendBase, ContextBase, PreparedBase
from dovetail.runtime.contract import (
    Capabilities,
    Image,
    Prepared,
    PrepareRequest,
    Restored,
    RunControl,
)
from dovetail.runtime.interface import Interface


class NullPrepared(PreparedBase):
    def __init__(self, nodes: tuple[str, ...]) -> None:
        self.nodes = nodes

    def run(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], control: RunControl
    ) -> None:
        for node in self.nodes:
            control.check()
            if control.reports_steps:
                control.step_finished((node,), time.perf_counter() * 1e6, 0.0, dict)
        for array in outputs.values():
            array.fill(0)

    def update(self, tensors: Sequence[Tensor]) -> None:
        """Nothing is computed from them."""


class NullContext(ContextBase):
    def image(self, graphs: Mapping[str, Prepared]) -> Image:
        plans = {name: {"nodes": list(made.nodes)} for name, made in graphs.items()}
        return Image(self.backend.fingerprint(self.device), plans)

    def restore(
        self,
        image: Image,
        graph: Callable[[str], CheckedGraph] | None,
        request: Callable[[str], PrepareRequest],
    ) -> Mapping[str, Restored]:
        assert graph is not None, "the plan has no inputs and outputs"
        return {
            name: Restored(
                Interface.of(name, graph(name).inputs, graph(name).outputs),
                NullPrepared(tuple(plan["nodes"])),
            )
            for name, plan in image.graphs.items()
        }


class NullBackend(BackendBase):
    name: ClassVar[str] = "null"

    def capabilities(self) -> Capabilities:
        missing = ("opaque_ops", "overlap", "custom_memory", "dynamic_dimensions")
        flags = (f.name for f in fields(Capabilities) if f.default is False)
        return Capabilities(**{name: name not in missing for name in flags})

    def open_context(self, device: object, config: object, weights: WeightStore) -> NullContext:
        return NullContext(self, device, config, weights)

    def prepare(
        self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase
    ) -> NullPrepared:
        return NullPrepared(tuple(view.node.name for view in graph.nodes))
