"""A small op package, and graphs of its ops."""

from __future__ import annotations

import threading

import numpy as np

from dovetail.ir import Array, DType, Graph, Node, Spec, Tensor, TensorKind
from dovetail.ops import In, Op, OpPackage, OpRegistry, Out, float32

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


def out() -> dict[str, Array]:
    """Return an output buffer of a `chain`."""
    return {"y": np.full((2, 3), np.nan, np.float32)}
