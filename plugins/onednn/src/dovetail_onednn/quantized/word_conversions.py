"""Conversions of 16-bit tensors, which the library does not know.

A step first copies lower and upper bytes, or stored integers as float32, to a scratchpad. NumPy
does that: the library's copies of every other byte took six times as long. A primitive whose result
has 16 bits writes float32: adding `_MAGIC` rounds half to even, and leaves the stored integer in
the lower two bytes of each float32. These are copied last.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.ir import Spec
from dovetail.runtime.plan import (
    Bind,
    Bound,
    Buffers,
    Data,
    KernelCall,
    PlanRecorder,
    RecipeError,
    Source,
    Step,
    Storage,
    Value,
    call_sequence,
)
from dovetail_numpy.integer import Rescale
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_onednn._api import Algorithm, DataType
from dovetail_onednn.attributes import Eltwise
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.quantized.chains import limits_of
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import TYPES, WORDS
from dovetail_onednn.recipes import BUILDERS

BYTE = 8  # bits
_MAGIC = 1.5 * 2**23
_LINE = 64  # bytes
_SIGN = 1 << 15  # the bit that differs between signed words and unsigned ones
_SIGNS = 0x8080  # the same of both bytes
_HALF = 128  # from unsigned bytes to signed ones
_FLOAT = 4  # bytes
_WORDS = "onednn.words"


def rounding(limits: tuple[int, int]) -> list[Eltwise]:
    """Return the last post-ops of a primitive whose result has 16 bits."""
    clip = Eltwise(Algorithm.CLIP, *map(float, limits))
    return [clip, Eltwise(Algorithm.LINEAR, 1.0, _MAGIC)]


def ending(call: KernelCall, rescale: Rescale) -> list[Eltwise]:
    """Return the post-ops after a sum in steps of the result, of up to 16 bits.

    They add the zero point and clip. A result of 8 bits is rounded by `step_of_words`.
    """
    out, zero = call.outputs[0].dtype, rescale.zero
    shift = [Eltwise(Algorithm.LINEAR, 1.0, float(zero))] if zero else []
    low, high = (int(n) for n in np.clip(rescale.limits, *limits_of(call)))
    if out in WORDS:
        return [*shift, *rounding((low, high))]
    is_whole = (low, high) == out.stored_range()  # then the conversion to the type clips
    return shift if is_whole else [*shift, Eltwise(Algorithm.CLIP, float(low), float(high))]


class WordBytes:
    """The bytes of an input of a call, as the primitives of its step read them.

    Args:
        call: The call of the kernel.
        index: Its input, of 16 bits.
        groups: Number of groups of channels.
        copies: Number of copies of the channels of each group, one after the other.
        is_signed: Whether 128 is subtracted from the bytes.
    """

    def __init__(
        self,
        call: KernelCall,
        index: int,
        groups: int = 1,
        copies: int = 1,
        *,
        is_signed: bool = False,
    ) -> None:
        shape, self._is_signed = call.spec(index).shape, is_signed
        self._count, self._copies = math.prod(shape), copies
        self._width = shape[-1] // groups if copies > 1 else self._count
        self._data, self._room = call.read(index), call.scratch(_room(self._count, copies))

    @property
    def split(self) -> Split:
        """The conversion."""
        return Split(self._data, self._room, self._width, self._copies, self._is_signed)

    def argument(self, desc: MemoryDesc, shift: int) -> Argument:
        """Return the lower bytes (shift 0) or the upper ones (shift 8)."""
        at = _apart(self._count * self._copies) if shift else 0
        kind = DataType.S8 if self._is_signed else DataType.U8
        return Argument(desc.of_type(kind), self._room, at)


class StoredReals:
    """The stored integers of an input of a call as float32.

    Args:
        call: The call of the kernel.
        index: Its input, of up to 16 bits.
    """

    def __init__(self, call: KernelCall, index: int) -> None:
        self._data = call.read(index)
        self._room = call.scratch(_FLOAT * math.prod(call.spec(index).shape))

    def argument(self, desc: MemoryDesc) -> Argument:
        """Return them as an argument of a primitive."""
        return Argument(desc.of_type(DataType.F32), self._room)

    @property
    def pair(self) -> tuple[Value, Value]:
        """The input, and its numbers as float32."""
        return self._data, self._room

    def conversion(self, buffers: Buffers) -> Bound:
        """Return the call that converts them."""
        return _convert(buffers, *self.pair)


def byte_zero(spec: Spec, shift: int, *, is_signed: bool = False) -> int:
    """Return the zero point of lower (shift 0) or upper bytes (shift 8); see `WordBytes`."""
    zero = grid_of(spec)[1] - spec.dtype.stored_range()[0]
    return (zero >> BYTE if shift else zero & 255) - (_HALF if is_signed else 0)


def step_of_words(
    call: KernelCall,
    stages: Stages,
    inputs: Sequence[WordBytes | StoredReals],
    total: Argument,
) -> Step:
    """Return the step that converts inputs, executes primitives, and stores their float32 result.

    Args:
        call: The call of the kernel.
        stages: The primitives. The last one ends with `ending`.
        inputs: What they read in another form.
        total: Their result.
    """
    result, dtype = call.write(0), call.outputs[0].dtype
    splits = [each.split for each in inputs if isinstance(each, WordBytes)]
    reals = [each.pair for each in inputs if isinstance(each, StoredReals)]
    joined = (total.value, result) if dtype in WORDS else None
    if joined is None:
        stages.move(total, Argument(total.desc.of_type(TYPES[dtype]), result))
    return call.step(_Words(stages.execution(), splits, reals, joined))


def _apart(count: int) -> int:
    """Return the distance of the upper bytes from the lower ones, for a number of elements."""
    return -(-count // _LINE) * _LINE


def _room(count: int, copies: int) -> int:
    """Return the bytes of copies of lower and upper bytes, and of words."""
    return 2 * _apart(count * copies) + 2 * _apart(count)


@dataclass(frozen=True, slots=True)
class Split:
    """A conversion of words to lower and upper bytes.

    Attributes:
        data: The words.
        room: Scratchpad for lower bytes, upper bytes, and shifted words.
        width: Number of neighbors that are copied together.
        copies: Number of their copies.
        is_signed: Whether 128 is subtracted from the bytes.
    """

    data: Value
    room: Value
    width: int
    copies: int
    is_signed: bool

    def check(self) -> None:
        """Raise if the values do not match, as they may not in an image.

        Raises:
            RecipeError: They do not.
        """
        count = math.prod(self.data.spec.shape)
        is_whole = self.width > 0 and self.copies > 0 and count % self.width == 0
        are_words = self.data.spec.dtype in WORDS and self.data.layout is None
        fits = is_whole and are_words and self.room.nbytes >= _room(count, self.copies)
        _check(self.data, self.room, fits=fits)

    def bind(self, buffers: Buffers) -> Bound:
        """Return the call that copies the bytes."""
        words = buffers.array(self.data).reshape(-1).view(np.uint16)
        pad, size = buffers.array(self.room).reshape(-1).view(np.uint8), words.size
        many, apart = size * self.copies, _apart(size * self.copies)
        shape, one = (-1, self.copies, self.width), (-1, 1, self.width)
        lower, upper = (pad[at : at + many].reshape(shape) for at in (0, apart))
        room = pad[2 * apart : 2 * apart + 2 * size].view(np.uint16)
        plain, shifted = words.reshape(one), room.reshape(one)
        signs = (_SIGN if self.data.spec.dtype.is_signed else 0) ^ (_SIGNS if self.is_signed else 0)

        source, base = (shifted, room) if signs else (plain, words)
        calls: list[Callable[[], object]] = []
        if signs:
            calls.append(functools.partial(np.bitwise_xor, words, signs, out=room))
        calls.append(functools.partial(np.copyto, lower, source, casting="unsafe"))
        if self.copies == 1 and sys.byteorder == "little":
            # words that begin a byte later end with the upper bytes: half the time of shifts
            stored, each = base.view(np.uint8), upper.reshape(-1)
            late = stored[1:-1].view(np.uint16)
            calls.append(functools.partial(np.copyto, each[:-1], late, casting="unsafe"))
            calls.append(functools.partial(np.copyto, each[-1:], stored[-1:]))
        else:
            calls.append(functools.partial(np.right_shift, base, BYTE, out=room))
            calls.append(functools.partial(np.copyto, upper, shifted, casting="unsafe"))
        return call_sequence(calls)


Pairs = Sequence[tuple[Value, Value]]


class _Words:
    """The bind of primitives between the conversions of their data and result.

    Args:
        product: The bind of the primitives.
        splits: Conversions to bytes.
        reals: Stored integers, and scratchpads for them as float32.
        joined: Float32 numbers with the result in their lower two bytes, and where these are copied
            to; None for a result of other types, which `product` writes.

    Raises:
        RecipeError: Values do not match, as they may not in an image.
    """

    __slots__ = ("_joined", "_product", "_reals", "_splits")

    def __init__(
        self,
        product: Bind,
        splits: Sequence[Split],
        reals: Pairs,
        joined: tuple[Value, Value] | None,
    ) -> None:
        self._product, self._joined = product, joined
        self._splits, self._reals = tuple(splits), tuple(reals)
        for split in self._splits:
            split.check()
        for data, room in self._reals:
            elements, dtype = math.prod(data.spec.shape), data.spec.dtype
            is_stored = dtype in WORDS | TYPES.keys() and data.layout is None
            _check(data, room, fits=is_stored and room.nbytes == _FLOAT * elements)
        if joined is None:
            return
        total, result = joined
        _check(result, total, fits=total.nbytes == 2 * result.nbytes)
        if result.root.storage not in (Storage.ARENA, Storage.OUTPUT):
            raise RecipeError(f"a product writes '{result.name}', which is only read")

    def __call__(self, buffers: Buffers) -> Bound:
        """Return the call for these buffers."""
        calls = [split.bind(buffers) for split in self._splits]
        calls += [_convert(buffers, data, room) for data, room in self._reals]
        calls.append(self._product(buffers))
        if self._joined is not None:
            found, result = (buffers.array(value).reshape(-1) for value in self._joined)
            integers = result.view(np.uint16), found.view(np.uint32)
            calls.append(functools.partial(np.copyto, *integers, casting="unsafe"))
        return call_sequence(calls)

    def record(self, recorder: PlanRecorder) -> tuple[str, Data]:
        """Return it as data; see `Recipe`."""
        name, data = recorder.inner(self._product)
        reals, joined = (
            tuple((recorder.value(value), recorder.value(room)) for value, room in pairs)
            for pairs in (self._reals, [self._joined] if self._joined else [])
        )
        splits = tuple(
            (recorder.value(s.data), recorder.value(s.room), s.width, s.copies, s.is_signed)
            for s in self._splits
        )
        return _WORDS, WordsData(name, data, splits, reals, joined)


def _check(data: Value, room: Value, *, fits: bool) -> None:
    """Raise if a value and its other form do not match."""
    if not fits or room.root.storage is not Storage.ARENA:
        raise RecipeError(f"the bytes of '{data.name}' do not fit their buffers")


def _convert(buffers: Buffers, data: Value, room: Value) -> Bound:
    """Return the call that converts stored integers to float32."""
    real = buffers.array(room).view(np.float32)
    return functools.partial(np.copyto, real, buffers.array(data).reshape(-1))


class WordsData(Data, frozen=True):
    """A `_Words`: the builder and data of its primitives, values, and the numbers of splits."""

    builder: str
    product: Any
    splits: tuple[tuple[int, int, int, int, bool], ...]
    reals: tuple[tuple[int, int], ...]
    joined: tuple[tuple[int, int], ...]


@BUILDERS.builds(_WORDS, WordsData)
def _words(data: WordsData, source: Source) -> _Words:
    reals, joined = (
        [(source.value(value), source.value(other)) for value, other in pairs]
        for pairs in (data.reals, data.joined)
    )
    splits = [
        Split(source.value(read), source.value(room), width, copies, is_signed)
        for read, room, width, copies, is_signed in data.splits
    ]
    if len(joined) > 1:
        raise RecipeError("a step of words has more than one result")
    product = source.bind(data.builder, data.product)
    return _Words(product, splits, reals, joined[0] if joined else None)
