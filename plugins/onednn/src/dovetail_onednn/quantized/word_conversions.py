"""Conversions of 16-bit tensors, which the library does not know.

A step first copies lower and upper bytes, or stored integers as float32, to a scratchpad. NumPy
does that: the library's copies of every other byte took six times as long. A primitive whose result
has 16 bits writes float32: adding `_MAGIC` rounds half to even, and leaves the stored integer in
the lower two bytes of each float32. These are copied last.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dovetail.ir import DType, Spec
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
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_onednn._api import Algorithm, DataType
from dovetail_onednn.attributes import Eltwise
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import TYPES
from dovetail_onednn.recipes import BUILDERS

WORDS = {DType.UFIXED_POINT_16: DataType.U8, DType.SFIXED_POINT_16: DataType.S8}  # upper bytes
BYTE = 8  # bits
_MAGIC = 1.5 * 2**23
_LINE = 64  # bytes
_ROOMS = 4  # of a byte for each element
_SIGN = 128
_FLOAT = 4  # bytes
_WORDS = "onednn.words"


def rounding(zero: int, limits: tuple[int, int]) -> list[Eltwise]:
    """Return the last post-ops of a primitive whose result has 16 bits."""
    shift = [Eltwise(Algorithm.LINEAR, 1.0, float(zero))] if zero else []
    clip = Eltwise(Algorithm.CLIP, *map(float, limits))
    return [*shift, clip, Eltwise(Algorithm.LINEAR, 1.0, _MAGIC)]


class WordBytes:
    """The bytes of an input of a call, as the primitives of its step read them.

    Args:
        call: The call of the kernel.
        index: Its input, of 16 bits.
    """

    def __init__(self, call: KernelCall, index: int) -> None:
        self._spec = call.spec(index)
        self._count = math.prod(self._spec.shape)
        self.data = call.read(index)
        self.room = call.scratch(_ROOMS * _apart(self._count))

    def argument(self, desc: MemoryDesc, shift: int) -> Argument:
        """Return the lower bytes (shift 0) or the upper ones (shift 8)."""
        at = _apart(self._count) if shift else 0
        return Argument(desc.of_type(byte_type(self._spec, shift)), self.room, at)


class StoredReals:
    """The stored integers of an input of a call as float32.

    Args:
        call: The call of the kernel.
        index: Its input, of up to 16 bits.
    """

    def __init__(self, call: KernelCall, index: int) -> None:
        self.data = call.read(index)
        self.room = call.scratch(_FLOAT * math.prod(call.spec(index).shape))

    def argument(self, desc: MemoryDesc) -> Argument:
        """Return them as an argument of a primitive."""
        return Argument(desc.of_type(DataType.F32), self.room)

    def conversion(self, buffers: Buffers) -> Bound:
        """Return the call that converts them."""
        return _convert(buffers, self.data, self.room)


def byte_type(spec: Spec, shift: int) -> DataType:
    """Return the type of lower (shift 0) or upper bytes (shift 8), or of a tensor of bytes."""
    return TYPES[spec.dtype] if spec.dtype in TYPES else WORDS[spec.dtype] if shift else DataType.U8


def byte_zero(spec: Spec, shift: int) -> int:
    """Return the zero point of lower (shift 0) or upper bytes (shift 8), or of bytes."""
    zero = grid_of(spec)[1]
    if spec.dtype in TYPES:
        return zero
    zero -= spec.dtype.stored_range()[0]
    if not shift:
        return zero & 255
    return (zero >> BYTE) - (_SIGN if spec.dtype.is_signed else 0)


def step_of_words(
    call: KernelCall,
    stages: Stages,
    inputs: Sequence[WordBytes | StoredReals],
    total: Argument,
) -> Step:
    """Return the step that converts inputs, executes primitives, and stores their float32 result.

    Args:
        call: The call of the kernel.
        stages: The primitives. For a result of 16 bits, the last one ends with `rounding`.
        inputs: What they read in another form.
        total: Their result.
    """
    result, dtype = call.write(0), call.outputs[0].dtype
    bytes_of = [(each.data, each.room) for each in inputs if isinstance(each, WordBytes)]
    reals = [(each.data, each.room) for each in inputs if isinstance(each, StoredReals)]
    joined = (total.value, result) if dtype in WORDS else None
    if joined is None:
        stages.move(total, Argument(total.desc.of_type(TYPES[dtype]), result))
    return call.step(_Words(stages.execution(), bytes_of, reals, joined))


def _apart(count: int) -> int:
    """Return the distance of the upper bytes from the lower ones, for a number of elements."""
    return -(-count // _LINE) * _LINE


Pairs = Sequence[tuple[Value, Value]]


class _Words:
    """The bind of primitives between the conversions of their data and result.

    Args:
        product: The bind of the primitives.
        bytes_of: Data of 16 bits, and scratchpads for lower bytes, upper bytes, and shifted words.
        reals: Stored integers, and scratchpads for them as float32.
        joined: Float32 numbers with the result in their lower two bytes, and where these are copied
            to; None for a result of other types, which `product` writes.

    Raises:
        RecipeError: Values do not match, as they may not in an image.
    """

    __slots__ = ("_bytes_of", "_joined", "_product", "_reals")

    def __init__(
        self, product: Bind, bytes_of: Pairs, reals: Pairs, joined: tuple[Value, Value] | None
    ) -> None:
        self._product, self._joined = product, joined
        self._bytes_of, self._reals = tuple(bytes_of), tuple(reals)
        for data, room in self._bytes_of:
            fits = data.nbytes % 2 == 0 and room.nbytes >= _ROOMS * _apart(data.nbytes // 2)
            _check(data, room, fits=fits)
        for data, room in self._reals:
            elements, dtype = math.prod(data.spec.shape), data.spec.dtype
            is_stored = dtype in WORDS | TYPES and data.layout is None
            _check(data, room, fits=is_stored and room.nbytes == _FLOAT * elements)
        if joined is None:
            return
        total, result = joined
        _check(result, total, fits=total.nbytes == 2 * result.nbytes)
        if result.root.storage not in (Storage.ARENA, Storage.OUTPUT):
            raise RecipeError(f"a product writes '{result.name}', which is only read")

    def __call__(self, buffers: Buffers) -> Bound:
        """Return the call for these buffers."""
        calls = [_split(buffers, data, room) for data, room in self._bytes_of]
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
        bytes_of, reals, joined = (
            tuple((recorder.value(value), recorder.value(room)) for value, room in pairs)
            for pairs in (self._bytes_of, self._reals, [self._joined] if self._joined else [])
        )
        return _WORDS, WordsData(name, data, bytes_of, reals, joined)


def _check(data: Value, room: Value, *, fits: bool) -> None:
    """Raise if a value and its other form do not match."""
    if not fits or room.root.storage is not Storage.ARENA:
        raise RecipeError(f"the bytes of '{data.name}' do not fit their buffers")


def _split(buffers: Buffers, data: Value, room: Value) -> Bound:
    """Return the call that copies lower and upper bytes."""
    words = buffers.array(data).reshape(-1).view(np.uint16)
    pad, apart = buffers.array(room).reshape(-1).view(np.uint8), _apart(words.size)
    lower, upper = pad[: words.size], pad[apart : apart + words.size]
    shifted = pad[2 * apart : 2 * apart + 2 * words.size].view(np.uint16)

    def run() -> None:
        np.copyto(lower, words, casting="unsafe")  # drops the upper bytes
        np.right_shift(words, BYTE, out=shifted)
        np.copyto(upper, shifted, casting="unsafe")

    return run


def _convert(buffers: Buffers, data: Value, room: Value) -> Bound:
    """Return the call that converts stored integers to float32."""
    real = buffers.array(room).view(np.float32)
    return functools.partial(np.copyto, real, buffers.array(data).reshape(-1))


class WordsData(Data, frozen=True):
    """A `_Words`: the builder and data of its primitives, and pairs of values."""

    builder: str
    product: Any
    bytes_of: tuple[tuple[int, int], ...]
    reals: tuple[tuple[int, int], ...]
    joined: tuple[tuple[int, int], ...]


@BUILDERS.builds(_WORDS, WordsData)
def _words(data: WordsData, source: Source) -> _Words:
    bytes_of, reals, joined = (
        [(source.value(value), source.value(other)) for value, other in pairs]
        for pairs in (data.bytes_of, data.reals, data.joined)
    )
    if len(joined) > 1:
        raise RecipeError("a step of words has more than one result")
    product = source.bind(data.builder, data.product)
    return _Words(product, bytes_of, reals, joined[0] if joined else None)
