"""Descriptors and primitives as data, and the builders that make them again.

The library trusts its caller: it reads as many bytes as descriptors say. So everything that comes
from an image is checked here: names and kinds of arguments, sizes, and that each argument of a
primitive is within its value.
"""

# Annotations stay types: msgspec would compile texts at each start of a process (ADR 39).

import ctypes
import math
from ctypes import POINTER, c_float, c_int64, c_void_p
from functools import cached_property
from typing import Any

from dovetail.runtime.plan import Builders, Data, PlanRecorder, RecipeError, Source
from dovetail_onednn._api import (
    FORWARD_INFERENCE,
    FORWARD_TRAINING,
    MAX_DIMS,
    Algorithm,
    Arg,
    BinaryAlgorithm,
    DataType,
)
from dovetail_onednn._library import library
from dovetail_onednn.attributes import (
    Binary,
    Eltwise,
    PostOp,
    Quantization,
    Slopes,
    Sum,
    is_operand,
    post_op_of,
)
from dovetail_onednn.descriptors import MAX_BYTES, Choice, MemoryDesc
from dovetail_onednn.primitives import (
    ENGINE,
    Described,
    Description,
    Given,
    Primitive,
    PrimitiveDesc,
)
from dovetail_onednn.threads import current_threads, threads

# Builders of kernels for few ops, imported with the first step that needs one.
BUILDERS = Builders(
    {
        "onednn.dynamic_quantize": "dovetail_onednn.quantized.dynamic",
        "onednn.extremes": "dovetail_onednn.extremes",
        "onednn.finite": "dovetail_onednn.finite",
        "onednn.item_norm": "dovetail_onednn.item_norm",
        "onednn.maximum_with_nan": "dovetail_onednn.maximum",
        "onednn.maximum_with_zeros": "dovetail_onednn.maximum",
        "onednn.planes": "dovetail_onednn.planes",
        "onednn.quantize": "dovetail_onednn.quantized.conversions",
        "onednn.softmax": "dovetail_onednn.softmax",
        "onednn.words": "dovetail_onednn.quantized.word_conversions",
    }
)

_MEMORY, _PRIMITIVE = "onednn.memory", "onednn.primitive"
_MAX_SIZE = 1 << 31  # the library's code has sizes and steps in 32 bits
_SUFFIX = "_primitive_desc_create"
_ENGINES = {"reorder": (1, 3)}  # positions of the engine; otherwise 0
_CONCAT, _FORWARD = "concat", "_forward"
_KINDS = {"batch_normalization_forward": (FORWARD_INFERENCE, FORWARD_TRAINING)}
_QUANTIZED = frozenset(map(int, (Arg.SOURCE, Arg.OTHER, Arg.WEIGHTS, Arg.DESTINATION)))


class MemoryData(Data, frozen=True):
    """A descriptor: strides, any format, or argument `arg` of a primitive."""

    dims: tuple[int, ...]
    type: int
    strides: tuple[int, ...] | None = None
    primitive: int | None = None
    arg: int = 0


class PostOpData(Data, frozen=True):
    """A post-op: of an eltwise function, of a binary one, slopes, or a sum."""

    kind: str
    algorithm: int = 0
    numbers: tuple[str, ...] = ()
    other: int = 0
    is_zero: bool = False


class PrimitiveData(Data, frozen=True):
    """A description for a number of threads; each argument is a kind and its value."""

    function: str
    arguments: tuple[tuple[str, Any], ...]
    text: str
    post_ops: tuple[PostOpData, ...]
    math_mode: int
    fixed_threads: bool
    threads: int
    scales: tuple[tuple[int, int], ...] = ()
    zero_points: tuple[int, ...] = ()


class Recorded:
    """A primitive of an image, described and compiled when a step needs it, once.

    Args:
        described: Its description.
    """

    def __init__(self, described: Described) -> None:
        self.described = described

    @cached_property
    def desc(self) -> PrimitiveDesc:
        """Its descriptor."""
        with threads(self.described.threads):
            return PrimitiveDesc(self.described.description)

    @cached_property
    def primitive(self) -> Primitive:
        """The compiled primitive."""
        # imported here, since the check makes primitives, too
        from dovetail_onednn.known_answer import require_right

        require_right(self.described.description)
        return Primitive(self.desc)

    def argument(self, arg: int) -> MemoryDesc:
        """Return the descriptor of an argument: an `Arg`, or a result of `operand`."""
        if not is_operand(arg):
            return self.desc.desc(arg)
        ops, at = self.described.description.post_ops, post_op_of(arg)
        op = ops[at] if at < len(ops) else None
        if op is None or isinstance(op, Eltwise | Sum):
            raise RecipeError(f"no post-op reads argument {arg} of {self.primitive.text}")
        return op.other


def record_primitive(described: Described, recorder: PlanRecorder) -> int:
    """Return the number of a primitive."""

    def data() -> PrimitiveData:
        each, count = described
        return PrimitiveData(
            each.function,
            tuple(_record_argument(given, recorder) for given in each.arguments),
            each.text(),
            tuple(_record_post_op(op, recorder) for op in each.post_ops),
            each.math_mode,
            each.fixed_threads,
            count,
            each.quantization.scales,
            each.quantization.zero_points,
        )

    return recorder.item(_PRIMITIVE, described, data)


def record_memory(desc: MemoryDesc, recorder: PlanRecorder) -> int:
    """Return the number of a descriptor."""

    def data() -> MemoryData:
        dims, kind, origin = tuple(map(int, desc.dims)), int(desc.type), desc.origin
        if isinstance(origin, Choice):
            number = record_primitive(origin.primitive, recorder)
            return MemoryData(dims, kind, None, number, int(origin.arg))
        strides = None if origin is None else tuple(map(int, origin))
        return MemoryData(dims, kind, strides)

    return recorder.item(_MEMORY, desc, data)


@BUILDERS.builds(_MEMORY, MemoryData)
def _memory(data: MemoryData, source: Source) -> MemoryDesc:
    kind = element_type(data.type)
    if data.primitive is not None:
        found = source.item(data.primitive, Recorded).argument(data.arg)
        if (found.dims, found.type) != (data.dims, kind):
            raise RecipeError("a primitive chose another layout than recorded")
        return found
    rank = len(data.dims)
    if not 0 < rank <= MAX_DIMS or not all(0 < size < _MAX_SIZE for size in data.dims):
        raise RecipeError(f"impossible sizes {data.dims} of a memory")
    if data.strides is None:
        last = math.prod(data.dims)
    else:
        if len(data.strides) != rank or not all(0 <= s < MAX_BYTES for s in data.strides):
            raise RecipeError(f"impossible strides {data.strides} of a memory")
        along = zip(data.dims, data.strides, strict=True)
        last = 1 + sum((size - 1) * stride for size, stride in along)
    if last >= MAX_BYTES:
        raise RecipeError(f"a memory of {last} elements is too large")
    if data.strides is None:
        return MemoryDesc.any(data.dims, kind)
    return MemoryDesc.strided(data.dims, data.strides, kind)


@BUILDERS.builds(_PRIMITIVE, PrimitiveData)
def _primitive(data: PrimitiveData, source: Source) -> Recorded:
    create = library().functions.get(f"{data.function}{_SUFFIX}")
    if create is None:
        raise RecipeError(f"unknown primitive '{data.function}'")
    if data.threads not in (0, 1, current_threads()) or not 0 <= data.math_mode <= 2:
        raise RecipeError(f"impossible number of threads {data.threads} of a primitive")
    # without the result and the attributes
    wanted = create.argtypes[1:-1]
    if len(wanted) != len(data.arguments):
        raise RecipeError(f"a {data.function} of {len(data.arguments)} arguments")
    engines = _ENGINES.get(data.function, (0,))
    arguments = tuple(
        _argument(kind, value, declared, source, is_engine=i in engines)
        for i, ((kind, value), declared) in enumerate(zip(data.arguments, wanted, strict=True))
    )
    kinds = _KINDS.get(data.function, (FORWARD_INFERENCE,))
    if data.function.endswith(_FORWARD) and arguments[1] not in kinds:
        raise RecipeError(f"a {data.function} of the kind {arguments[1]} is no inference")
    if data.function == _CONCAT and arguments[2] != len(_descs(arguments[4])):
        raise RecipeError("the sources of a concatenation do not match their number")
    post_ops = tuple(_post_op(op, source) for op in data.post_ops)
    text = data.text
    description = Description(
        data.function,
        arguments,
        lambda: text,
        post_ops,
        data.math_mode,
        data.fixed_threads,
        _quantization(data),
    )
    return Recorded(Described(description, data.threads))


def _record_argument(given: Given, recorder: PlanRecorder) -> tuple[str, Any]:
    if given is None:
        return "none", None
    if isinstance(given, str):
        return "engine", None
    if isinstance(given, MemoryDesc):
        return "memory", record_memory(given, recorder)
    if isinstance(given, float):
        return "float", given.hex()  # JSON has no infinities
    if isinstance(given, tuple):
        if descs := _descs(given):
            return "memories", [record_memory(each, recorder) for each in descs]
        return "sizes", [int(each) for each in given if not isinstance(each, MemoryDesc)]
    return "int", int(given)


def _argument(kind: str, value: Any, declared: Any, source: Source, *, is_engine: bool) -> Given:
    """Return an argument, of the kind that the library's function declares."""
    found: Given = None
    allowed: tuple[Any, ...] = (c_void_p, POINTER(c_float))
    match kind, value:
        case "none", None:
            pass
        case "engine", None:
            found, allowed = ENGINE, (c_void_p,)
        case "memory", int():
            found, allowed = source.item(value, MemoryDesc), (c_void_p,)
        case "float", str():
            found, allowed = _number(value), (c_float,)
        case "int", int():
            found = value
            allowed = (ctypes.c_int, ctypes.c_uint, c_int64)
        case "sizes", list() | tuple() if len(value) <= MAX_DIMS:
            if not all(isinstance(n, int) and abs(n) < _MAX_SIZE for n in value):
                raise RecipeError(f"impossible sizes {value} of a primitive")
            found, allowed = tuple(value), (POINTER(c_int64),)
        case "memories", list() | tuple() if value:
            found = tuple(source.item(n, MemoryDesc) for n in value if isinstance(n, int))
            allowed = (POINTER(c_void_p),)
        case _:
            raise RecipeError(f"invalid argument '{kind}' of a primitive")
    if declared not in allowed or (found == ENGINE) != is_engine:
        raise RecipeError(f"unexpected argument '{kind}' of a primitive")
    return found


def _descs(given: Given) -> tuple[MemoryDesc, ...]:
    if not isinstance(given, tuple):
        return ()
    return tuple(each for each in given if isinstance(each, MemoryDesc))


def _record_post_op(op: PostOp, recorder: PlanRecorder) -> PostOpData:
    if isinstance(op, Eltwise):
        numbers = (float(op.alpha).hex(), float(op.beta).hex())
        return PostOpData("eltwise", int(op.algorithm), numbers)
    if isinstance(op, Sum):
        return PostOpData("sum", int(op.type), (float(op.scale).hex(),))
    other = record_memory(op.other, recorder)
    if isinstance(op, Binary):
        return PostOpData("binary", int(op.algorithm), other=other)
    return PostOpData("slopes", other=other, is_zero=op.is_zero)


def _post_op(data: PostOpData, source: Source) -> PostOp:
    try:
        if data.kind == "eltwise":
            alpha, beta = map(_number, data.numbers)
            return Eltwise(Algorithm(data.algorithm), alpha, beta)
        if data.kind == "sum":
            (scale,) = map(_number, data.numbers)
            return Sum(scale, DataType(data.algorithm))
        other = source.item(data.other, MemoryDesc)
        if data.kind == "binary":
            return Binary(BinaryAlgorithm(data.algorithm), other)
        if data.kind == "slopes":
            return Slopes(other, data.is_zero)
    except ValueError as error:
        raise RecipeError(f"invalid post-op of a primitive: {error}") from error
    raise RecipeError(f"unknown post-op '{data.kind}'")


def _quantization(data: PrimitiveData) -> Quantization:
    named = [arg for arg, _ in data.scales], data.zero_points
    if not all(set(args) <= _QUANTIZED and len(set(args)) == len(args) for args in named):
        raise RecipeError("scales or zero points of unexpected arguments of a primitive")
    if not all(0 <= mask < 1 << MAX_DIMS for _, mask in data.scales):
        raise RecipeError("an impossible mask of scales of a primitive")
    return Quantization(data.scales, data.zero_points)


def _number(text: str) -> float:
    try:
        return float.fromhex(text)
    except (ValueError, OverflowError) as error:
        raise RecipeError(f"invalid number '{text}'") from error


def element_type(number: int) -> DataType:
    """Return a recorded type.

    Raises:
        RecipeError: The number is unknown.
    """
    try:
        return DataType(number)
    except ValueError as error:
        raise RecipeError(f"unknown element type {number}") from error
