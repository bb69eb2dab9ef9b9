"""Forms of products of bytes: how the library computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from dovetail.ir import Array
from dovetail.runtime.plan import KernelCall, Step
from dovetail_onednn._api import Arg, DataType
from dovetail_onednn._library import library
from dovetail_onednn.attributes import PostOp, Quantization
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.geometry import (
    Geometry,
    as_elements,
    convolution_desc,
    in_taps,
    is_wrong_without_zero,
    may_round,
)
from dovetail_onednn.layouts import OneDnnLayout, dense, images, vector
from dovetail_onednn.primitives import PrimitiveDesc
from dovetail_onednn.quantized.matrix_products import BY_COLUMN, matrix_desc
from dovetail_onednn.quantized.padding import Padding, with_own_padding
from dovetail_onednn.quantized.parts import SIGN, copy_channels, without_saturation
from dovetail_onednn.quantized.products import (
    DATA,
    WEIGHTS,
    Integers,
    are_signed_bytes,
    as_bytes,
    levels_of,
    product_step,
    weights_argument,
)
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.steps import is_by_convolution, is_slow

_BY_UNIT, _BY_GROUP_AND_UNIT = 0b1, 0b11  # masks of the axes of filters
_JIT = "jit_"  # code for transposed convolutions
_POINTWISE_CODE = "int8_1x1"  # code without VNNI for convolutions of one element
_TWO_PAIRS = 4  # channels
_POINTWISE = ((1, 1), (1, 1), (0, 0), (0, 0))  # stride, dilation, and pads of a convolution

# Describes the primitive: its post-ops, quantization, and whether it has a bias.
Describe = Callable[[tuple[PostOp, ...], Quantization, bool], PrimitiveDesc]
# Types of data and result.
Types = tuple[DataType, DataType]
# Returns the terms of levels, signed bytes in the order of packing.
Terms = Callable[[Array], Array]


class Form(msgspec.Struct, frozen=True):
    """A product of bytes by weights of several terms, each for a copy of the input channels.

    Attributes:
        describe: Describes the primitive.
        source, weights, target: Dense descriptors; the first two have copies.
        groups: Number of groups of channels.
        mask: Mask of the axes of the weights along which output channels differ.
        terms: Those of the weights, in the order of `weights`.
        padding: The padding that `source` has and the data have not, if any.
        whole: Descriptor of data without padding that `source` divides; see `in_taps`.
        needs_zero: Whether the library computes right only with a zero point.
        is_transposed: Whether it is a transposed convolution.
    """

    describe: Describe
    source: MemoryDesc
    weights: MemoryDesc
    target: MemoryDesc
    groups: int
    mask: int
    terms: Terms
    padding: Padding | None = None
    whole: MemoryDesc | None = None
    needs_zero: bool = False
    is_transposed: bool = False

    @property
    def plain(self) -> MemoryDesc:
        """Descriptor of the data, with copies, before the padding."""
        return self.padding.inner if self.padding is not None else self.whole or self.source

    def takes(self, zero: int) -> bool:
        """Return whether the padding, if any, can be this zero point of the data."""
        low, high = (0, 255) if self.source.type is DataType.U8 else (-128, 127)
        return self.padding is None or low <= zero <= high

    def has_code(self, desc: PrimitiveDesc, has_zero: bool) -> bool:
        """Return whether the library's code for the product is fast and exact.

        Some transposed convolutions of oneDNN 3.2 round sums to float32 before they subtract what
        the zero point adds to them, or the 128 that the library adds to signed bytes itself.
        Pointwise ones without VNNI do so as well, which `in_taps` mostly avoids.

        Args:
            desc: The primitive.
            has_zero: Whether the library gets a zero point of the data.
        """
        name, is_signed = desc.implementation, self.source.type is DataType.S8
        subtracts = has_zero if is_by_convolution(desc) else is_signed and _JIT in name
        is_rounded = (
            has_zero and _POINTWISE_CODE in name and may_round(self.source.dims[1] // self.groups)
        )
        return not (is_slow(desc) or is_rounded or (self.is_transposed and subtracts))

    def padded(self, stages: Stages, data: Argument, zero: int) -> Argument:
        """Return the source for data of the form `plain`, after stages that pad them."""
        if self.padding is not None:
            return self.padding.add(stages, data, zero)
        return data if self.whole is None else Argument(self.source, data.value, data.offset)


def matrix_form(
    sizes: tuple[int, int, int],
    by_units: bool,
    types: Types,
    spread: Terms = lambda levels: levels,
) -> Form:
    """Return the form of rows by a packed matrix.

    Without VNNI it is a convolution: (128, 768) by (768, 3072) with a zero point took 4.4 ms, as a
    product of matrices 8.9.

    Args:
        sizes: Rows, depth of all copies, and units.
        by_units: Whether the matrix is stored as (units, depth).
        types: Types of data and result.
        spread: Returns the terms (depth of all copies, units) of levels (depth, units).
    """
    rows, depth, units = sizes

    def terms(levels: Array) -> Array:
        found = spread(by_depth(levels, units, by_units))
        return as_bytes(found.T if by_units else found)

    kind, result = types
    strides = (1, depth) if by_units else (units, 1)
    if not library().has_vnni:
        plain = MemoryDesc.strided((units, depth, 1, 1), (*strides[::-1], 1, 1), DataType.S8)
        ends = images((1, 1, rows, depth)), images((1, 1, rows, units))
        geometry = Geometry(ends[0], plain, vector(units), ends[1], *_POINTWISE)
        return convolution_form(geometry, 1, types, terms)
    plain = MemoryDesc.strided((depth, units), strides, DataType.S8)
    source, target = dense((rows, depth)).of_type(kind), dense((rows, units)).of_type(result)

    def describe(
        ops: tuple[PostOp, ...], quantization: Quantization, has_bias: bool
    ) -> PrimitiveDesc:
        wanted, bias = MemoryDesc.any(plain.dims, DataType.S8), dense((1, units))
        return matrix_desc((source, wanted, bias if has_bias else None, target), ops, quantization)

    return Form(describe, source, plain, target, 1, BY_COLUMN, terms)


def by_depth(levels: Array, units: int, by_units: bool) -> Array:
    """Return the levels of a matrix, perhaps stored as (units, depth), as (depth, units)."""
    return levels.reshape(units, -1).T if by_units else levels.reshape(-1, units)


def convolution_form(
    geometry: Geometry,
    groups: int,
    types: Types,
    terms: Terms = as_bytes,
    *,
    has_zero: bool = True,
) -> Form:
    """Return the form of a convolution.

    Args:
        geometry: The convolution, perhaps over copies of the channels.
        groups: Number of groups of channels.
        types: Types of data and result.
        terms: As in `Form`.
        has_zero: Whether the data have a zero point.
    """
    has_zero |= is_wrong_without_zero(geometry)
    geometry, padding = with_own_padding(as_elements(geometry), types[0], has_zero=has_zero)
    whole = None
    if padding is None and has_zero and may_round(geometry.source.dims[1] // groups):
        whole, geometry = geometry.source.of_type(types[0]), in_taps(geometry)
    source, target = geometry.source.of_type(types[0]), geometry.target.of_type(types[1])

    def describe(
        ops: tuple[PostOp, ...], quantization: Quantization, has_bias: bool
    ) -> PrimitiveDesc:
        made = replace(geometry, bias=geometry.bias if has_bias else None)
        return convolution_desc(made, ops, (source, target), quantization)

    mask = _BY_GROUP_AND_UNIT if groups > 1 else _BY_UNIT
    plain = geometry.weights.of_type(DataType.S8)
    needs_zero, is_transposed = is_wrong_without_zero(geometry), geometry.is_transposed
    ends = source, plain, target
    return Form(describe, *ends, groups, mask, terms, padding, whole, needs_zero, is_transposed)


def step_as_stored(call: KernelCall, integers: Integers, form: Form) -> Step | None:
    """Return the step of a product of weights as they are; None without fast code."""
    integers = replace(integers, gives_zero=form.needs_zero)
    quantization, ops = integers.quantization(form.mask), integers.fused.ops
    with form.describe(ops, quantization, integers.has_bias) as desc:
        if not form.has_code(desc, integers.has_zero):
            return None
        return product_step(call, desc, integers, form.weights, form.mask)


def pairs_of(call: KernelCall, in_order: Callable[[Array], Array]) -> tuple[int, ...] | None:
    """Return the copies of channels with which the library adds pairs of products exactly.

    A quarter less work than with two parts, or half of it; None if that is not enough.

    Args:
        call: The call of the kernel.
        in_order: Returns levels as (..., channels, units).

    Returns:
        See `copy_channels`; the weights are those of `without_saturation`.
    """
    stored, spec = call.static(WEIGHTS), call.spec(WEIGHTS)
    if stored is None or library().has_vnni or not are_signed_bytes(stored, spec):
        return None
    levels = in_order(levels_of(stored, spec))
    found = without_saturation(levels)
    if found is None or (found.shape[-2] % _TWO_PAIRS and may_round(found.shape[-2])):
        return None  # `in_taps` would add other pairs
    return (1, 2) if found.shape[-2] > levels.shape[-2] else (1,)


def unpaired(levels: Array) -> Array:
    """Return weights that `pairs_of` accepted, for its copies of channels."""
    found = without_saturation(levels)
    if found is None:
        raise AssertionError("weights that were accepted saturate")
    return found


def as_unsigned(integers: Integers, *, always: bool = False) -> Integers:
    """Return the numbers of a product of copies: without VNNI, signed data become unsigned.

    Args:
        integers: Its numbers.
        always: Whether they do with VNNI, too.
    """
    if (library().has_vnni and not always) or integers.source is not DataType.S8:
        return integers
    return replace(integers, source=DataType.U8, zero=integers.zero + SIGN)


def step_on_copies(
    call: KernelCall, integers: Integers, form: Form, channels: int, steps: Sequence[int]
) -> Step | None:
    """Return the step of a product of copies of the channels; None without fast code.

    Args:
        call: The call of the kernel.
        integers: Its numbers, `as_unsigned`.
        form: The product, over all copies.
        channels: Number of channels in each group.
        steps: The copies; see `copy_channels`.
    """

    def source(stages: Stages) -> Argument:
        room = data = Argument(form.plain, call.read(DATA))
        is_shifted = call.spec(DATA).dtype.is_signed and integers.source is DataType.U8
        if tuple(steps) != (1,) or is_shifted:
            room = stages.room(form.plain)
            copy_channels(stages, data, room, (form.groups, channels), is_shifted, steps)
        return form.padded(stages, room, integers.zero)

    if not form.takes(integers.zero):
        return None
    return staged_step(
        call, integers, form, source, f"integer {tuple(steps)} {integers.source.name}"
    )


def staged_step(
    call: KernelCall,
    integers: Integers,
    form: Form,
    source: Callable[[Stages], Argument],
    packed: str,
) -> Step | None:
    """Return the step of a product of data that other stages make; None without fast code.

    Args:
        call: The call of the kernel.
        integers: Its numbers.
        form: The product.
        source: Adds the stages, and returns the data.
        packed: See `weights_argument`; whether the data have a zero point is added.
    """
    integers = replace(integers, gives_zero=form.needs_zero)
    quantization, ops = integers.quantization(form.mask), integers.fused.ops
    with form.describe(ops, quantization, integers.has_bias) as desc:
        if not form.has_code(desc, integers.has_zero) or integers.fused.added is not None:
            return None
        stages, layout = Stages(call), OneDnnLayout(desc.desc(Arg.WEIGHTS), form.weights)
        data = source(stages)
        numbers = integers.numbers(form.mask)
        arguments = {arg: stages.numbers(v, desc.desc(arg)) for arg, v in numbers.items()}
        name = f"{packed} {integers.has_zero}"
        arguments[Arg.SOURCE] = data
        arguments[Arg.WEIGHTS] = weights_argument(call, layout, name, form.terms)
        arguments[Arg.DESTINATION] = Argument(desc.desc(Arg.DESTINATION), call.write(0))
        stages.add(desc, arguments)
    return stages.step()
