"""Convolutions of stored integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import KernelCall, Step
from dovetail_onednn._api import Arg, DataType
from dovetail_onednn._library import library
from dovetail_onednn.attributes import PostOp, Quantization
from dovetail_onednn.convolution import Geometry, convolution_desc, geometry_of
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import OneDnnLayout, filters, images, transposed_filters
from dovetail_onednn.primitives import PrimitiveDesc
from dovetail_onednn.quantized.floats import Describe, float_step
from dovetail_onednn.quantized.parts import MOST_PARTS, SIGN, copy_channels
from dovetail_onednn.quantized.products import (
    DATA,
    WEIGHTS,
    Integers,
    integers_of,
    levels_of,
    product_step,
    split,
)
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.words import (
    Form,
    Words,
    is_of_words,
    step_of_bytes,
    step_of_floats,
    words_of,
)
from dovetail_onednn.reorder import Arrays, given, pack
from dovetail_onednn.steps import is_slow
from dovetail_onednn.transposed import transposed_geometry

_LEAST_CHANNELS = 4  # of a group, for copies of channels
_BY_MATRICES = "x64:gemm"  # code that multiplies matrices one by one
_BY_UNIT, _BY_GROUP_AND_UNIT = 0b1, 0b11  # masks of the axes of filters


def convolution(call: KernelCall) -> Step | None:
    """Run Conv1d to 3d; see `Kernel.make`."""
    source, groups = call.spec(DATA).shape, call.op.group
    if groups == source[-1]:
        return depthwise_convolution(call)
    return _step(call, lambda: geometry_of(call, groups, len(source) - 2))


def depthwise_convolution(call: KernelCall) -> Step | None:
    """Run DepthWiseConv1d and 2d, one axis as two; see `Kernel.make`."""
    source = call.spec(DATA).shape
    return _step(call, lambda: geometry_of(call, source[-1], max(2, len(source) - 2)))


def transposed_convolution(call: KernelCall) -> Step | None:
    """Run TransposeConv1d to 3d; see `Kernel.make`."""
    return _step(call, lambda: transposed_geometry(call))


def _step(call: KernelCall, geometry_in: Callable[[], Geometry]) -> Step | None:
    """Return the step of a convolution; None if the definition runs it.

    Source and result are dense: the library's code for integers is fastest with channels last.
    """
    if is_of_words(call):
        words = words_of(call)
        return None if words is None else _in_words(call, geometry_in(), words)
    integers = integers_of(call, call.outputs[0].shape[-1])
    if integers is None:
        return None
    geometry = geometry_in()
    if integers.parts == 1 and (library().has_vnni or integers.source is DataType.U8):
        return _in_bytes(call, geometry, integers)
    makes = [_in_parts] if integers.parts <= MOST_PARTS and _fills_vectors(geometry) else []
    if integers.is_exact_in_float:
        makes = (
            [_in_fast_floats, *makes, _in_floats] if _has_groups(geometry) else [*makes, _in_floats]
        )
    return next(filter(None, (make(call, geometry, integers) for make in makes)), None)


def _in_bytes(call: KernelCall, geometry: Geometry, integers: Integers) -> Step | None:
    dense = geometry.source.of_type(integers.source), geometry.target.of_type(integers.target)
    mask = _BY_GROUP_AND_UNIT if _has_groups(geometry) else _BY_UNIT
    quantization = integers.quantization(mask)
    with convolution_desc(geometry, integers.fused.ops, dense, quantization) as desc:
        return product_step(call, desc, integers, geometry.weights.of_type(DataType.S8), mask)


def _in_words(call: KernelCall, geometry: Geometry, words: Words) -> Step | None:
    """Return the step of a convolution of 16-bit data, in the order of `_step`."""

    def of_bytes() -> Step | None:
        return step_of_bytes(call, words, _form_of_words(call, geometry, words.parts))

    def of_floats(accepts: Callable[[PrimitiveDesc], bool]) -> Step | None:
        operands = geometry.source, geometry.weights, geometry.target
        describe = _described_in_floats(geometry)
        return step_of_floats(call, words, describe, operands, accepts)

    is_whole = words.parts == 1  # then no channels are copied
    makes: list[Callable[[], Step | None]] = []
    if is_whole or (words.parts <= MOST_PARTS and _fills_vectors(geometry)):
        makes.append(of_bytes)
    if words.is_exact_in_float:
        makes.append(lambda: of_floats(_has_code))
        if _has_groups(geometry) and not is_whole:
            makes.insert(0, lambda: of_floats(_has_good_code))
    return next(filter(None, (make() for make in makes)), None)


def _form_of_words(call: KernelCall, geometry: Geometry, parts: int) -> Form:
    spread, groups, terms = _spread(call, geometry, parts)
    mask = _BY_GROUP_AND_UNIT if groups > 1 else _BY_UNIT

    def describe(
        ops: tuple[PostOp, ...], quantization: Quantization, has_bias: bool
    ) -> PrimitiveDesc:
        made = replace(spread, bias=geometry.bias if has_bias else None)
        return convolution_desc(made, ops, (spread.source, spread.target), quantization)

    return Form(describe, spread.source, spread.weights, spread.target, groups, mask, terms)


def _spread(
    call: KernelCall, geometry: Geometry, parts: int
) -> tuple[Geometry, int, Callable[[Array], Array]]:
    """Return a convolution with copies of the input channels, one for each term of the weights.

    Returns:
        The convolution, of unsigned bytes by signed ones; its number of groups; and the function
        from levels of the weights to their terms.
    """
    _, channels, *spatial = geometry.source.dims
    *window, taken, units = call.spec(WEIGHTS).shape
    groups = geometry.weights.dims[0] if _has_groups(geometry) else 1
    new = (1,) * (len(spatial) - len(window))
    filters_of = transposed_filters if geometry.is_transposed else filters
    plain = filters_of((*new, *window, taken * parts, units), groups).of_type(DataType.S8)
    copies = images((geometry.source.dims[0], *spatial, channels * parts)).of_type(DataType.U8)

    def terms(levels: Array) -> Array:
        if geometry.is_transposed:  # the terms of each group of inputs are neighbours
            levels = levels.reshape(*window, groups, taken // groups, units)
        return split(levels, parts, -2)

    return replace(geometry, source=copies, weights=plain), groups, terms


def _in_parts(call: KernelCall, geometry: Geometry, integers: Integers) -> Step | None:
    """Return the step with weights that are sums, each term on a copy of the input channels.

    Without VNNI, signed data become unsigned.
    """
    parts, is_shifted = integers.parts, not library().has_vnni and integers.source is DataType.S8
    if is_shifted:
        integers = replace(integers, source=DataType.U8, zero=integers.zero + SIGN)
    spread, groups, terms = _spread(call, geometry, parts)
    types = spread.source.of_type(integers.source), geometry.target.of_type(integers.target)
    mask = _BY_GROUP_AND_UNIT if groups > 1 else _BY_UNIT
    quantization, ops = integers.quantization(mask), integers.fused.ops
    with convolution_desc(spread, ops, types, quantization) as desc:
        if is_slow(desc) or integers.fused.added is not None:
            return None
        stages, layout = Stages(call), OneDnnLayout(desc.desc(Arg.WEIGHTS), spread.weights)

        def make(arrays: Arrays, specs: Sequence[Spec | None]) -> Array:
            return pack(terms(levels_of(given(arrays[0]), specs[0])), layout)

        room = stages.room(types[0], spare=types[0].dims[1])
        copy_channels(
            stages, Argument(room.desc, call.read(DATA)), room, (groups, parts), is_shifted
        )
        form = f"integer {parts} {integers.source.name} {bool(integers.zero)} {layout.key}"
        packed = call.read_packed(WEIGHTS, form, make, layout)
        numbers = integers.numbers(mask)
        arguments = {arg: stages.numbers(v, desc.desc(arg)) for arg, v in numbers.items()}
        arguments[Arg.SOURCE] = room
        arguments[Arg.WEIGHTS] = Argument(layout.desc, packed)
        arguments[Arg.DESTINATION] = Argument(desc.desc(Arg.DESTINATION), call.write(0))
        stages.add(desc, arguments)
    return stages.step()


def _has_groups(geometry: Geometry) -> bool:
    return len(geometry.weights.dims) > len(geometry.source.dims)


def _fills_vectors(geometry: Geometry) -> bool:
    """Return whether each group has so many input channels that copies of them are worthwhile."""
    return geometry.weights.dims[-len(geometry.stride) - 1] >= _LEAST_CHANNELS


def _in_fast_floats(call: KernelCall, geometry: Geometry, integers: Integers) -> Step | None:
    """Return the step of a convolution with groups for which the library has good float32 code.

    Copies of channels rarely fill vectors there: ShuffleNet's took three times as long.
    """
    return _in_floats(call, geometry, integers, accepts=_has_good_code)


def _has_code(desc: PrimitiveDesc) -> bool:
    return not is_slow(desc)


def _has_good_code(desc: PrimitiveDesc) -> bool:
    """Return whether the code is neither generic nor a product of matrices for each group."""
    return not is_slow(desc) and not desc.implementation.startswith(_BY_MATRICES)


def _in_floats(
    call: KernelCall,
    geometry: Geometry,
    integers: Integers,
    *,
    accepts: Callable[[PrimitiveDesc], bool] = _has_code,
) -> Step | None:
    operands = geometry.source, geometry.weights, geometry.target
    return float_step(call, integers, _described_in_floats(geometry), operands, accepts)


def _described_in_floats(geometry: Geometry) -> Describe:
    plain, dense = replace(geometry, bias=None), (geometry.source, geometry.target)

    def describe(ops: tuple[PostOp, ...], is_dense: bool) -> PrimitiveDesc:
        return convolution_desc(plain, ops, dense if is_dense else (None, None))

    return describe
