"""The backend that runs every op by its reference, in a plan of core's."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from trial_ops import ENTERED, GATE, OPS, PACKAGE, Scale, chain, out

from dovetail.container import Model, Producer
from dovetail.ir import DType
from dovetail.ops import CheckedGraph, NodeView
from dovetail.runtime import Backend, contract
from dovetail.runtime import Graph as RuntimeGraph
from dovetail.runtime.base import BackendBase, ContextBase
from dovetail.runtime.plan import KernelRegistry, PlanPrepared, build_plan

__all__ = [
    "ENTERED",
    "GATE",
    "OPS",
    "PACKAGE",
    "BareBackend",
    "ReferenceBackend",
    "ReferenceOptions",
    "Scale",
    "chain",
    "finalized",
    "out",
]


class ReferenceOptions(contract.Options, frozen=True):
    level: int = 1
    names: list[str] = msgspec.field(default_factory=list)


class ReferenceBackend(BackendBase):
    name: ClassVar[str] = "reference"
    configs: ClassVar[contract.Configs] = contract.Configs(backend=ReferenceOptions)

    def capabilities(self) -> contract.Capabilities:
        return contract.Capabilities(
            op_packages=True,
            cancel=True,
            watch=True,
            asynchronous=True,
            priority=True,
            memory_handles=True,
        )

    def validate(self, node: NodeView, device: Any, config: Any) -> contract.Support:
        if any(spec is not None and spec.dtype is DType.FLOAT_64 for spec in node.ins):
            return contract.Support(
                False, "no-float64", "in[0].dtype", "FLOAT_64", ("FLOAT_32",), "cast to FLOAT_32"
            )
        return contract.SUPPORTED

    def prepare(
        self, graph: CheckedGraph, request: contract.PrepareRequest, context: ContextBase
    ) -> PlanPrepared:
        kernels = KernelRegistry(self.name)
        plan = build_plan(graph, kernels, context.weights, self.options, control=request.control)
        return PlanPrepared(plan)


class BareBackend(ReferenceBackend):
    """The same with every capability off."""

    name: ClassVar[str] = "bare"

    def capabilities(self) -> contract.Capabilities:
        return contract.Capabilities()


def finalized(backend: Backend, *ops: str, **config: object) -> RuntimeGraph:
    """Create a context and in it a finalized `chain`."""
    context = backend.create_context(config=config)
    model = Model.of(chain(*ops), producer=Producer("test", "1"), registry=OPS)
    (graph,) = context.compose(model)
    graph.finalize()
    return graph
