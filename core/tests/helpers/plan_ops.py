"""Ops, kernels and an engine's layout for the tests of plans."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dovetail.container import WeightStore
from dovetail.ir import Array, DType, Graph, Node, Shape, Spec, Tensor, TensorKind
from dovetail.ops import EVERYTHING, NOTHING, In, Op, OpPackage, OpRegistry, check_ops
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import (
    Bound,
    Buffers,
    KernelCall,
    KernelRegistry,
    PlanPrepared,
    Step,
    Storage,
    Value,
    build_plan,
)

PACKAGE = OpPackage("plan.ops")
OPS = OpRegistry.of(PACKAGE)
SHAPE = (2, 3)


class _Same(Op):
    inputs = (In("in[0]"),)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        return x


@PACKAGE.op("Negate")
class Negate(_Same):
    """-x."""

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        return x if out is None else Spec(out.dtype, x.shape, out.encoding)

    def reference(self, x: Array) -> Array:
        return -x


@PACKAGE.op("Copy")
class Copy(_Same):
    """x."""

    def reference(self, x: Array) -> Array:
        return x


@PACKAGE.op("Spoil")
class Spoil(_Same):
    """-x, by writing into x: what no op may do."""

    def reference(self, x: Array) -> Array:
        return np.negative(x, out=x)


@PACKAGE.op("Add")
class Add(Op):
    """a + b, plus c where it is given."""

    inputs = (In("in[0]"), In("in[1]"), In("in[2]", optional=True))

    def infer(self, a: Spec, b: Spec, c: Spec | None, out: Spec | None) -> Spec:
        return a

    def reference(self, a: Array, b: Array, c: Array | None) -> Array:
        return a + b if c is None else a + b + c


@dataclass(frozen=True)
class Backwards:
    """The elements in reverse order: a layout that nobody can mistake for the plain one."""

    space: ClassVar[None] = None
    nbytes: int

    @property
    def key(self) -> str:
        return f"backwards {self.nbytes}"

    @classmethod
    def of(cls, spec: Spec) -> Backwards:
        return cls(spec.nbytes)


@dataclass
class Engine:
    """Makes reorders, and counts them."""

    reorders: int = 0

    def reorder(self, source: Value, target: Value) -> Step:
        self.reorders += 1

        scratch = Value("scratch", Spec(DType.UINT_8, (64,)), Storage.ARENA)

        def bind(buffers: Buffers) -> Bound:
            there, here = (plain(buffers, v) for v in (target, source))
            place = buffers.array(scratch)

            def run() -> None:
                place.fill(0xFF)  # whoever else keeps something there would notice
                np.copyto(there, here)

            return run

        return Step((), (source,), (target,), bind, (scratch,))


def plain(buffers: Buffers, value: Value) -> Array:
    """Return a value's elements in their order, a view, whatever its layout."""
    if value.layout is None:
        return buffers.array(value).reshape(-1)
    return buffers.array(value).view(np.float32)[::-1]


def negate_backwards(call: KernelCall) -> Step:
    """Negate in the engine's layout."""
    layout = Backwards.of(call.spec(0))
    x, out = call.read(0, layout), call.write(0, layout)

    def bind(buffers: Buffers) -> Bound:
        arrays = [buffers.array(v).view(np.float32) for v in (x, out)]
        return functools.partial(np.negative, *arrays)

    return call.step(bind)


def negate(call: KernelCall) -> Step:
    """Negate, in place where that is possible."""
    call.read(0)
    call.write()
    return call.array_step(np.negative, in_place=[(0, 0)])


def add(call: KernelCall) -> Step:
    """Add, in place where that is possible; refuses a third operand."""
    call.read(0)
    call.read(1)
    call.write()
    return call.array_step(np.add, in_place=[(0, 0), (0, 1)])


def kernels(**makes: Callable[[KernelCall], Step | None]) -> KernelRegistry:
    """Return a registry of kernels by op type."""
    registry = KernelRegistry("test")
    for op_type, make in makes.items():
        registry.register("plan.ops", op_type)(make)
    return registry


class Net:
    """A graph under construction; all tensors are float32 of one shape."""

    def __init__(self, *inputs: str, shape: Shape = SHAPE) -> None:
        self.graph, self.shape = Graph("net"), shape
        for name in inputs:
            self.tensor(name, TensorKind.APP_WRITE)

    def tensor(self, name: str, kind: TensorKind = TensorKind.NATIVE) -> Tensor:
        return self.graph.add_tensor(Tensor(name, DType.FLOAT_32, self.shape, kind))

    def node(self, op_type: str, inputs: Sequence[str | None], out: str, *, app: bool = False):
        """Add a node, named like its output."""
        tensor = self.tensor(out, TensorKind.APP_READ if app else TensorKind.NATIVE)
        read = [None if name is None else self.graph.tensor(name) for name in inputs]
        self.graph.add_node(Node(out, "plan.ops", op_type, read, [tensor]))
        return self

    def prepared(
        self, registry: KernelRegistry, *, engine: Engine | None = None, fuse: bool = True
    ) -> PlanPrepared:
        reorder = None if engine is None else engine.reorder
        checked = check_ops(self.graph, OPS, NOTHING if fuse else EVERYTHING)
        plan = build_plan(checked, registry, WeightStore(), None, reorder=reorder)
        return PlanPrepared(plan)


def run(
    prepared: PlanPrepared, feeds: Mapping[str, Array], *names: str, shape: Shape = SHAPE
) -> list[Array]:
    """Run once into new arrays, and give them by name."""
    outputs = {name: np.full(shape, np.nan, np.float32) for name in names}
    prepared.run(feeds, outputs, RunControl())
    return [outputs[name] for name in names]


def ramp(start: float = 1) -> Array:
    """Return six different numbers of shape (2, 3)."""
    return np.arange(start, start + 6, dtype=np.float32).reshape(SHAPE)
