"""Conversion of entries to types and encodings of a graph."""

from __future__ import annotations

import numpy as np

from dovetail.errors import QuantizationError
from dovetail.ir import (
    AxisScaleOffset,
    Block,
    BlockwiseExpansion,
    DType,
    Encoding,
    ScaleOffset,
    Shape,
    Tensor,
)
from dovetail_opset.perms import from_source
from dovetail_quantizers.files._arrange import channel_axis_of, placed
from dovetail_quantizers.files.form import Floats, Form, Ints, TensorEncoding
from dovetail_quantizers.grid import Scheme, storage_type


def to_encoding(
    entry: TensorEncoding, tensor: Tensor, axis: int | None
) -> tuple[DType, Encoding | None]:
    """Return the type and the encoding of an entry for a tensor of a graph.

    Args:
        entry: An entry with numbers, neither open nor derived.
        tensor: The tensor; if its layout was changed, the axis of the file is moved.
        axis: Axis of output channels in the layout of the tensor, if the file has none.

    Returns:
        The type, and the encoding; None for floats. Symmetric ones are signed with offset 0.

    Raises:
        QuantizationError: The entry has no numbers, or they do not match the tensor.
    """
    if entry.kind == "float":
        return (DType.FLOAT_16 if entry.bitwidth == 16 else DType.FLOAT_32), None
    where = f"tensor '{entry.name}'"
    if entry.scales is None or entry.offsets is None or entry.is_derived:
        raise QuantizationError(
            "the encoding has no scale", where=where, hint="the entry has no range"
        )
    if entry.zero_point_shift is not None:
        raise QuantizationError(
            "the encoding shifts the zero point", where=where, hint="no backend supports this"
        )
    fitted = placed(entry, tensor, axis)
    encoding: Encoding
    if entry.form is Form.PER_TENSOR:
        dtype, encoding = _per_tensor(entry, entry.scales, entry.offsets)
    else:
        _require_symmetric(entry, where)
        narrow = entry.compressed_bitwidth or entry.bitwidth
        dtype = storage_type(narrow, Scheme.SYMMETRIC)
        encoding = _along_axes(fitted, tensor, narrow if narrow < dtype.bits else None)
    if faults := encoding.faults(tensor.shape, dtype):
        raise QuantizationError(f"the encoding does not match: {'; '.join(faults)}", where=where)
    return dtype, encoding


def _per_tensor(entry: TensorEncoding, scales: Floats, offsets: Ints) -> tuple[DType, ScaleOffset]:
    offset = int(offsets)
    symmetric = (entry.symmetric or entry.signed) and _centered(entry)
    offset = 0 if symmetric else offset
    dtype = storage_type(entry.bitwidth, Scheme.SYMMETRIC if symmetric else Scheme.ASYMMETRIC)
    narrow = entry.bitwidth if entry.bitwidth < dtype.bits else None
    return dtype, ScaleOffset(float(scales), offset, narrow)


def _require_symmetric(entry: TensorEncoding, where: str) -> None:
    if _centered(entry):
        return
    hint = f"every offset of them is {entry.center}"
    if not np.any(entry.offsets):
        hint += ", not 0: offsets in these files count from the lowest integer, not from zero"
    what = "channels" if entry.form is Form.PER_CHANNEL else "blocks"
    raise QuantizationError(f"its {what} have asymmetric encodings", where=where, hint=hint)


def _centered(entry: TensorEncoding) -> bool:
    """Return whether the grid is symmetric; strict grids without the lowest integer say so."""
    if entry.offsets is None:
        return False
    distance = entry.offsets - entry.center
    return bool(np.all((distance == 0) | ((distance == 1) & entry.symmetric)))


def _along_axes(entry: TensorEncoding, tensor: Tensor, bitwidth: int | None) -> Encoding:
    scales, axis, perm = entry.scales, entry.axis, from_source(tensor)
    if scales is None or axis is None:
        raise AssertionError("the entry was not placed")
    narrow = scales.astype(np.float32)
    if entry.form is Form.PER_CHANNEL:
        return AxisScaleOffset(perm.index(axis), narrow, None, bitwidth)
    if entry.form is Form.PER_BLOCK:
        moved = narrow.transpose(perm)
        sizes = tuple(n // m for n, m in zip(tensor.shape, moved.shape, strict=True))
        return Block(sizes, np.ascontiguousarray(moved), None, bitwidth)
    return _expansion(entry, narrow, tensor, perm, bitwidth)


def _expansion(
    entry: TensorEncoding,
    scales: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
    tensor: Tensor,
    perm: Shape,
    bitwidth: int | None,
) -> BlockwiseExpansion:
    """Return the encoding of LPBQ in the tensor's layout, with contiguous blocks in a channel."""
    factors, size, cut = entry.block_scales, entry.block_size, entry.axis
    if factors is None or size is None or cut is None:
        raise AssertionError("the entry was not placed")
    channel, cut_here = perm.index(channel_axis_of(cut)), perm.index(cut)
    every = np.moveaxis(np.repeat(factors, size, cut).transpose(perm), channel, 0)
    after = [n for i, n in enumerate(tensor.shape) if i > cut_here and i != channel]
    length = size * int(np.prod(after, dtype=np.int64))
    blocks = every.reshape(every.shape[0], -1, length)
    if not np.all(blocks == blocks[:, :, :1]):
        raise QuantizationError(
            "blocks are not contiguous in the layout of the tensor",
            where=f"tensor '{entry.name}'",
            hint="LPBQ needs blocks that are equal along the axes after the blocked one",
        )
    found = blocks[:, :, 0]
    bits = max(entry.bitwidth - (bitwidth or 8), int(found.max()).bit_length())
    stored = found.astype(np.uint8) if bits <= 8 else found.astype(np.uint16)
    return BlockwiseExpansion(channel, scales.ravel(), stored, None, bitwidth, bits)
