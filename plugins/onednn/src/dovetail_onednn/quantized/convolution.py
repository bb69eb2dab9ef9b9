"""Convolutions of stored integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from dovetail.ir import Array
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.integer.products import accumulator_bound
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_onednn._api import DataType
from dovetail_onednn._library import library
from dovetail_onednn.attributes import PostOp
from dovetail_onednn.convolution import geometry_of
from dovetail_onednn.geometry import (
    Geometry,
    as_images,
    as_rows,
    convolution_desc,
    is_depthwise,
    is_wrong_in_bytes,
)
from dovetail_onednn.layouts import filters, images, transposed_filters
from dovetail_onednn.primitives import PrimitiveDesc
from dovetail_onednn.quantized.floats import Describe, float_step
from dovetail_onednn.quantized.forms import (
    Form,
    Types,
    as_unsigned,
    convolution_form,
    pairs_of,
    step_as_stored,
    step_on_copies,
    unpaired,
)
from dovetail_onednn.quantized.matrix import by_one_matrix
from dovetail_onednn.quantized.parts import MOST_PARTS
from dovetail_onednn.quantized.products import (
    DATA,
    WEIGHTS,
    Integers,
    are_signed_bytes,
    integers_of,
    split,
)
from dovetail_onednn.quantized.types import EXACT
from dovetail_onednn.quantized.words import (
    Words,
    is_of_words,
    step_of_bytes,
    step_of_floats,
    words_of,
)
from dovetail_onednn.steps import is_slow
from dovetail_onednn.transposed import transposed_geometry

_LEAST_CHANNELS = 4  # of a group, for copies of channels
_HALVES = 2  # terms of a signed byte where the library multiplies 7 bits
_BY_MATRICES = "x64:gemm"  # code that multiplies matrices one by one


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
        return None if words is None else _in_words(call, _simplest(geometry_in()), words)
    integers = integers_of(call, call.outputs[0].shape[-1])
    if integers is None:
        return None
    geometry = _simplest(geometry_in())
    is_constant = call.static(WEIGHTS) is not None
    if is_constant and _is_better_in_floats(geometry) and accumulator_bound(call.head) < EXACT:
        step = _in_floats(call, geometry, integers)
        if step is not None:
            return step
    is_wrong = is_wrong_in_bytes(geometry)
    if integers.parts == 1 and (library().has_vnni or integers.source is DataType.U8):
        return None if is_wrong else _in_bytes(call, geometry, integers)
    if is_depthwise(geometry) and integers.source is DataType.U8 and not is_wrong:
        step = _in_unpaired_bytes(call, geometry, integers)
        if step is not None:
            return step
    fits = 0 < integers.parts <= MOST_PARTS and _fills_vectors(geometry) and not is_wrong
    makes = [_in_parts] if fits else []
    if integers.is_exact_in_float:
        fast = [_in_fast_floats] if _has_groups(geometry) else []
        makes = [*fast, *makes, _in_floats]
    if _in_parts in makes and integers.parts == _HALVES and not geometry.is_transposed:
        makes.insert(0, _in_pairs)
    return next(filter(None, (make(call, geometry, integers) for make in makes)), None)


def _simplest(geometry: Geometry) -> Geometry:
    return as_rows(as_images(geometry))


def _in_bytes(call: KernelCall, geometry: Geometry, integers: Integers) -> Step | None:
    """Return the step of a convolution of bytes, as unsigned ones if signed ones have no code."""
    step = _in_these_bytes(call, geometry, integers)
    if step is None and geometry.is_transposed and integers.source is DataType.S8:
        step = _in_these_bytes(call, geometry, as_unsigned(integers, always=True))
    return step


def _in_these_bytes(call: KernelCall, geometry: Geometry, integers: Integers) -> Step | None:
    groups = geometry.weights.dims[0] if _has_groups(geometry) else 1
    types, has_zero = (integers.source, integers.target), integers.zero != 0
    form = convolution_form(geometry, groups, types, has_zero=has_zero)
    is_shifted = call.spec(DATA).dtype.is_signed and integers.source is DataType.U8
    if form.padding is None and not is_shifted:
        return step_as_stored(call, integers, form)
    return step_on_copies(call, integers, form, geometry.source.dims[1] // groups, (1,))


def _in_words(call: KernelCall, geometry: Geometry, words: Words) -> Step | None:
    """Return the step of a convolution of 16-bit data, in the order of `_step`."""

    def of_bytes() -> Step | None:
        types = DataType.U8, DataType.F32

        def form_of(parts: int) -> Form:
            return _form(call, geometry, (1,) * parts, types, lambda x: split(x, parts, -2))

        return step_of_bytes(call, words, form_of)

    def of_matrices() -> Step | None:
        channels, units = call.spec(DATA).shape[-1], call.outputs[0].shape[-1]
        return by_one_matrix(call, channels, units, (units, 1))

    def of_floats(accepts: Callable[[PrimitiveDesc], bool]) -> Step | None:
        operands = geometry.source, geometry.weights, geometry.target
        describe = _described_in_floats(geometry)
        can_fuse = not geometry.is_transposed
        return step_of_floats(call, words, describe, operands, accepts, can_fuse=can_fuse)

    is_whole = words.most_parts == 1  # then no channels are copied
    makes: list[Callable[[], Step | None]] = []
    if library().has_amx and grid_of(call.spec(DATA))[1] and _is_pointwise(geometry):
        # the library's convolutions of data with a zero point are of an older kind for AMX: both
        # from 24 to 144 channels in 56x56 took 0.22 ms, and 0.17 as products of matrices
        makes.append(of_matrices)
    fits = is_whole or (words.most_parts <= MOST_PARTS and _fills_vectors(geometry))
    if fits and not is_wrong_in_bytes(geometry):
        makes.append(of_bytes)
    if words.is_exact_in_float:
        makes.append(lambda: of_floats(_has_code))
        if _has_groups(geometry) and (not is_whole or _is_better_in_floats(geometry)):
            makes.insert(0, lambda: of_floats(_has_good_code))
    return next(filter(None, (make() for make in makes)), None)


def _form(
    call: KernelCall,
    geometry: Geometry,
    steps: Sequence[int],
    types: Types,
    spread: Callable[[Array], Array],
) -> Form:
    """Return the form of a convolution over copies of the input channels.

    Args:
        call: The call of the kernel.
        geometry: The convolution.
        steps: The copies; see `copy_channels`.
        types: Types of data and result.
        spread: Returns weights for all copies, int8.
    """
    widened, groups = _widened(call, geometry, steps)
    return convolution_form(
        widened, groups, types, lambda levels: spread(_by_group(call, geometry, levels))
    )


def _widened(call: KernelCall, geometry: Geometry, steps: Sequence[int]) -> tuple[Geometry, int]:
    """Return a convolution over copies of the input channels, and its number of groups.

    Args:
        call: The call of the kernel.
        geometry: The convolution.
        steps: The copies; see `copy_channels`.
    """
    _, channels, *spatial = geometry.source.dims
    *_, taken, units = call.spec(WEIGHTS).shape
    window = geometry.weights.dims[-len(spatial) :]
    groups = geometry.weights.dims[0] if _has_groups(geometry) else 1
    each = channels // groups
    wide = sum(each // step for step in steps)
    filters_of = transposed_filters if geometry.is_transposed else filters
    plain = filters_of((*window, taken // each * wide, units), groups).of_type(DataType.S8)
    copies = images((geometry.source.dims[0], *spatial, groups * wide))
    return replace(geometry, source=copies, weights=plain), groups


def _by_group(call: KernelCall, geometry: Geometry, levels: Array) -> Array:
    """Return weights with the terms of each group of inputs as neighbors."""
    if not geometry.is_transposed:
        return levels
    *window, taken, units = call.spec(WEIGHTS).shape
    groups = geometry.weights.dims[0] if _has_groups(geometry) else 1
    return levels.reshape(*window, groups, taken // groups, units)


def _in_pairs(call: KernelCall, geometry: Geometry, integers: Integers) -> Step | None:
    """Return the step with a copy of every other channel, or none; see `pairs_of`."""
    steps = pairs_of(call, lambda levels: levels)
    if steps is None:
        return None
    if steps == (1,) and integers.source is DataType.U8:
        return _in_bytes(call, geometry, integers)
    return _on_copies(call, geometry, integers, steps, unpaired)


def _in_parts(call: KernelCall, geometry: Geometry, integers: Integers) -> Step | None:
    """Return the step with weights that are sums, each term on a copy of the input channels."""
    steps = (1,) * integers.parts
    return _on_copies(call, geometry, integers, steps, lambda x: split(x, integers.parts, -2))


def _on_copies(
    call: KernelCall,
    geometry: Geometry,
    integers: Integers,
    steps: Sequence[int],
    spread: Callable[[Array], Array],
) -> Step | None:
    integers = as_unsigned(integers)
    form = _form(call, geometry, steps, (integers.source, integers.target), spread)
    return step_on_copies(call, integers, form, geometry.source.dims[1] // form.groups, steps)


def _in_unpaired_bytes(call: KernelCall, geometry: Geometry, integers: Integers) -> Step | None:
    """Return the step of a depthwise convolution, whose products the library adds one by one.

    None if it multiplies matrices instead, as for three axes: that adds pairs of products.
    """
    stored = call.static(WEIGHTS)
    if stored is None or not are_signed_bytes(stored, call.spec(WEIGHTS)):
        return None
    types, has_zero = (integers.source, integers.target), integers.zero != 0
    form = convolution_form(geometry, geometry.weights.dims[0], types, has_zero=has_zero)
    quantization, ops = integers.quantization(form.mask), integers.fused.ops
    with form.describe(ops, quantization, integers.has_bias) as desc:
        if not _has_good_code(desc):
            return None
    return _in_bytes(call, geometry, integers)


def _is_pointwise(geometry: Geometry) -> bool:
    """Return whether each element of the result depends on one of the data."""
    axes = len(geometry.stride)
    return (
        not (geometry.is_transposed or _has_groups(geometry))
        and math.prod(geometry.weights.dims[-axes:]) == math.prod(geometry.stride) == 1
        and not any((*geometry.before, *geometry.after))
    )


def _has_groups(geometry: Geometry) -> bool:
    return len(geometry.weights.dims) > len(geometry.source.dims)


def _is_better_in_floats(geometry: Geometry) -> bool:
    """Return whether the library's code for bytes is slow: transposed, for few channels a group.

    With one channel in each of 64 groups, it took 3.9 ms in 28x28, float32 code 0.1.
    """
    return geometry.is_transposed and _has_groups(geometry) and not _fills_vectors(geometry)


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
    describe, can_fuse = _described_in_floats(geometry), not geometry.is_transposed
    return float_step(call, integers, describe, operands, accepts, can_fuse=can_fuse)


def _described_in_floats(geometry: Geometry) -> Describe:
    plain, dense = replace(geometry, bias=None), (geometry.source, geometry.target)

    def describe(ops: tuple[PostOp, ...], is_dense: bool) -> PrimitiveDesc:
        return convolution_desc(plain, ops, dense if is_dense else (None, None))

    return describe
