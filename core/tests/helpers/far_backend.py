"""A backend whose kernels compute in a memory space of their own, where nothing is an array."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from msgspec.structs import replace
from plan_ops import PACKAGE

from dovetail.ir import Array
from dovetail.runtime.contract import Capabilities, Options
from dovetail.runtime.plan import (
    PLAN_BUILDERS,
    Bound,
    Buffers,
    Builders,
    Data,
    Engine,
    KernelCall,
    KernelRegistry,
    PlanBackend,
    PlanRecorder,
    Source,
    Step,
    Value,
)

BUILDERS = Builders().joined(PLAN_BUILDERS)


class FarBlock:
    """Memory of the space: bytes, which only `FarSpace` reads and writes."""

    def __init__(self, nbytes: int) -> None:
        self.content = bytearray(b"\xa5" * nbytes)

    @property
    def nbytes(self) -> int:
        return len(self.content)

    def to_host(self) -> Array:
        return np.frombuffer(bytes(self.content), np.uint8)


@dataclass(frozen=True)
class FarPart:
    """Part of a block, as steps receive it."""

    block: FarBlock
    start: int
    nbytes: int

    def read(self) -> Array:
        content = self.block.content[self.start : self.start + self.nbytes]
        return np.frombuffer(bytes(content), np.float32)

    def write(self, array: Array) -> None:
        assert array.nbytes == self.nbytes
        self.block.content[self.start : self.start + self.nbytes] = array.tobytes()


class FarSpace:
    """The space.

    Attributes:
        allocated: Bytes of each block, in order.
    """

    name = "far"
    alignment = 256

    def __init__(self) -> None:
        self.allocated: list[int] = []

    def allocate(self, nbytes: int) -> FarBlock:
        self.allocated.append(nbytes)
        return FarBlock(nbytes)

    def write(self, block: Any, array: Array) -> None:
        block.content[:] = np.ascontiguousarray(array).tobytes()

    def part(self, block: Any, offset: int, nbytes: int) -> FarPart:
        return FarPart(block, offset, nbytes)

    def shared(self, given: Any) -> FarBlock:
        raise AssertionError(f"{given} needs a copy")


SPACE = FarSpace()


@dataclass(frozen=True)
class FarLayout:
    """The elements in their order, in the space."""

    nbytes: int

    @property
    def space(self) -> FarSpace:
        return SPACE

    @property
    def key(self) -> str:
        return f"far {self.nbytes}"


class TransferData(Data, frozen=True):
    source: int
    target: int


class LayoutData(Data, frozen=True):
    nbytes: int


@dataclass(frozen=True)
class Transfer:
    """Copies between the host's memory and the space; a `Recipe`."""

    source: Value
    target: Value

    def __call__(self, buffers: Buffers) -> Bound:
        if self.source.layout is None:
            part, array = buffers.buffer(self.target), buffers.array(self.source)
            return lambda: part.write(array)
        part, taken = buffers.buffer(self.source), buffers.array(self.target)
        return lambda: np.copyto(taken, part.read().reshape(taken.shape))

    def record(self, recorder: PlanRecorder) -> tuple[str, Data]:
        data = TransferData(recorder.value(self.source), recorder.value(self.target))
        return "far.transfer", data


@BUILDERS.builds("far.transfer", TransferData)
def _transfer(data: TransferData, source: Source) -> Transfer:
    return Transfer(source.value(data.source), source.value(data.target))


@BUILDERS.builds("far.layout", LayoutData)
def _layout(data: LayoutData, source: Source) -> FarLayout:
    return FarLayout(data.nbytes)


def record_layout(layout: FarLayout, recorder: PlanRecorder) -> int:
    return recorder.item("far.layout", layout, lambda: LayoutData(layout.nbytes))


def reorder(source: Value, target: Value) -> Step:
    return Step((), (source,), (target,), Transfer(source, target))


def far_kernels(*, in_place: bool = True) -> KernelRegistry:
    """Return kernels for Negate, Add and Copy (a view); Add packs constants doubled."""
    registry = KernelRegistry("far")

    def step(call: KernelCall, values: list[Value], compute: Callable[..., Array]) -> Step:
        def bind(buffers: Buffers) -> Bound:
            *parts, target = (buffers.buffer(value) for value in values)

            def run() -> None:
                target.write(compute(*(part.read() for part in parts)))

            return run

        return call.step(bind, in_place=[(0, 0)] if in_place else ())

    @registry.register(PACKAGE.name, "Negate")
    def negate(call: KernelCall) -> Step:
        layout = FarLayout(call.spec(0).nbytes)
        call.scratch(100, FarLayout(100))
        return step(call, [call.read(0, layout), call.write(0, layout)], np.negative)

    @registry.register(PACKAGE.name, "Add")
    def add(call: KernelCall) -> Step:
        layout = FarLayout(call.spec(0).nbytes)
        values = [call.read(0, layout)]
        if call.has_data(1):
            values.append(call.read_packed(1, "halved", _halved, layout))
            return step(call, [*values, call.write(0, layout)], lambda a, b: a + 2 * b)
        values.append(call.read(1, layout))
        return step(call, [*values, call.write(0, layout)], np.add)

    @registry.register(PACKAGE.name, "Copy")
    def copy(call: KernelCall) -> Step | None:
        layout = FarLayout(call.spec(0).nbytes)
        found = call.view(0, layout, source=layout)
        if found is not None:
            return found
        return step(call, [call.read(0, layout), call.write(0, layout)], lambda x: x)

    return registry


def _halved(arrays: Any, _: object) -> Array:
    found: Array = arrays[0] / np.float32(2)
    return found


class FarBackend(PlanBackend):
    """Runs plans of these kernels; it keeps the number of its restores in images."""

    name: ClassVar[str] = "far"
    dist: ClassVar[str] = "dovetail-core"

    def __init__(self, ops: Any, options: Options) -> None:
        engine = Engine(
            far_kernels(),
            reorder,
            computing=lambda _: nullcontext(),
            builders=BUILDERS,
            record_layout=record_layout,
            name="far",
            lane=lambda _: nullcontext(),
        )
        super().__init__(ops, options, engine)
        self.restores = 0

    def capabilities(self) -> Capabilities:
        return replace(super().capabilities(), overlap=True)

    def recorded(self, computing: Any) -> dict[str, Any]:
        return {"restores": self.restores}

    def restored(self, computing: Any, recorded: Any) -> None:
        self.restores = recorded["restores"] + 1
