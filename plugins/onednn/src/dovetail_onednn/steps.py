"""Steps of a plan that execute one primitive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dovetail.ir import DType
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value, call_sequence
from dovetail_onednn._api import Arg, DataType
from dovetail_onednn.descriptors import Memory, MemoryDesc
from dovetail_onednn.layouts import layout_of
from dovetail_onednn.post_ops import Chain
from dovetail_onednn.primitives import (
    BoundPrimitive,
    Eltwise,
    Primitive,
    PrimitiveDesc,
    operand,
)
from dovetail_onednn.threads import ReleaseGil

# Its generic code; of batch normalizations, that for channels that fill no vector.
_GENERIC = ("ref", "nspc_bnorm")


def is_float32(call: KernelCall) -> bool:
    """Return whether all tensors are FLOAT_32 and have elements: the empty ones are the reference's."""
    tensors = [t for t in (*call.tensors, *call.outputs) if t is not None]
    return all(t.dtype is DType.FLOAT_32 and 0 not in t.shape for t in tensors)


def is_slow(desc: PrimitiveDesc) -> bool:
    """Return whether all that the library has is its generic code, which NumPy's kernels outrun."""
    return desc.implementation.startswith(_GENERIC)


@dataclass(frozen=True, slots=True)
class Argument:
    """Where an argument of a primitive lies.

    Attributes:
        desc: What lies there.
        value: Whose bytes they are.
        offset: How many bytes of the value come before.
    """

    desc: MemoryDesc
    value: Value
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Work:
    """A primitive and where its arguments lie, all but the scratchpad."""

    primitive: Primitive
    places: Mapping[int, Argument]


class Arguments:
    """What a primitive's arguments are, collected while a kernel declares its step.

    Args:
        call: The kernel's.
        desc: The primitive, described.
    """

    def __init__(self, call: KernelCall, desc: PrimitiveDesc) -> None:
        self._call = call
        self._desc = desc
        self._found: dict[int, Argument] = {}

    def read(self, arg: int, index: int, dense: MemoryDesc) -> None:
        """Declare that an input is read, in the layout that the primitive wants.

        Args:
            arg: Which argument it is.
            index: The input of the call.
            dense: Its dense form.
        """
        self.read_form(arg, index, self._desc.desc(arg), dense)

    def read_form(self, arg: int, index: int, wanted: MemoryDesc, dense: MemoryDesc) -> None:
        """Declare that an input is read in a form that the primitive was described with.

        Args:
            arg: Which argument it is.
            index: The input of the call.
            wanted: The form.
            dense: The input's dense form.
        """
        self._found[arg] = Argument(wanted, self._call.read(index, layout_of(wanted, dense)))

    def read_as_it_lies(self, arg: int, index: int) -> None:
        """Declare that an input is read in the layout it is in: the primitive was told of it."""
        value = self._call.read(index, self._call.layout(index))
        self._found[arg] = Argument(self._desc.desc(arg), value)

    def read_chain(self, chain: Chain) -> None:
        """Declare that the operands of post-ops are read; they are dense, of a type each."""
        for position, index in chain.operands:
            op = chain.ops[position]
            if isinstance(op, Eltwise):
                raise AssertionError(f"{op} reads no tensor")
            dense = op.other.of_type(DataType.F32)
            self.read_form(operand(position, op), index, op.other, dense)

    def constant(self, arg: int, value: Value, desc: MemoryDesc) -> None:
        """Declare a constant that the kernel made."""
        self._found[arg] = Argument(desc, value)

    def write(self, arg: int, index: int, dense: MemoryDesc) -> None:
        """Declare that an output is written, in the layout that the primitive makes."""
        made = self._desc.desc(arg)
        self._found[arg] = Argument(made, self._call.write(index, layout_of(made, dense)))

    def step(
        self, *, in_place: Sequence[tuple[int, int]] = (), fixed_threads: bool = False
    ) -> Step:
        """Compiles the primitive and gives the step that executes it.

        Args:
            in_place: As in `KernelCall.step`.
            fixed_threads: As for `Primitive`.
        """
        primitive = Primitive(self._desc, fixed_threads=fixed_threads)
        return execute(self._call, Work(primitive, self._found), in_place=in_place)


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
        call: The kernel's.
        desc: The primitive, which is closed.
        source: Dense form of the input.
        target: Dense form of the output.
        chain: What is done to the result.
        in_place: As in `KernelCall.step`.

    Returns:
        The step; None where all the library has is its generic code.
    """
    with desc:
        if is_slow(desc):
            return None
        places = Arguments(call, desc)
        places.read(Arg.SOURCE, 0, source)
        if chain is not None:
            places.read_chain(chain)
        places.write(Arg.DESTINATION, 0, target)
        return places.step(in_place=in_place)


def execute(call: KernelCall, *works: Work, in_place: Sequence[tuple[int, int]] = ()) -> Step:
    """Return the step that executes primitives in a row, with a scratchpad of the plan's.

    Args:
        call: The kernel's; what the step reads and writes is declared.
        works: The primitives.
        in_place: As in `KernelCall.step`.
    """
    needed = max(work.primitive.scratchpad.nbytes for work in works)
    pad = call.scratch(needed) if needed else None
    release_gil = getattr(call.options, "release_gil", ReleaseGil.AUTO)
    bindings = [Binding(work, pad, release_gil) for work in works]
    if len(bindings) == 1:
        return call.step(bindings[0], in_place=in_place)

    def bind(buffers: Buffers) -> Bound:
        return call_sequence(binding(buffers) for binding in bindings)

    return call.step(bind, in_place=in_place)


class Binding:
    """Binds a primitive of a step; when it is bound again, its memories move to the new places.

    That is a hundredth of the work of making them anew, and every run of an application that brings
    a new array binds the steps that read it. The call bound before is the same one: a step belongs
    to one plan, which calls what was bound last.
    """

    def __init__(self, work: Work, pad: Value | None, release_gil: ReleaseGil) -> None:
        self._primitive = work.primitive
        self._places = dict(work.places)
        if pad is not None and work.primitive.scratchpad.nbytes:
            self._places[Arg.SCRATCHPAD] = Argument(work.primitive.scratchpad, pad)
        self._release_gil = release_gil
        self._bound: BoundPrimitive | None = None
        self._moving: tuple[tuple[Memory, Argument], ...] = ()

    def __call__(self, buffers: Buffers) -> Bound:
        """Return the call for these buffers."""
        if self._bound is None:
            found = {arg: (p.desc, _address(buffers, p)) for arg, p in self._places.items()}
            bound = self._bound = self._primitive.bind(found, self._release_gil)
            moving = {arg: p for arg, p in self._places.items() if p.value.is_application}
            self._moving = tuple((bound.memory(arg), p) for arg, p in moving.items())
        else:
            for memory, place in self._moving:
                memory.move(_address(buffers, place))
        return self._bound


def _address(buffers: Buffers, place: Argument) -> int:
    return buffers.address(place.value) + place.offset
