"""Quantization encodings of Saver programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dovetail.csource.structs import FLOAT_SCALE_OFFSET, QUANTIZE, SCALE_OFFSET, UINT
from dovetail.ir import (
    AxisScaleOffset,
    Block,
    BlockwiseExpansion,
    Encoding,
    EncodingKind,
    FloatBlock,
    Mapped,
    ScaleOffset,
    Shape,
    Vector,
)
from dovetail.ir.encodings import EncodingMapping
from dovetail_saver.vendor.scope import At, Scope, UnsupportedError

DEFINED = 1
_FLOATS, _INTS = (b"float",), (b"int32_t",)
_FACTORS: Mapping[int, tuple[bytes, type[np.unsignedinteger[Any]]]] = {
    0: (b"uint8_t", np.uint8),
    1: (b"uint16_t", np.uint16),
}

# The inner struct of each kind, and how it is read.
STRUCT_OF: Mapping[EncodingKind, bytes] = {
    EncodingKind.SCALE_OFFSET: SCALE_OFFSET,
    EncodingKind.AXIS_SCALE_OFFSET: b"Qnn_AxisScaleOffset_t",
    EncodingKind.BW_SCALE_OFFSET: b"Qnn_BwScaleOffset_t",
    EncodingKind.BW_AXIS_SCALE_OFFSET: b"Qnn_BwAxisScaleOffset_t",
    EncodingKind.BLOCK: b"Qnn_BlockEncoding_t",
    EncodingKind.BLOCKWISE_EXPANSION: b"Qnn_BlockwiseExpansion_t",
    EncodingKind.VECTOR: b"Qnn_VectorEncoding_t",
    EncodingKind.FLOAT_BLOCK: b"Qnn_FloatBlockEncoding_t",
    EncodingKind.BW_AXIS_SCALE_OFFSET_MAPPED: b"Qnn_BwAxisScaleOffsetMapped_t",
    EncodingKind.BW_BLOCK_MAPPED: b"Qnn_BwBlockEncodingMapped_t",
    EncodingKind.BW_BLOCKWISE_EXPANSION_MAPPED: b"Qnn_BwBlockwiseExpansionMapped_t",
    EncodingKind.BW_FLOAT_BLOCK: b"Qnn_BwFloatBlockEncoding_t",
}


def read_encoding(scope: Scope, at: At, shape: Shape) -> Encoding | None:
    """Return an encoding; None if it is undefined, or left to the backend.

    Raises:
        TraceError: It is not well formed.
        UnsupportedError: It is of an unknown kind.
    """
    if at.value is None:
        return None
    definition, kind, inner = scope.struct(at, QUANTIZE)
    if scope.integer(definition) != DEFINED:
        return None
    try:
        known = EncodingKind(scope.integer(kind))
    except ValueError:
        raise UnsupportedError(f"quantization encoding {kind.value}") from None
    fields = scope.struct(inner, STRUCT_OF[known])
    return _READERS[known](scope, fields, shape)


def _scale_offset(scope: Scope, fields: list[At], _: Shape) -> Encoding:
    scale, offset = fields
    return ScaleOffset(scope.number(scale), scope.integer(offset))


def _bw_scale_offset(scope: Scope, fields: list[At], _: Shape) -> Encoding:
    bitwidth, scale, offset = fields
    return ScaleOffset(scope.number(scale), scope.integer(offset), scope.integer(bitwidth))


def _axis_scale_offset(scope: Scope, fields: list[At], _: Shape) -> AxisScaleOffset:
    axis, count, array = fields
    return AxisScaleOffset(scope.integer(axis), *_pairs(scope, array, scope.integer(count)))


def _bw_axis_scale_offset(scope: Scope, fields: list[At], _: Shape) -> AxisScaleOffset:
    bitwidth, axis, count, scales, offsets = fields
    number = scope.integer(count)
    return AxisScaleOffset(
        scope.integer(axis),
        _floats(scope, scope.numbers(scales, _FLOATS, number)),
        None if offsets.value is None else _ints(scope, offsets, number),
        scope.integer(bitwidth),
    )


def _block(scope: Scope, fields: list[At], shape: Shape) -> Block:
    size, counts = _blocks(scope, fields[0], shape)
    scales, offsets = _pairs(scope, fields[1], math.prod(counts))
    return Block(size, scales.reshape(counts), offsets.reshape(counts))


def _float_block(scope: Scope, fields: list[At], shape: Shape) -> FloatBlock:
    size, counts = _blocks(scope, fields[0], shape)
    numbers = scope.numbers(fields[1], (FLOAT_SCALE_OFFSET,), 2 * math.prod(counts))
    scales, offsets = (_floats(scope, numbers[i::2]).reshape(counts) for i in (0, 1))
    return FloatBlock(size, scales, offsets)


def _bw_float_block(scope: Scope, fields: list[At], shape: Shape) -> FloatBlock:
    found = _float_block(scope, fields[1:], shape)
    return FloatBlock(found.block_size, found.scales, found.offsets, scope.integer(fields[0]))


def _expansion(scope: Scope, fields: list[At], shape: Shape) -> BlockwiseExpansion:
    axis, array, blocks, bits, storage, factors = fields
    at = scope.integer(axis)
    if not 0 <= at < len(shape):
        raise scope.error(f"axis {at} is out of range for the shape {shape}", axis.offset)
    kind = _FACTORS.get(scope.integer(storage))
    if kind is None:
        raise UnsupportedError(f"storage {storage.value} of block scales")
    scales, offsets = _pairs(scope, array, shape[at])
    count = scope.integer(blocks)
    numbers = scope.numbers(factors, (kind[0],), shape[at] * count)
    return BlockwiseExpansion(
        at,
        scales,
        _whole(scope, numbers, kind[1], factors).reshape(shape[at], count),
        offsets,
        bitwidth=None,
        block_scale_bitwidth=scope.integer(bits),
    )


def _vector(scope: Scope, fields: list[At], shape: Shape) -> Vector:
    inner = scope.struct(fields[0], STRUCT_OF[EncodingKind.BW_AXIS_SCALE_OFFSET])
    base = _bw_axis_scale_offset(scope, inner, shape)
    return Vector(base, *(scope.integer(field) for field in fields[1:]))


def _mapped_axis(scope: Scope, fields: list[At], shape: Shape) -> Mapped:
    base = _bw_axis_scale_offset(scope, [fields[0], *fields[2:]], shape)
    return Mapped(base, _mapping(scope, fields[1]))


def _mapped_block(scope: Scope, fields: list[At], shape: Shape) -> Mapped:
    base = _block(scope, fields[2:], shape)
    bits = scope.integer(fields[0])
    return Mapped(
        Block(base.block_size, base.scales, base.offsets, bits), _mapping(scope, fields[1])
    )


def _mapped_expansion(scope: Scope, fields: list[At], shape: Shape) -> Mapped:
    base = _expansion(scope, fields[2:], shape)
    found = BlockwiseExpansion(
        base.axis,
        base.scales,
        base.block_scales,
        base.offsets,
        scope.integer(fields[0]),
        base.block_scale_bitwidth,
    )
    return Mapped(found, _mapping(scope, fields[1]))


_READERS: Mapping[EncodingKind, Callable[[Scope, list[At], Shape], Encoding]] = {
    EncodingKind.SCALE_OFFSET: _scale_offset,
    EncodingKind.AXIS_SCALE_OFFSET: _axis_scale_offset,
    EncodingKind.BW_SCALE_OFFSET: _bw_scale_offset,
    EncodingKind.BW_AXIS_SCALE_OFFSET: _bw_axis_scale_offset,
    EncodingKind.BLOCK: _block,
    EncodingKind.BLOCKWISE_EXPANSION: _expansion,
    EncodingKind.VECTOR: _vector,
    EncodingKind.FLOAT_BLOCK: _float_block,
    EncodingKind.BW_AXIS_SCALE_OFFSET_MAPPED: _mapped_axis,
    EncodingKind.BW_BLOCK_MAPPED: _mapped_block,
    EncodingKind.BW_BLOCKWISE_EXPANSION_MAPPED: _mapped_expansion,
    EncodingKind.BW_FLOAT_BLOCK: _bw_float_block,
}


def _mapping(scope: Scope, at: At) -> EncodingMapping:
    try:
        return EncodingMapping(scope.integer(at))
    except ValueError:
        raise UnsupportedError(f"encoding mapping {at.value}") from None


def _blocks(scope: Scope, at: At, shape: Shape) -> tuple[Shape, Shape]:
    """Return the size of a block, and the number of blocks along each axis."""
    size = tuple(_whole(scope, scope.numbers(at, (UINT,), len(shape)), np.uint32, at).tolist())
    if any(block < 1 or count % block for block, count in zip(size, shape, strict=True)):
        raise scope.error(f"blocks of {size} do not divide the shape {shape}", at.offset)
    return size, tuple(count // block for block, count in zip(size, shape, strict=True))


def _pairs(scope: Scope, at: At, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the scales (float32) and offsets (int32) of an array of pairs, (count,) each."""
    numbers = scope.numbers(at, (SCALE_OFFSET,), 2 * count)
    return _floats(scope, numbers[0::2]), _whole(scope, numbers[1::2], np.int32, at)


def _floats(_: Scope, numbers: list[float]) -> np.ndarray:
    with np.errstate(over="ignore"):  # infinite scales are faults of the tensor
        return np.array(numbers, np.float64).astype(np.float32)


def _ints(scope: Scope, at: At, count: int) -> np.ndarray:
    return _whole(scope, scope.numbers(at, _INTS, count), np.int32, at)


def _whole(scope: Scope, numbers: list[float], kind: type[np.generic], at: At) -> np.ndarray:
    """Return integers as an array.

    Raises:
        TraceError: A number is a fraction, or does not fit the type.
    """
    given = np.array(numbers, np.float64)
    with np.errstate(invalid="ignore"):
        found = given.astype(kind)
    if not np.array_equal(found, given):
        raise scope.error(f"a number is not a {np.dtype(kind).name}", at.offset)
    return found
