"""A backend whose verdicts depend on the settings of the device and the graph."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from reference_backend import ReferenceBackend, ReferenceOptions

from dovetail.container import WeightStore
from dovetail.ops import CheckedGraph, NodeView
from dovetail.runtime import ContextConfig, DeviceConfig, GraphConfig
from dovetail.runtime.base import ContextBase
from dovetail.runtime.contract import (
    SUPPORTED,
    Configs,
    DeviceInfo,
    Fingerprint,
    Platform,
    PrepareRequest,
    Support,
)
from dovetail.runtime.plan import PlanPrepared

ELEMENTS = {"small": 64, "large": 2**30}  # that a tensor may have, by system on chip


class ChoosyDevice(DeviceConfig, frozen=True):
    soc: Literal["small", "large"] = "large"


class ChoosyContext(ContextConfig, frozen=True):
    graphs: int = 8


class ChoosyGraph(GraphConfig, frozen=True):
    precision: Literal["exact", "fast"] = "exact"


class LimitedContext(ContextBase):
    """A context for a limited number of graphs."""

    def __init__(
        self, backend: ChoosyBackend, device: Any, config: ChoosyContext, weights: WeightStore
    ) -> None:
        super().__init__(backend, device, config, weights)
        self.precisions: list[str] = []  # of its graphs


class ChoosyBackend(ReferenceBackend):
    name: ClassVar[str] = "choosy"
    configs: ClassVar[Configs] = Configs(ReferenceOptions, ChoosyDevice, ChoosyContext, ChoosyGraph)

    def platform(self) -> Platform:
        return Platform(tuple(DeviceInfo(soc, cores=1, soc=soc) for soc in ELEMENTS), "1.0")

    def fingerprint(self, device: ChoosyDevice) -> Fingerprint:
        return Fingerprint({"backend": self.name, "soc": device.soc})

    def validate(self, node: NodeView, device: ChoosyDevice, config: ChoosyGraph) -> Support:
        if config.precision == "fast" and node.op_type == "Wait":
            return Support(False, "exact-only", "op", "Wait", ("Scale",), 'use precision="exact"')
        for i, spec in enumerate(node.outs):
            if math.prod(spec.shape) > (limit := ELEMENTS[device.soc]):
                return Support(
                    False, "memory", f"out[{i}].shape", str(spec.shape), (f"{limit} elements",)
                )
        return SUPPORTED

    def open_context(
        self, device: ChoosyDevice, config: ChoosyContext, weights: WeightStore
    ) -> LimitedContext:
        return LimitedContext(self, device, config, weights)

    def prepare(
        self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase
    ) -> PlanPrepared:
        assert isinstance(context, LimitedContext)
        assert isinstance(request.config, ChoosyGraph)
        if len(context.precisions) == context.config.graphs:
            raise MemoryError(f"no room for graph {graph.name}")
        context.precisions.append(request.config.precision)
        return super().prepare(graph, request, context)
