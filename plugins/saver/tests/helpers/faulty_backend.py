"""A backend that runs every op by its reference, but for Tanh and Relu, which may be wrong."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from dovetail.ir import Array, Tensor
from dovetail.ops import CheckedGraph, NodeView, check_ops
from dovetail.runtime import contract
from dovetail.runtime.base import BackendBase, ContextBase, PreparedBase
from dovetail.runtime.plan import KernelCall, KernelRegistry, PlanPrepared, Step, build_plan

FAULT = "FAULTY_OP"  # the environment variable that names the wrong op
OFFSET = 0.25  # what it adds


def _wrong_tanh(x: Array, out: Array) -> None:
    np.add(np.tanh(x), OFFSET, out=out)


def _wrong_relu(x: Array, out: Array) -> None:
    np.add(np.maximum(x, 0), OFFSET, out=out)


WRONG = {"Tanh": _wrong_tanh, "Relu": _wrong_relu}


class FaultyPrepared(PreparedBase):
    """A plan that is built again by updates."""

    def __init__(self, backend: FaultyBackend, graph: CheckedGraph, context: ContextBase) -> None:
        self.backend, self.graph, self.context = backend, graph.graph, context
        self.plan = self._planned(graph)

    def run(
        self,
        inputs: Mapping[str, contract.Binding],
        outputs: Mapping[str, contract.Binding],
        control: contract.RunControl,
    ) -> None:
        self.plan.run(inputs, outputs, control)

    def update(self, tensors: Sequence[Tensor]) -> None:
        self.plan = self._planned(check_ops(self.graph, self.backend.ops))

    def _planned(self, graph: CheckedGraph) -> PlanPrepared:
        kernels, op = KernelRegistry(self.backend.name), os.environ.get(FAULT)

        def kernel(call: KernelCall) -> Step:
            call.read(0)
            call.write()
            return call.array_step(WRONG[str(op)])

        if op in WRONG:
            kernels.register("qti.aisw", op)(kernel)
        return PlanPrepared(build_plan(graph, kernels, self.context.weights, self.backend.options))


class FaultyBackend(BackendBase):
    name: ClassVar[str] = "faulty"

    def capabilities(self) -> contract.Capabilities:
        return contract.Capabilities(
            asynchronous=True, memory_handles=True, priority=True, updates=True
        )

    def validate(self, node: NodeView, device: Any, config: Any) -> contract.Support:
        return contract.SUPPORTED

    def prepare(
        self, graph: CheckedGraph, request: contract.PrepareRequest, context: ContextBase
    ) -> FaultyPrepared:
        return FaultyPrepared(self, graph, context)
