"""Conversions of 16-bit tensors, which the library does not know.

Products read `Planes`, other primitives stored integers as float32, which NumPy copies to a
scratchpad. Results are float32, rounded half to even. If every reader wants `Planes`, two
primitives write them. Otherwise adding `MAGIC` rounds, and leaves the stored integer in the lower
two bytes of each float32, which NumPy copies.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from dovetail.ir import Node, Spec, Tensor
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
from dovetail_onednn._api import SCALES, Algorithm, Arg, BinaryAlgorithm, DataType
from dovetail_onednn.attributes import Eltwise, Quantization
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import Planes
from dovetail_onednn.planes import planes_of
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.quantized.chains import word_ops
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import TYPES, WORDS
from dovetail_onednn.recipes import BUILDERS
from dovetail_onednn.threads import LEAST_SHARED_ELEMENTS, threads

BYTE = 8  # bits
MAGIC = 1.5 * 2**23
# Of the quotient by BYTES of a word minus HALF, the nearest whole number is the upper byte: no tie.
BYTES = 256
HALF = 127.5
_SIGNED = 128  # from unsigned bytes to signed ones
_FLOAT = 4  # bytes
_WORDS = "onednn.words"
# Ops that multiply their first input by weights, and read its bytes.
_PRODUCTS = frozenset(
    {
        *(f"Conv{axes}d" for axes in (1, 2, 3)),
        *(f"DepthWiseConv{axes}d" for axes in (1, 2)),
        *(f"TransposeConv{axes}d" for axes in (1, 2, 3)),
        "FullyConnected",
        "MatMul",
    }
)


def rounding(call: KernelCall, limits: tuple[int, int]) -> list[Eltwise]:
    """Return the last post-ops of a primitive whose result has 16 bits."""
    clip = Eltwise(Algorithm.CLIP, *map(float, limits))
    if not _writes_planes(call):
        return [clip, Eltwise(Algorithm.LINEAR, 1.0, MAGIC)]
    least = call.outputs[0].dtype.stored_range()[0]
    shift = [Eltwise(Algorithm.LINEAR, 1.0, -float(least))] if least else []
    return [clip, Eltwise(Algorithm.ROUND), *shift]


def ending(call: KernelCall, rescale: Rescale) -> list[Eltwise]:
    """Return the post-ops after a sum in steps of the result, of up to 16 bits.

    They add the zero point, compute the fused nodes and clip. A result of 8 bits is rounded
    by `step_of_words`.
    """
    ops, limits = word_ops(call, rescale)
    out = call.outputs[0].dtype
    if out in WORDS:
        return [*ops, *rounding(call, limits)]
    is_whole = limits == out.stored_range()  # then the conversion to the type clips
    return [*ops] if is_whole else [*ops, Eltwise(Algorithm.CLIP, *map(float, limits))]


class WordBytes:
    """The bytes of an input of a call, as the primitives of its step read them.

    Args:
        call: The call of the kernel.
        index: Its input, of 16 bits.
        copies: Number of copies of the channels of each group, one after the other.
        width: Number of channels of a group; by default those of the last axis.
        is_signed: Whether 128 is subtracted from the bytes.

    Attributes:
        spread: What copies or subtracts, or None.
    """

    def __init__(
        self,
        call: KernelCall,
        index: int,
        copies: int = 1,
        width: int | None = None,
        *,
        is_signed: bool = False,
    ) -> None:
        shape, self._is_signed = call.spec(index).shape, is_signed
        count = math.prod(shape)
        self._planes, self.spread = Planes(count * copies), None
        self._value = planes = call.read(index, Planes(count))
        if copies > 1 or is_signed:
            self._value = call.scratch(self._planes.nbytes)
            self.spread = Spread(planes, self._value, width or shape[-1], copies, is_signed)

    def argument(self, desc: MemoryDesc, shift: int) -> Argument:
        """Return the lower bytes (shift 0) or the upper ones (shift 8)."""
        kind = DataType.S8 if self._is_signed else DataType.U8
        return Argument(desc.of_type(kind), self._value, self._planes.apart if shift else 0)


class StoredReals:
    """The stored integers of an input of a call as float32.

    Args:
        call: The call of the kernel.
        index: Its input, of up to 16 bits.
        repeats: Number of copies, one after the other.
    """

    def __init__(self, call: KernelCall, index: int, repeats: int = 1) -> None:
        self._data = call.read(index)
        self._room = call.scratch(repeats * _FLOAT * math.prod(call.spec(index).shape))

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


def zero_of(spec: Spec) -> int:
    """Return the zero point that all channels of a tensor have."""
    if spec.encoding is None:
        raise AssertionError("an operand without an encoding")
    return -int(spec.encoding.scales_and_offsets(spec.shape)[1].reshape(-1)[0])


def byte_zero(spec: Spec, shift: int, *, is_signed: bool = False) -> int:
    """Return the zero point of lower (shift 0) or upper bytes (shift 8); see `WordBytes`."""
    zero = zero_of(spec) - spec.dtype.stored_range()[0]
    return (zero >> BYTE if shift else zero & 255) - (_SIGNED if is_signed else 0)


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
    dtype = call.outputs[0].dtype
    joined = None
    if dtype not in WORDS:
        stages.move(total, Argument(total.desc.of_type(TYPES[dtype]), call.write(0)))
    elif _writes_planes(call):
        _write_planes(call, stages, total)
    else:
        joined = total.value, call.write(0)
    spreads = [each.spread for each in inputs if isinstance(each, WordBytes) and each.spread]
    reals = [each.pair for each in inputs if isinstance(each, StoredReals)]
    if not (spreads or reals or joined):
        return stages.step()
    return call.step(_Words(stages.execution(), spreads, reals, joined))


def _writes_planes(call: KernelCall) -> bool:
    """Return whether all readers of a 16-bit result multiply it by weights."""
    out, readers = call.outputs[0], call.readers()
    return bool(readers) and all(_reads_planes(node, out) for node in readers)


def _reads_planes(node: Node, tensor: Tensor) -> bool:
    """Return whether a node multiplies a tensor by constant weights of one byte or less."""
    data, weights, *others = (*node.inputs, None)
    is_factor = node.op_type in _PRODUCTS and data is tensor and tensor not in others
    if not is_factor or weights is None or weights.data is None:
        return False
    return weights.dtype.bits <= BYTE and not weights.kind.is_updateable


def _write_planes(call: KernelCall, stages: Stages, total: Argument) -> None:
    """Add the primitives that write the upper bytes of unsigned words, then the lower ones."""
    layout = Planes(math.prod(call.outputs[0].shape))
    result, whole = call.write(0, layout), MemoryDesc.strided((layout.count,), (1,))
    real = Argument(whole, total.value, total.offset)
    lower, upper = (Argument(whole.of_type(DataType.U8), result, at) for at in (0, layout.apart))
    description = Description(
        "binary",
        (ENGINE, BinaryAlgorithm.ADD, whole, upper.desc, lower.desc),
        lambda: f"lower bytes of {layout.count} words",
        quantization=Quantization(((Arg.OTHER, 0),)),
    )
    with threads(1 if layout.count < LEAST_SHARED_ELEMENTS else 0):
        stages.add_terms((real, upper), -HALF, [(Eltwise(Algorithm.LINEAR, 1 / BYTES), None)])
        with PrimitiveDesc(description) as desc:
            number = desc.desc(SCALES | Arg.OTHER)
            stages.add(
                desc,
                {
                    int(Arg.SOURCE): real,
                    int(Arg.OTHER): upper,
                    int(Arg.DESTINATION): lower,
                    SCALES | Arg.OTHER: stages.numbers(np.full(1, -BYTES, np.float32), number),
                },
            )


class Spread(msgspec.Struct, frozen=True):
    """A conversion of bytes to copies, or to signed ones.

    Attributes:
        data: The words as `Planes`.
        room: Scratchpad for the `Planes` of all copies.
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
        are_words = self.data.spec.dtype in WORDS and self.data.layout == Planes(count)
        fits = is_whole and are_words and self.room.nbytes == Planes(count * self.copies).nbytes
        _check(self.data, self.room, fits=fits)

    def bind(self, buffers: Buffers) -> Bound:
        """Return the call that copies the bytes."""
        count = math.prod(self.data.spec.shape)
        ends = zip(
            planes_of(buffers, self.data, Planes(count)),
            planes_of(buffers, self.room, Planes(count * self.copies)),
            strict=True,
        )
        calls: list[Callable[[], object]] = []
        for plane, room in ends:
            once = plane.reshape(-1, 1, self.width)
            into = room.reshape(-1, self.copies, self.width)
            if self.is_signed:
                calls.append(functools.partial(np.bitwise_xor, once, _SIGNED, out=into))
            else:
                calls.append(functools.partial(np.copyto, into, once))
        return call_sequence(calls)


Pairs = Sequence[tuple[Value, Value]]


class _Words:
    """The bind of primitives between the conversions of their data and result.

    Args:
        product: The bind of the primitives.
        spreads: Conversions of bytes.
        reals: Stored integers, and scratchpads for them as float32.
        joined: Float32 numbers with the result in their lower two bytes, and where these are copied
            to; None for a result of other types, which `product` writes.

    Raises:
        RecipeError: Values do not match, as they may not in an image.
    """

    __slots__ = ("_joined", "_product", "_reals", "_spreads")

    def __init__(
        self,
        product: Bind,
        spreads: Sequence[Spread],
        reals: Pairs,
        joined: tuple[Value, Value] | None,
    ) -> None:
        self._product, self._joined = product, joined
        self._spreads, self._reals = tuple(spreads), tuple(reals)
        for spread in self._spreads:
            spread.check()
        for data, room in self._reals:
            elements, dtype = math.prod(data.spec.shape), data.spec.dtype
            is_stored = dtype in WORDS | TYPES.keys() and data.layout is None
            fits = elements > 0 and room.nbytes > 0 and room.nbytes % (_FLOAT * elements) == 0
            _check(data, room, fits=is_stored and fits)
        if joined is None:
            return
        total, result = joined
        _check(result, total, fits=total.nbytes == 2 * result.nbytes)
        if result.root.storage not in (Storage.ARENA, Storage.OUTPUT):
            raise RecipeError(f"a product writes '{result.name}', which is only read")

    def __call__(self, buffers: Buffers) -> Bound:
        """Return the call for these buffers."""
        calls = [spread.bind(buffers) for spread in self._spreads]
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
        spreads = tuple(
            (recorder.value(s.data), recorder.value(s.room), s.width, s.copies, s.is_signed)
            for s in self._spreads
        )
        return _WORDS, WordsData(name, data, spreads, reals, joined)


def _check(data: Value, room: Value, *, fits: bool) -> None:
    """Raise if a value and its other form do not match."""
    if not fits or room.root.storage is not Storage.ARENA:
        raise RecipeError(f"the bytes of '{data.name}' do not fit their buffers")


def _convert(buffers: Buffers, data: Value, room: Value) -> Bound:
    """Return the call that converts stored integers to float32, as often as there is room."""
    stored = buffers.array(data).reshape(-1)
    real = buffers.array(room).view(np.float32).reshape(-1, stored.size)
    return functools.partial(np.copyto, real, stored)


class WordsData(Data, frozen=True):
    """A `_Words`: the builder and data of its primitives, values, and the numbers of spreads."""

    builder: str
    product: Any
    spreads: tuple[tuple[int, int, int, int, bool], ...]
    reals: tuple[tuple[int, int], ...]
    joined: tuple[tuple[int, int], ...]


@BUILDERS.builds(_WORDS, WordsData)
def _words(data: WordsData, source: Source) -> _Words:
    reals, joined = (
        [(source.value(value), source.value(other)) for value, other in pairs]
        for pairs in (data.reals, data.joined)
    )
    spreads = [
        Spread(source.value(read), source.value(room), width, copies, is_signed)
        for read, room, width, copies, is_signed in data.spreads
    ]
    if len(joined) > 1:
        raise RecipeError("a step of words has more than one result")
    product = source.bind(data.builder, data.product)
    return _Words(product, spreads, reals, joined[0] if joined else None)
