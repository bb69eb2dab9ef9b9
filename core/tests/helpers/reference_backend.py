"""A small op package, a backend that runs everything by reference, and a graph to run."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import msgspec
import numpy as np

from dovetail.container import Model, Producer
from dovetail.ir import Array, DType, Graph, Node, Spec, Tensor, TensorKind
from dovetail.ops import CheckedGraph, In, NodeView, Op, OpPackage, OpRegistry, Out, float32
from dovetail.runtime import Backend, contract
from dovetail.runtime import Graph as RuntimeGraph
from dovetail.runtime.base import BackendBase, ContextBase
from dovetail.runtime.plan import KernelRegistry, PlanPrepared, build_plan

PACKAGE = OpPackage("test.ops")
GATE = threading.Event()  # opened by tests that hold a run back
ENTERED = threading.Event()


@PACKAGE.op("Scale")
class Scale(Op):
    """x * factor."""

    inputs = (In("in[0]"),)
    outputs = (Out("out[0]"),)
    factor = float32(2.0)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        return x

    def reference(self, x: Array) -> Array:
        return x * self.factor


@PACKAGE.op("Wait")
class Wait(Op):
    """x, once the gate is open."""

    inputs = (In("in[0]"),)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        return x

    def reference(self, x: Array) -> Array:
        ENTERED.set()
        if not GATE.wait(20):
            raise TimeoutError("nobody opened the gate")
        return x


@PACKAGE.op("Fail")
class Fail(Op):
    """Raises."""

    inputs = (In("in[0]"),)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        return x

    def reference(self, x: Array) -> Array:
        raise ArithmeticError("cannot")


OPS = OpRegistry.of(PACKAGE)


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


def chain(*op_types: str, name: str = "net", dtype: DType = DType.FLOAT_32) -> Graph:
    """x -> op -> op ... -> y, all of shape (2, 3)."""
    graph = Graph(name)
    last = graph.add_tensor(Tensor("x", dtype, (2, 3), TensorKind.APP_WRITE))
    for i, op_type in enumerate(op_types):
        is_last = i == len(op_types) - 1
        kind = TensorKind.APP_READ if is_last else TensorKind.NATIVE
        out = graph.add_tensor(Tensor("y" if is_last else f"t{i}", dtype, (2, 3), kind))
        graph.add_node(Node(f"n{i}", "test.ops", op_type, [last], [out]))
        last = out
    return graph


def finalized(backend: Backend, *ops: str, **config: object) -> RuntimeGraph:
    """Create a context and in it a finalized `chain`."""
    context = backend.create_context(config=config)
    model = Model.of(chain(*ops), producer=Producer("test", "1"), registry=OPS)
    (graph,) = context.compose(model)
    graph.finalize()
    return graph


def out() -> dict[str, Array]:
    """Return an output buffer of a `chain`."""
    return {"y": np.full((2, 3), np.nan, np.float32)}
