"""Steps of several primitives on scratchpads between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import KernelCall, Step
from dovetail_onednn._api import SCALES, ZERO_POINTS, Arg, BinaryAlgorithm, DataType
from dovetail_onednn.attributes import Binary, PostOp, Quantization, operand
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument, Execution, Work, release_gil
from dovetail_onednn.primitives import (
    ENGINE,
    Description,
    Primitive,
    PrimitiveDesc,
    reorder_description,
)
from dovetail_onednn.steps import is_slow
from dovetail_onednn.threads import LEAST_SHARED_ELEMENTS, threads

_ZERO = MemoryDesc.strided((1,), (1,), DataType.S32)
_SCALE = MemoryDesc.strided((1,), (1,), DataType.F32)

# A post-op and the numbers for each channel, or the tensor, that it reads; SOURCE and DESTINATION
# are what its primitive reads and writes.
Term = tuple[PostOp, Array | Argument | Arg | None]


class Stages:
    """The primitives of a step, collected in order.

    Args:
        call: The call of the kernel.
    """

    def __init__(self, call: KernelCall) -> None:
        self._call = call
        self._works: list[Work] = []

    def room(self, desc: MemoryDesc, spare: int = 0) -> Argument:
        """Declare a scratchpad, with more bytes for descriptors at an offset in it."""
        return Argument(desc, self._call.scratch(desc.nbytes + spare))

    def numbers(self, values: Array, desc: MemoryDesc) -> Argument:
        """Declare constants."""
        return Argument(desc, self._call.constant(np.ascontiguousarray(values)))

    def add(self, desc: PrimitiveDesc, arguments: Mapping[int, Argument]) -> None:
        """Add a primitive with all its arguments but the scratchpad."""
        self._works.append(Work(Primitive(desc), arguments))

    def add_works(self, works: Sequence[Work]) -> None:
        """Add primitives whose arguments were declared elsewhere."""
        self._works += works

    def move(
        self, source: Argument, target: Argument, zero: int = 0, scale: float | None = None
    ) -> None:
        """Add a copy into another layout or type of a tensor, less a zero point, times a scale.

        Values out of the target's range saturate; fractions are rounded half to even. oneDNN 3.2
        copies wrong bytes if it subtracts between some layouts, so that it does so within one.
        """
        between = source.desc.of_type(target.desc.type)
        if zero and target.desc != between:
            room = self.room(between)
            self.move(source, room, zero, scale)
            source, zero, scale = room, 0, None
        source, target = _in_rows(source, target)
        arguments: dict[int, Argument] = {Arg.SOURCE: source, Arg.DESTINATION: target}
        scales, zeros = ((Arg.SOURCE, 0),) if scale is not None else (), (Arg.SOURCE,) * bool(zero)
        quantization = Quantization(scales, zeros)
        if zero:
            arguments[ZERO_POINTS | Arg.SOURCE] = self.numbers(np.full(1, zero, np.int32), _ZERO)
        if scale is not None:
            arguments[SCALES | Arg.SOURCE] = self.numbers(np.full(1, scale, np.float32), _SCALE)
        description = reorder_description(source.desc, target.desc, quantization)
        count = 1 if target.desc.nbytes < LEAST_SHARED_ELEMENTS else 0
        with threads(count), PrimitiveDesc(description) as desc:
            self.add(desc, arguments)

    def add_terms(
        self,
        ends: tuple[Argument, Argument],
        first: float,
        terms: Sequence[Term] = (),
        units: int = 1,
    ) -> None:
        """Add a primitive that adds a number, then terms; see `has_fast_terms`.

        Args:
            ends: What it reads and writes.
            first: The number that is added first.
            terms: What follows.
            units: Number of channels, for terms with numbers for each.
        """
        read, target = ends
        with PrimitiveDesc(_terms(read.desc, target.desc, [op for op, _ in terms])) as desc:
            number = np.full(1, first, np.float32)
            arguments: dict[int, Argument] = {
                int(Arg.SOURCE): read,
                int(Arg.OTHER): self.numbers(number, _number(read.desc)),
                int(Arg.DESTINATION): target,
            }
            for position, (op, values) in enumerate(terms):
                if isinstance(op, Binary) and values is not None:
                    if isinstance(values, Arg):
                        values = arguments[values]
                    elif not isinstance(values, Argument):
                        each = np.broadcast_to(values.reshape(-1), (units,)).astype(np.float32)
                        values = self.numbers(each, op.other)
                    arguments[operand(position, op)] = values
            self.add(desc, arguments)

    def combine(
        self,
        algorithm: BinaryAlgorithm,
        source: Argument,
        second: float,
        target: Argument,
        chain: Sequence[PostOp],
        other: Argument | None = None,
    ) -> bool:
        """Add a function of a tensor and a number, and post-ops.

        Args:
            algorithm: The function.
            source: The tensor.
            second: The number.
            target: The result.
            chain: The post-ops.
            other: The tensor that a `Binary` of them reads.

        Returns:
            Whether the library has fast code for that.
        """
        number = _number(source.desc)
        description = Description(
            "binary",
            (ENGINE, algorithm, source.desc, number, target.desc),
            lambda: f"a {algorithm.name.lower()} of {source.desc.key} and a number",
            tuple(chain),
        )
        with PrimitiveDesc(description) as desc:
            arguments = {
                int(Arg.SOURCE): source,
                int(Arg.OTHER): self.numbers(np.full(1, second, np.float32), number),
                int(Arg.DESTINATION): target,
            }
            for position, op in enumerate(chain):
                if isinstance(op, Binary) and other is not None:
                    arguments[operand(position, op)] = other
            self.add(desc, arguments)
            return not is_slow(desc)

    def step(self) -> Step:
        """Return the step that executes the primitives."""
        return self._call.step(self.execution())

    def execution(self) -> Execution:
        """Return the bind that executes the primitives, with a scratchpad of the plan."""
        needed = max(work.primitive.scratchpad.nbytes for work in self._works)
        pad = self._call.scratch(needed) if needed else None
        return Execution(self._works, pad, release_gil(self._call.options))


def has_fast_terms(read: MemoryDesc, target: MemoryDesc, ops: Sequence[PostOp] = ()) -> bool:
    """Return whether the library has fast code for `Stages.add_terms`.

    A kernel that may decline asks before it declares anything.
    """
    with PrimitiveDesc(_terms(read, target, ops)) as found:
        return not is_slow(found)


def _terms(read: MemoryDesc, target: MemoryDesc, ops: Sequence[PostOp]) -> Description:
    return Description(
        "binary",
        (ENGINE, BinaryAlgorithm.ADD, read, _number(read), target),
        lambda: f"a function of stored integers of {read.key}",
        tuple(ops),
    )


def _in_rows(source: Argument, target: Argument) -> tuple[Argument, Argument]:
    """Return what a copy reads and writes, as one row of elements if both have them in one order.

    Only generic code of oneDNN 3.2 turns numbers with three or four axes to bytes: 200,000 took
    0.48 ms, in a row 0.008.
    """
    read, written = source.desc.row, target.desc.row
    if read is None or written is None or source.desc.strides != target.desc.strides:
        return source, target
    return (
        Argument(read, source.value, source.offset),
        Argument(written, target.value, target.offset),
    )


def _number(desc: MemoryDesc) -> MemoryDesc:
    """Describe one number, of the rank of a tensor."""
    ones = (1,) * len(desc.dims)
    return desc.strided(ones, ones)
