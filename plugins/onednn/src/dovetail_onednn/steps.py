"""Steps of a plan that execute primitives."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import KernelCall, Step, Value
from dovetail_onednn._api import Arg, DataType
from dovetail_onednn.attributes import Eltwise, Slopes, Sum, operand
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument, Execution, Work, release_gil
from dovetail_onednn.layouts import layout_of
from dovetail_onednn.post_ops import Chain
from dovetail_onednn.primitives import Primitive, PrimitiveDesc
from dovetail_onednn.reorder import Arrays, given

# The library's generic code, and its batch normalization for channels that fill no vector.
_GENERIC = ("ref", "nspc_bnorm")


# Transposed convolutions as the gradient of a convolution.
_BY_CONVOLUTION = "conv:any"


def is_slow(desc: PrimitiveDesc) -> bool:
    """Return whether the library only has generic code, which is slower than NumPy's kernels."""
    return desc.implementation.startswith(_GENERIC)


def is_by_convolution(desc: PrimitiveDesc) -> bool:
    """Return whether a transposed convolution runs as a gradient.

    What follows its sums is generic code then, which takes 50 ns an element.
    """
    return desc.implementation.startswith(_BY_CONVOLUTION)


class Arguments:
    """The arguments of a primitive, collected while a kernel declares its step.

    Args:
        call: The call of the kernel.
        desc: Descriptor of the primitive.
    """

    def __init__(self, call: KernelCall, desc: PrimitiveDesc) -> None:
        self._call = call
        self._desc = desc
        self._found: dict[int, Argument] = {}
        self._previous: Value | None = None

    def read(self, arg: int, index: int, dense: MemoryDesc) -> None:
        """Declare that an input is read, in the layout that the primitive chose.

        Args:
            arg: The argument, an `Arg`.
            index: The input of the call.
            dense: Its dense form.
        """
        self.read_form(arg, index, self._desc.desc(arg), dense)

    def read_form(self, arg: int, index: int, wanted: MemoryDesc, dense: MemoryDesc) -> None:
        """Declare that an input is read in a layout that the primitive was described with.

        Args:
            arg: The argument, an `Arg`.
            index: The input of the call.
            wanted: Descriptor of the layout.
            dense: The input's dense form.
        """
        self._found[arg] = Argument(wanted, self._call.read(index, layout_of(wanted, dense)))

    def read_as_is(self, arg: int, index: int) -> None:
        """Declare that an input is read in its present layout; the primitive expects that one."""
        value = self._call.read(index, self._call.layout(index))
        self._found[arg] = Argument(self._desc.desc(arg), value)

    def read_operand(
        self, arg: int, index: int, wanted: MemoryDesc, dense: MemoryDesc, repeats: int
    ) -> None:
        """Declare that an operand of a `Folding` is read; numbers of channels may be repeated.

        Args:
            arg: The argument, an `Arg`.
            index: The input of the call; if the dense form repeats it, it has data.
            wanted: Descriptor of the layout.
            dense: Its dense form.
            repeats: How often numbers of channels are repeated.
        """
        if math.prod(dense.dims) == math.prod(self._call.spec(index).shape):
            self.read_form(arg, index, wanted, dense)
            return

        def make(arrays: Arrays, _: object) -> Array:
            return np.tile(given(arrays[0]).reshape(-1), repeats)

        value = self._call.read_packed(index, f"onednn.tiled.{repeats}", make)
        self.constant(arg, value, wanted)

    def read_chain(self, chain: Chain, repeats: int = 1) -> None:
        """Declare that the operands of post-ops are read; they are dense, of any types.

        Args:
            chain: The post-ops.
            repeats: As for `read_operand`.
        """
        for position, index in chain.operands:
            op = chain.ops[position]
            if isinstance(op, Eltwise | Sum):
                raise AssertionError(f"{op} reads no tensor")
            dense = op.other.of_type(DataType.F32)
            self.read_operand(operand(position, op), index, op.other, dense, repeats)
        for position, op in enumerate(chain.ops):
            if isinstance(op, Slopes) and op.is_zero:
                zero = self._call.constant(np.zeros(1, np.float32))
                self.constant(operand(position, op), zero, op.other)

    def read_plain(self, arg: int, index: int) -> None:
        """Declare that an input of any type is read as it is stored outside the engine."""
        self._found[arg] = Argument(self._desc.desc(arg), self._call.read(index))

    def read_previous(self, index: int) -> None:
        """Declare that an input is the previous content of the destination, for a `Sum`."""
        self._previous = self._call.read(index)

    def numbers(self, arg: int, values: Array) -> None:
        """Declare an argument whose values are these."""
        self._found[arg] = Argument(self._desc.desc(arg), self._call.constant(values))

    def constant(self, arg: int, value: Value, desc: MemoryDesc) -> None:
        """Declare a constant of the kernel."""
        self._found[arg] = Argument(desc, value)

    def write_after(self, first: Arguments) -> None:
        """Declare that the source and the destination are what another primitive writes."""
        written = first._found[Arg.DESTINATION].value
        for arg in (Arg.SOURCE, Arg.DESTINATION):
            self._found[arg] = Argument(self._desc.desc(arg), written)

    def write(self, arg: int, index: int, dense: MemoryDesc) -> None:
        """Declare that an output is written, in the layout that the primitive chose."""
        desc = self._desc.desc(arg)
        self._found[arg] = Argument(desc, self._call.write(index, layout_of(desc, dense)))

    def write_plain(self, arg: int, index: int) -> None:
        """Declare that an output of any type is written as it is stored outside the engine."""
        self._found[arg] = Argument(self._desc.desc(arg), self._call.write(index))

    def step(self, *, in_place: Sequence[tuple[int, int]] = ()) -> Step:
        """Compile the primitive and return the step that executes it.

        Args:
            in_place: As in `KernelCall.step`.
        """
        return execute(self._call, self.work(), in_place=in_place)

    def work(self) -> Work:
        """Compile the primitive and return it with its arguments, for a step of several."""
        return Work(Primitive(self._desc), self._found, self._previous)


def from_one_to_one(
    call: KernelCall,
    desc: PrimitiveDesc,
    source: MemoryDesc,
    target: MemoryDesc,
    *,
    chain: Chain | None = None,
    in_place: Sequence[tuple[int, int]] = (),
) -> Step | None:
    """Return the step of a primitive that reads the first input and writes the first output.

    Args:
        call: The call of the kernel.
        desc: Descriptor of the primitive.
        source: Dense form of the input.
        target: Dense form of the output.
        chain: The post-ops.
        in_place: As in `KernelCall.step`.

    Returns:
        The step; None if the library only has generic code.
    """
    if is_slow(desc):
        return None
    arguments = Arguments(call, desc)
    arguments.read(Arg.SOURCE, 0, source)
    if chain is not None:
        arguments.read_chain(chain)
    arguments.write(Arg.DESTINATION, 0, target)
    return arguments.step(in_place=in_place)


def execute(call: KernelCall, *works: Work, in_place: Sequence[tuple[int, int]] = ()) -> Step:
    """Return the step that executes primitives in order, with a scratchpad of the plan.

    Args:
        call: The call of the kernel; its reads and writes have been declared.
        works: The primitives.
        in_place: As in `KernelCall.step`.
    """
    return call.step(execution(call, *works), in_place=in_place)


def execution(call: KernelCall, *works: Work) -> Execution:
    """Return the bind of primitives in order, with a scratchpad of the plan."""
    needed = max(work.primitive.scratchpad.nbytes for work in works)
    pad = call.scratch(needed) if needed else None
    return Execution(works, pad, release_gil(call.options))
