"""Products of 16-bit data and 8-bit weights: the lower bytes of the data, then the upper ones.

The sums are added in float32 in the order of the definition, on a scratchpad that the second
primitive adds to. Where the result has 16 bits, adding `_MAGIC` rounds it half to even, and leaves
its stored integer in the lower two bytes of each float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dovetail.ir import Array, DType, Spec
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
)
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.products import (
    Pass,
    accumulator_bound,
    channel_scales,
    passes,
)
from dovetail_numpy.integer.rescaling import grid_of, rescale_of_products
from dovetail_onednn._api import SCALES, ZERO_POINTS, Algorithm, Arg, DataType
from dovetail_onednn._library import library
from dovetail_onednn.attributes import Eltwise, PostOp, Quantization, Sum
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import OneDnnLayout
from dovetail_onednn.primitives import PrimitiveDesc
from dovetail_onednn.quantized.products import (
    BIAS,
    DATA,
    LARGEST,
    WEIGHTS,
    are_signed_bytes,
    levels_of,
)
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import TYPES
from dovetail_onednn.recipes import BUILDERS
from dovetail_onednn.reorder import Arrays, given, pack
from dovetail_onednn.steps import is_slow

WORDS = {DType.UFIXED_POINT_16: DataType.U8, DType.SFIXED_POINT_16: DataType.S8}  # upper bytes
_MAGIC = 1.5 * 2**23
_LINE = 64  # bytes
_BYTE = 8
_ROOMS = 4  # of a byte for each element
_WORDS = "onednn.words"

# Describes the primitive: types of source and result, post-ops, quantization, whether with a bias.
Describe = Callable[[DataType, tuple[PostOp, ...], Quantization, bool], PrimitiveDesc]


def is_of_words(call: KernelCall) -> bool:
    """Return whether the data have 16 bits."""
    return call.spec(DATA).dtype in WORDS


def words_step(
    call: KernelCall,
    describe: Describe,
    operands: tuple[MemoryDesc, MemoryDesc, MemoryDesc],
    mask: int,
) -> Step | None:
    """Return the step of a product; None if the library cannot compute it with the same bits.

    Args:
        call: A call without fused nodes.
        describe: Describes the primitive, whose result is float32.
        operands: Dense descriptors of source, weights and result.
        mask: Mask of the axes of the weights along which output channels differ.
    """
    source, plain, target = operands
    units, out = call.outputs[0].shape[-1], call.outputs[0].spec
    sums = _passes(call, units)
    if sums is None:
        return None
    bias = call.static(BIAS)
    rescale = rescale_of_products(call.head, bias, channel_scales(call.head))
    if not np.isfinite(rescale.bias).all() or rescale.bias.size not in (1, units):
        return None
    last: list[PostOp] = [Sum(1.0, DataType.F32)]
    last += [Eltwise(Algorithm.LINEAR, 1.0, float(rescale.zero))] if rescale.zero else []
    if out.dtype in WORDS:
        last += [Eltwise(Algorithm.CLIP, *map(float, rescale.limits))]
        last += [Eltwise(Algorithm.LINEAR, 1.0, _MAGIC)]
    stages, count = Stages(call), math.prod(source.dims)
    data, room = call.read(DATA), call.scratch(_ROOMS * _apart(count))
    total = stages.room(target)
    least = call.spec(DATA).dtype.stored_range()[0]
    zero = grid_of(call.spec(DATA))[1] - least
    for each, ops, has_bias in zip(sums, ((), tuple(last)), (bias is not None, False), strict=True):
        upper = each.data_shift == _BYTE
        kind = WORDS[call.spec(DATA).dtype] if upper else DataType.U8
        own = zero >> _BYTE if upper else zero & 255
        own -= 128 if kind is DataType.S8 else 0
        quantization = Quantization(((Arg.WEIGHTS, mask),), (Arg.SOURCE,) if own else ())
        with describe(kind, ops, quantization, has_bias) as desc:
            if is_slow(desc):
                return None
            layout = OneDnnLayout(desc.desc(Arg.WEIGHTS), plain.of_type(DataType.S8))
            numbers = {SCALES | Arg.WEIGHTS: np.broadcast_to(each.multiplier.reshape(-1), units)}
            if has_bias:
                numbers[Arg.BIAS] = np.broadcast_to(rescale.bias.reshape(-1), units)
            if own:
                numbers[ZERO_POINTS | Arg.SOURCE] = np.full(1, own, np.int32)
            arguments = {arg: stages.numbers(v, desc.desc(arg)) for arg, v in numbers.items()}
            at = _apart(count) if upper else 0
            arguments[Arg.SOURCE] = Argument(source.of_type(kind), room, at)
            arguments[Arg.WEIGHTS] = _weights(call, layout, f"{kind.name} {bool(own)}")
            arguments[Arg.DESTINATION] = total
            stages.add(desc, arguments)
    result = call.write(0)
    if out.dtype in WORDS:
        return call.step(_Words(stages.execution(), data, room, total.value, result))
    stages.move(total, Argument(target.of_type(TYPES[out.dtype]), result))
    return call.step(_Words(stages.execution(), data, room))


def _passes(call: KernelCall, units: int) -> list[Pass] | None:
    """Return the sums of a call, if it is a product of words and signed bytes that is exact."""
    view, weights, out = call.head, call.static(WEIGHTS), call.outputs[0].spec
    tensors = [t for t in (*call.tensors, *call.outputs) if t is not None]
    if call.fused or not library().has_vnni or DEFINITIONS.of(view) is None:
        return None
    if any(t.kind.is_updateable or 0 in t.shape for t in tensors) or weights is None:
        return None
    if out.dtype not in WORDS | TYPES or call.has(BIAS) != (call.static(BIAS) is not None):
        return None
    found = passes(view)
    are_plain = all(
        not p.block and p.multiplier.size in (1, units) and bool(np.isfinite(p.multiplier).all())
        for p in found
    )
    fits = (
        len(found) == 2
        and are_plain
        and are_signed_bytes(weights, call.spec(WEIGHTS))
        and grid_of(out)[2] == out.dtype.stored_range()
        and accumulator_bound(view) <= LARGEST
    )
    return found if fits else None


def _apart(count: int) -> int:
    """Return the distance of the lower bytes from the upper ones, for a number of elements."""
    return -(-count // _LINE) * _LINE


class _Words:
    """The bind of a product between the conversions of its data and result.

    Args:
        product: The bind of the product.
        data: The data, 16 bits.
        room: Scratchpad for lower bytes, upper bytes, and shifted words.
        total: Float32 numbers with the result in their lower two bytes.
        result: Where these are copied to; None for a result of other types, which `product` writes.

    Raises:
        RecipeError: Values do not match, as they may not in an image.
    """

    __slots__ = ("_data", "_product", "_result", "_room", "_total")

    def __init__(
        self,
        product: Bind,
        data: Value,
        room: Value,
        total: Value | None = None,
        result: Value | None = None,
    ) -> None:
        self._product, self._data, self._room = product, data, room
        self._total, self._result = total, result
        fits = data.nbytes % 2 == 0 and room.nbytes >= _ROOMS * _apart(data.nbytes // 2)
        if total is None or result is None:
            fits = fits and total is result
        else:
            fits = fits and total.nbytes == 2 * result.nbytes
        if not fits or room.root.storage is not Storage.ARENA:
            raise RecipeError(f"the bytes of '{data.name}' do not fit their buffers")
        if result is not None and result.root.storage not in (Storage.ARENA, Storage.OUTPUT):
            raise RecipeError(f"a product writes '{result.name}', which is only read")

    def __call__(self, buffers: Buffers) -> Bound:
        """Return the call for these buffers."""
        words = buffers.array(self._data).reshape(-1).view(np.uint16)
        room, apart = buffers.array(self._room).reshape(-1).view(np.uint8), _apart(words.size)
        lower, upper = room[: words.size], room[apart : apart + words.size]
        shifted = room[2 * apart : 2 * apart + 2 * words.size].view(np.uint16)
        product = self._product(buffers)

        def run() -> None:
            np.copyto(lower, words, casting="unsafe")  # drops the upper bytes
            np.right_shift(words, _BYTE, out=shifted)
            np.copyto(upper, shifted, casting="unsafe")
            product()

        if self._total is None or self._result is None:
            return run
        found = buffers.array(self._total).reshape(-1).view(np.uint32)
        result = buffers.array(self._result).reshape(-1).view(np.uint16)

        def run_to_words() -> None:
            run()
            np.copyto(result, found, casting="unsafe")

        return run_to_words

    def record(self, recorder: PlanRecorder) -> tuple[str, Data]:
        """Return it as data; see `Recipe`."""
        name, data = recorder.inner(self._product)
        values = recorder.value(self._data), recorder.value(self._room)
        ends = recorder.optional(self._total), recorder.optional(self._result)
        return _WORDS, WordsData(name, data, *values, *ends)


class WordsData(Data, frozen=True):
    """A `_Words`: the product's builder and data, and the values."""

    builder: str
    product: Any
    data: int
    room: int
    total: int | None
    result: int | None


@BUILDERS.builds(_WORDS, WordsData)
def _words(data: WordsData, source: Source) -> _Words:
    total = None if data.total is None else source.value(data.total)
    result = None if data.result is None else source.value(data.result)
    product = source.bind(data.builder, data.product)
    return _Words(product, source.value(data.data), source.value(data.room), total, result)


def _weights(call: KernelCall, layout: OneDnnLayout, data: str) -> Argument:
    """Return packed weights, which the library packs for the data."""

    def make(arrays: Arrays, specs: Sequence[Spec | None]) -> Array:
        levels = levels_of(given(arrays[0]), specs[0])
        return pack(np.ascontiguousarray(levels, np.int8), layout)

    packed = call.read_packed(WEIGHTS, f"integer {data} {layout.key}", make, layout)
    return Argument(layout.desc, packed)
