"""A backend that runs every op by its reference, but for Tanh and Relu, which may be wrong."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import numpy as np

from dovetail.ir import Array
from dovetail.ops import CheckedGraph, NodeView
from dovetail.runtime import contract
from dovetail.runtime.base import BackendBase, ContextBase
from dovetail.runtime.plan import KernelCall, KernelRegistry, PlanPrepared, Step, build_plan

FAULT = "FAULTY_OP"  # the environment variable that names the wrong op
OFFSET = 0.25  # what it adds


def _wrong_tanh(x: Array, out: Array) -> None:
    np.add(np.tanh(x), OFFSET, out=out)


def _wrong_relu(x: Array, out: Array) -> None:
    np.add(np.maximum(x, 0), OFFSET, out=out)


class FaultyBackend(BackendBase):
    name: ClassVar[str] = "faulty"

    def capabilities(self) -> contract.Capabilities:
        return contract.Capabilities(asynchronous=True, priority=True, memory_handles=True)

    def validate(self, node: NodeView, device: Any, config: Any) -> contract.Support:
        return contract.SUPPORTED

    def prepare(
        self, graph: CheckedGraph, request: contract.PrepareRequest, context: ContextBase
    ) -> PlanPrepared:
        kernels = KernelRegistry(self.name)
        wrong = {"Tanh": _wrong_tanh, "Relu": _wrong_relu}

        def kernel(call: KernelCall) -> Step:
            call.read(0)
            call.write()
            return call.array_step(wrong[os.environ[FAULT]])

        if os.environ.get(FAULT) in wrong:
            kernels.register("qti.aisw", os.environ[FAULT])(kernel)
        plan = build_plan(graph, kernels, context.weights, self.options, control=request.control)
        return PlanPrepared(plan)
