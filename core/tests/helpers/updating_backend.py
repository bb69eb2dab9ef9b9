"""A backend with updates, which plans a graph again, and an op with a second input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from reference_backend import PACKAGE, ReferenceBackend

from dovetail import ir
from dovetail.ir import Array, Spec
from dovetail.ops import CheckedGraph, In, Op, OpPackage, OpRegistry, Out, check_ops
from dovetail.runtime.base import ContextBase, PreparedBase
from dovetail.runtime.contract import Binding, Capabilities, PrepareRequest, RunControl
from dovetail.runtime.plan import KernelRegistry, PlanPrepared, build_plan

SUMS = OpPackage("test.sums")


@SUMS.op("Add")
class Add(Op):
    """x + w, of the real values."""

    inputs = (In("x"), In("w"))
    outputs = (Out("y"),)

    def infer(self, x: Spec, w: Spec, out: Spec | None) -> Spec:
        return x if out is None else Spec(out.dtype, x.shape, out.encoding)

    def reference(self, x: Array, w: Array) -> Array:
        return x + w


SUM_OPS = OpRegistry.of(PACKAGE, SUMS)


class UpdatingPrepared(PreparedBase):
    """A plan that is built again."""

    def __init__(self, backend: UpdatingBackend, graph: CheckedGraph, context: ContextBase) -> None:
        self.backend, self.graph, self.context = backend, graph.graph, context
        self.updated: list[tuple[str, ...]] = []
        self.plan = self._planned(graph)

    def run(
        self, inputs: Mapping[str, Binding], outputs: Mapping[str, Binding], control: RunControl
    ) -> None:
        self.plan.run(inputs, outputs, control)

    def update(self, tensors: Sequence[ir.Tensor]) -> None:
        self.updated.append(tuple(t.name for t in tensors))
        if self.backend.fails:
            raise ArithmeticError("cannot update")
        self.plan = self._planned(check_ops(self.graph, self.backend.ops))

    def _planned(self, graph: CheckedGraph) -> PlanPrepared:
        kernels = KernelRegistry(self.backend.name)
        weights = self.context.weights
        return PlanPrepared(build_plan(graph, kernels, weights, self.backend.options))


class UpdatingBackend(ReferenceBackend):
    """The reference backend with updates."""

    name: ClassVar[str] = "updating"
    fails = False

    def capabilities(self) -> Capabilities:
        return Capabilities(updates=True, memory_handles=True, asynchronous=True)

    def prepare(
        self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase
    ) -> UpdatingPrepared:
        return UpdatingPrepared(self, graph, context)
