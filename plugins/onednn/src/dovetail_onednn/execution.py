"""Executions: the binds of steps that execute primitives on values of a plan."""

# Annotations stay types: msgspec would compile texts at each start of a process (ADR 39).

import functools
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from dovetail.runtime.plan import (
    Bound,
    Buffers,
    Data,
    PlanRecorder,
    RecipeError,
    Source,
    Storage,
    Value,
    call_sequence,
)
from dovetail_onednn._api import Arg
from dovetail_onednn.attributes import Slopes, is_input
from dovetail_onednn.bound_primitive import BoundPrimitive
from dovetail_onednn.descriptors import Memory, MemoryDesc
from dovetail_onednn.primitives import Primitive
from dovetail_onednn.recipes import BUILDERS, Recorded, record_primitive
from dovetail_onednn.threads import ReleaseGil

_EXECUTE = "onednn.execute"
_WRITABLE = (Storage.ARENA, Storage.OUTPUT)


class ArgumentData(Data, frozen=True):
    """An argument: its number, the value and the offset in it."""

    arg: int
    value: int
    offset: int = 0


class WorkData(Data, frozen=True):
    """A primitive and its arguments, without the scratchpad, and the previous destination."""

    primitive: int
    arguments: tuple[ArgumentData, ...]
    previous: int | None = None


class ExecutionData(Data, frozen=True):
    """Primitives in order, and the value of their scratchpad."""

    works: tuple[WorkData, ...]
    pad: int | None


class Argument(msgspec.Struct, frozen=True):
    """An argument of a primitive.

    Attributes:
        desc: Its descriptor.
        value: The value that has its bytes.
        offset: Offset in the value, in bytes.
    """

    desc: MemoryDesc
    value: Value
    offset: int = 0


class Work(msgspec.Struct, frozen=True):
    """A primitive and its arguments.

    Attributes:
        primitive: The primitive.
        arguments: Its arguments, without the scratchpad.
        previous: The value that the destination holds before, for a primitive that adds to it: in
            the same bytes, or copied there.
    """

    primitive: Primitive
    arguments: Mapping[int, Argument]
    previous: Value | None = None


class Execution:
    """The bind of primitives that are executed in order.

    Args:
        works: The primitives.
        pad: A scratchpad for all of them, or None.
        release_gil: When other Python threads may run during a call.

    Raises:
        RecipeError: An argument exceeds its value, as it may with forms and layouts of an image.
    """

    __slots__ = ("_bindings", "_pad", "_works")

    def __init__(self, works: Sequence[Work], pad: Value | None, release_gil: ReleaseGil) -> None:
        self._works = tuple(works)
        self._pad = pad
        for work in works:
            _check_sizes(work, pad)
        self._bindings = [_Binding(work, pad, release_gil) for work in works]

    def __call__(self, buffers: Buffers) -> Bound:
        """Return the call for these buffers."""
        if len(self._bindings) == 1:
            return self._bindings[0](buffers)
        return call_sequence(binding(buffers) for binding in self._bindings)

    def record(self, recorder: PlanRecorder) -> tuple[str, Data]:
        """Return it as data; see `Recipe`."""
        works = tuple(
            WorkData(
                record_primitive(work.primitive.described, recorder),
                tuple(
                    ArgumentData(int(arg), recorder.value(each.value), each.offset)
                    for arg, each in work.arguments.items()
                ),
                recorder.optional(work.previous),
            )
            for work in self._works
        )
        return _EXECUTE, ExecutionData(works, recorder.optional(self._pad))


@BUILDERS.builds(_EXECUTE, ExecutionData)
def _execution(data: ExecutionData, source: Source) -> Execution:
    pad = None if data.pad is None else source.value(data.pad)
    works = [_work(each, source) for each in data.works]
    used = {argument.value.root for work in works for argument in work.arguments.values()}
    # the library keeps addresses in it, which nothing else may overwrite
    if pad is not None and (pad.root.storage is not Storage.ARENA or pad.root in used):
        raise RecipeError(f"the scratchpad of a primitive is '{pad.name}'")
    return Execution(works, pad, release_gil(source.options))


def _work(data: WorkData, source: Source) -> Work:
    recorded = source.item(data.primitive, Recorded)
    primitive = recorded.primitive
    arguments: dict[int, Argument] = {}
    for arg, number, offset in ((a.arg, a.value, a.offset) for a in data.arguments):
        value = source.value(number)
        if not is_input(arg) and value.root.storage not in _WRITABLE:
            raise RecipeError(f"a primitive writes '{value.name}', which is only read")
        arguments[arg] = Argument(recorded.argument(arg), value, offset)
    _check_quantization(recorded, arguments)
    _check_slopes(recorded)
    previous = None if data.previous is None else source.value(data.previous)
    return Work(primitive, arguments, previous)


def _check_quantization(recorded: Recorded, arguments: Mapping[int, Argument]) -> None:
    """Raise if scales or zero points are missing: not all of the library's code checks that."""
    if not recorded.described.description.quantization.arguments <= arguments.keys():
        raise RecipeError("scales or zero points of a primitive are missing")


def _check_sizes(work: Work, pad: Value | None) -> None:
    """Raise if an argument of a primitive, or its scratchpad, exceeds its value."""
    for arg, argument in work.arguments.items():
        _check_size(argument, f"argument {arg} of a primitive")
    target, previous = work.arguments.get(Arg.DESTINATION), work.previous
    if previous is not None and (target is None or target.value.nbytes != previous.nbytes):
        raise RecipeError(f"a primitive cannot add to '{previous.name}'")
    if pad is not None:
        _check_size(Argument(work.primitive.scratchpad, pad), "a scratchpad")


def _check_size(argument: Argument, what: str) -> None:
    """Raise if an argument exceeds its value."""
    needed, value = argument.desc.reach, argument.value
    if argument.offset < 0 or argument.offset + needed > value.nbytes:
        raise RecipeError(
            f"{what} takes {needed} bytes at {argument.offset} of '{value.name}', which has "
            f"{value.nbytes}"
        )


def _check_slopes(recorded: Recorded) -> None:
    """Raise if slopes of a post-op do not match the result: the library does not check them."""
    for op in recorded.described.description.post_ops:
        if isinstance(op, Slopes):
            wanted, found = recorded.argument(Arg.DESTINATION).dims, op.other.dims
            fits = len(wanted) == len(found)
            if not fits or any(f not in (1, w) for f, w in zip(found, wanted, strict=True)):
                raise RecipeError(f"slopes of shape {found} for a result of shape {wanted}")


class _Binding:
    """The bind of a primitive; when called again, it moves the memories to the new addresses.

    That takes a hundredth of the time of new memories, and each run with a new array binds the
    steps that read it. It returns the same call again: a step belongs to one plan, which uses the
    latest.
    """

    def __init__(self, work: Work, pad: Value | None, release_gil: ReleaseGil) -> None:
        self._primitive = work.primitive
        self._arguments = dict(work.arguments)
        if pad is not None and work.primitive.scratchpad.nbytes:
            self._arguments[Arg.SCRATCHPAD] = Argument(work.primitive.scratchpad, pad)
        self._release_gil = release_gil
        self._bound: BoundPrimitive | None = None
        self._moving: tuple[tuple[Memory, Argument], ...] = ()
        self._previous = work.previous

    def __call__(self, buffers: Buffers) -> Bound:
        """Return the call for these buffers."""
        if self._bound is None:
            found = {arg: (p.desc, _address(buffers, p)) for arg, p in self._arguments.items()}
            bound = self._bound = self._primitive.bind(found, self._release_gil)
            moving = {arg: p for arg, p in self._arguments.items() if p.value.is_application}
            self._moving = tuple((bound.memory(arg), p) for arg, p in moving.items())
        else:
            for memory, argument in self._moving:
                memory.move(_address(buffers, argument))
        if self._previous is not None:
            return self._after_copy(self._previous, self._bound, buffers)
        return self._bound

    def _after_copy(self, previous: Value, bound: Bound, buffers: Buffers) -> Bound:
        """Return a call that first copies the previous content of the destination, if needed."""
        target = self._arguments[Arg.DESTINATION].value
        if buffers.address(previous) == buffers.address(target):
            return bound
        old, new = (buffers.array(v).reshape(-1).view(np.uint8) for v in (previous, target))
        return call_sequence((functools.partial(np.copyto, new, old), bound))


def _address(buffers: Buffers, argument: Argument) -> int:
    return buffers.address(argument.value) + argument.offset


def release_gil(options: object) -> ReleaseGil:
    """Return when other Python threads may run, by the options of a backend."""
    found: ReleaseGil = getattr(options, "release_gil", ReleaseGil.AUTO)
    return found
