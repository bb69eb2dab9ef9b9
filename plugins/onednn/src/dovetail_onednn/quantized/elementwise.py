"""Elementwise functions of stored bytes; those of words are in `word_elementwise`.

Sums and products have the definition's formulas: every operation of the library's code is exact or
rounded to float32, as there. A function of one tensor is a line, if its table is one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.integer.binary import product_rescale
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.integer.tables import function_name
from dovetail_numpy.kernels.lookup import Elementwise, is_identity
from dovetail_onednn._api import SCALES, Algorithm, Arg, BinaryAlgorithm, DataType
from dovetail_onednn.attributes import REAL, Binary, Eltwise, PostOp, Quantization, operand
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.folding import Folding
from dovetail_onednn.layouts import images
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.quantized.curves import curve_of, line_of
from dovetail_onednn.quantized.stages import Stages, Term, has_fast_terms
from dovetail_onednn.quantized.sums import sum_constants
from dovetail_onednn.quantized.types import TYPES, WORDS
from dovetail_onednn.quantized.word_elementwise import elementwise_of_words
from dovetail_onednn.steps import Arguments, is_slow

# With fewer elements, NumPy looks them up in about the time of a call of the library, unless it
# repeats one tensor for the other.
_LEAST = 4096
_ADD, _MULTIPLY = BinaryAlgorithm.ADD, BinaryAlgorithm.MULTIPLY


def elementwise(call: KernelCall) -> Step | None:
    """Run a function of one or two tensors; see `Kernel.make`."""
    tensors = [t for t in (*call.tensors, *call.outputs) if t is not None]
    shape = call.outputs[0].shape
    if math.prod(shape) < _LEAST and all(t.shape in (shape, ()) for t in tensors):
        return None
    if any(t.dtype in WORDS for t in tensors):
        return elementwise_of_words(call)
    if any(t.dtype not in TYPES for t in tensors):
        return None
    node = Elementwise.of(call)
    if node is None:
        return None
    if len(node.varying) == 1:
        return _line(call, node)
    match function_name(call.head):
        case "ElementWiseAdd" | "ElementWiseSubtract":
            return _sum(call)
        case "ElementWiseMultiply":
            return _product(call)
    return None


def _line(call: KernelCall, node: Elementwise) -> Step | None:
    """Return the step of a function of one tensor; None if no post-ops have its results."""
    (index,), table = node.varying, node.table()
    if call.spec(index).shape != call.outputs[0].shape or is_identity(table):
        return None
    ops = line_of(call.spec(index), table, call.outputs[0].spec) or curve_of(call.head)
    return None if ops is None else _step(call, _MULTIPLY, index, 1.0, ops)


def _sum(call: KernelCall) -> Step | None:
    """Return the step of a sum or difference."""
    numbers, full = sum_constants(call.head), _full(call)
    if numbers is None or full is None:
        return None
    scales = (numbers.first, numbers.second)
    ops = (_plus(numbers.constant), *_clip(call, numbers.limits))
    return _step(call, _ADD, full, 1 - full, ops, scales=(scales[full], scales[1 - full]))


def _product(call: KernelCall) -> Step | None:
    """Return the step of a product."""
    rescale, full = product_rescale(call.head), _full(call)
    if rescale is None or full is None:
        return None
    zeros = [grid_of(call.spec(i))[1] for i in range(2)]
    after = [Eltwise(Algorithm.LINEAR, float(rescale.multiplier)), _plus(rescale.zero)]
    after += _clip(call, rescale.limits)
    if Folding.repeating(call.outputs[0].shape, [call.spec(1 - full).shape]).repeats > 1:
        return _product_of_levels(call, full, zeros, after)
    if not any(zeros):
        return _step(call, _MULTIPLY, full, 1 - full, after)
    if not zeros[1 - full]:
        step = _step(call, _ADD, full, float(-zeros[full]), after, factor=1 - full)
        if step is not None:
            return step
    return _product_of_levels(call, full, zeros, after)


def _product_of_levels(
    call: KernelCall, full: int, zeros: Sequence[int], after: Sequence[PostOp]
) -> Step | None:
    """Return the step of a product of two tensors with zero points.

    The levels of one are computed first, as float32, in which all levels and products are exact.
    """
    result = call.outputs[0]
    folding = Folding.repeating(result.shape, [call.spec(1 - full).shape])
    first, second = (folding.desc(call.spec(i).shape) for i in (full, 1 - full))
    by_channel = math.prod(second.dims) == second.dims[1]
    types = [TYPES[call.spec(i).dtype] for i in (full, 1 - full)]
    source, target = first.of_type(types[0]), first.of_type(TYPES[result.dtype])
    once = Folding(folding.shape, folding.axes)
    other = once.desc(call.spec(1 - full).shape).of_type(types[1])
    if second.dims != first.dims and not by_channel:  # the library has generic code for post-ops
        return _product_of_rooms(call, full, zeros, (source, other, target), after)
    product = Binary(_MULTIPLY, second)
    if not has_fast_terms(source, target, [product, *after]):
        return None
    stages, read = Stages(call), Argument(source, call.read(full))
    levels = stages.room(second)
    if folding.repeats == 1:
        stages.move(Argument(other, call.read(1 - full)), levels, zeros[1 - full])
    else:
        _repeat_levels(stages, Argument(other, call.read(1 - full)), levels, zeros[1 - full])
    terms: list[Term] = [(product, levels), *((op, None) for op in after)]
    stages.add_terms((read, Argument(target, call.write())), float(-zeros[full]), terms)
    return stages.step()


def _repeat_levels(stages: Stages, stored: Argument, levels: Argument, zero: int) -> None:
    """Add the primitive that computes levels of channels, as often as there is room for them."""
    count, channels = levels.desc.dims[1], stored.desc.dims[1]
    rows = images((1, count // channels, channels))
    once = images((1, 1, channels)).of_type(stored.desc.type)
    nothing = stages.numbers(np.zeros(count, np.float32), rows)
    each: Term = (Binary(_ADD, once), Argument(once, stored.value))
    stages.add_terms((nothing, Argument(rows, levels.value)), float(-zero), [each])


def _product_of_rooms(
    call: KernelCall,
    full: int,
    zeros: Sequence[int],
    descs: tuple[MemoryDesc, MemoryDesc, MemoryDesc],
    after: Sequence[PostOp],
) -> Step | None:
    """Return the step of a product of the levels of both tensors, each on a scratchpad."""
    *stored, target = descs
    first, second = (desc.of_type(DataType.F32) for desc in stored)
    description = Description(
        "binary",
        (ENGINE, _MULTIPLY, first, second, target),
        lambda: f"a product of levels of {target.key} and {second.key}",
        tuple(after),
    )
    with PrimitiveDesc(description) as desc:
        if is_slow(desc):
            return None
        stages = Stages(call)
        rooms = [stages.room(each) for each in (first, second)]
        for index, form, room in zip((full, 1 - full), stored, rooms, strict=True):
            stages.move(Argument(form, call.read(index)), room, zeros[index])
        result = Argument(target, call.write())
        stages.add(
            desc,
            {int(Arg.SOURCE): rooms[0], int(Arg.OTHER): rooms[1], int(Arg.DESTINATION): result},
        )
    return stages.step()


def _plus(number: float) -> Eltwise:
    return Eltwise(Algorithm.LINEAR, 1.0, float(number))


def _clip(call: KernelCall, limits: tuple[int, int]) -> list[Eltwise]:
    """Return the post-op for limits that are narrower than those of the type."""
    if limits == call.outputs[0].dtype.stored_range():
        return []
    return [Eltwise(Algorithm.CLIP, *map(float, limits))]


def _full(call: KernelCall) -> int | None:
    """Return which of two inputs has the result's shape, the first if both; None if none has."""
    result = call.outputs[0].shape
    return next((i for i in range(2) if call.spec(i).shape == result), None)


def _step(
    call: KernelCall,
    algorithm: BinaryAlgorithm,
    source: int,
    second: int | float,
    ops: Sequence[PostOp],
    *,
    factor: int | None = None,
    scales: Sequence[float] = (),
) -> Step | None:
    """Return the step of a function of an input and another one or a number.

    Args:
        call: Its output is written.
        algorithm: The function.
        source: The first operand: an input of the result's shape.
        second: The second operand: an input, or a number.
        ops: Post-ops.
        factor: An input with which the function's result is first multiplied.
        scales: Factors of both operands.
    """
    result = call.outputs[0].shape
    others = [i for i in (second, factor) if isinstance(i, int)]
    folding = Folding.of(result, [call.spec(i).shape for i in others])

    def bytes_of(index: int) -> MemoryDesc:
        return folding.desc(call.spec(index).shape).of_type(TYPES[call.spec(index).dtype])

    target = folding.desc(result).of_type(TYPES[call.outputs[0].dtype])
    other = bytes_of(second) if isinstance(second, int) else folding.desc(())
    product = None if factor is None else Binary(_MULTIPLY, bytes_of(factor))
    chain: list[PostOp] = [*ops] if product is None else [product, *ops]
    numbers = dict(zip((Arg.SOURCE, Arg.OTHER), scales, strict=False))
    quantization = Quantization(tuple((int(arg), 0) for arg in numbers)) if numbers else REAL
    fused = "".join(f" + {op}" for op in chain)
    description = Description(
        "binary",
        (ENGINE, algorithm, bytes_of(source), other, target),
        lambda: f"an integer {algorithm.name.lower()}{fused} of {target.key} and {other.key}",
        tuple(chain),
        quantization=quantization,
    )
    with PrimitiveDesc(description) as desc:
        if is_slow(desc):
            return None
        arguments = Arguments(call, desc)
        arguments.read_plain(Arg.SOURCE, source)
        if isinstance(second, int):
            arguments.read_plain(Arg.OTHER, second)
        else:
            arguments.numbers(Arg.OTHER, np.full(1, second, np.float32))
        if product is not None and factor is not None:
            arguments.constant(operand(0, product), call.read(factor), product.other)
        for arg, number in numbers.items():
            arguments.numbers(SCALES | arg, np.full(1, number, np.float32))
        arguments.write_plain(Arg.DESTINATION, 0)
        return arguments.step(in_place=[(0, 0)])
