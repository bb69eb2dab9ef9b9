"""Indices of the maximum and minimum, and the first elements in order."""

from __future__ import annotations

import functools
import math

import numpy as np

from dovetail.ir import Array, DType, ScaleOffset, Shape
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels._calls import block_size, blocks, floats, scratch_floats
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels._rows import Find
from dovetail_numpy.kernels.conditions import NUMBERS
from dovetail_opset import STANDARD

_INDEX = np.dtype(np.intp)  # the type of NumPy's indices
# With so few elements along the axis, which count in bytes, and columns this long, NumPy's call is
# slower: it took 1.7 ms for 50,000 rows of 21, and columns 0.6, which are copied if the axis is the
# last one.
_WIDEST_COPIED, _WIDEST, _LEAST_COLUMN = 48, 255, 512
_BLOCK = 1 << 16  # elements; with a quarter of them it took 1.5 times as long
_KEY, _RANK = np.dtype(np.int64), 0xFFFFFFFF
_WIDEST_SORTED = 4  # bytes of elements that are the upper half of a key
# To sort all elements takes as long with fewer of them, or fewer for each one that is kept.
_LEAST_PARTED, _LEAST_ROW = 256, 4
_LEAST_HEIGHT = 16  # elements of a column of a long row, see `_candidates`


@KERNELS.register(STANDARD, "Argmax")
def argmax(call: KernelCall) -> Step | None:
    """Run Argmax; the first NaN counts as the maximum."""
    return _indices(call, np.argmax, np.maximum)


@KERNELS.register(STANDARD, "Argmin")
def argmin(call: KernelCall) -> Step | None:
    """Run Argmin; the first NaN counts as the minimum."""
    return _indices(call, np.argmin, np.minimum)


def _indices(call: KernelCall, function: Find, extreme: np.ufunc) -> Step | None:
    if call.spec(0).dtype not in NUMBERS or call.outputs[0].dtype not in NUMBERS:
        return None
    shape = call.outputs[0].shape
    if 0 in shape:
        return None
    axis, keeps = call.op.axis, call.op.keep_dims
    if call.spec(0).dtype is DType.FLOAT_32 and _has_long_columns(call.spec(0).shape, axis):
        return _by_column(call, function, extreme)
    x, out = call.read(0), call.write()
    pad = call.scratch(math.prod(shape) * _INDEX.itemsize)

    def bind(buffers: Buffers) -> Bound:
        found = buffers.array(pad).view(_INDEX).reshape(shape)
        find = functools.partial(function, buffers.array(x), axis=axis, out=found, keepdims=keeps)
        move = functools.partial(np.copyto, buffers.array(out), found, casting="unsafe")
        return call_sequence([find, move])

    return call.step(bind)


def _has_long_columns(shape: Shape, axis: int) -> bool:
    """Return whether an axis has few elements, and there are many in a column."""
    before, size, after = _parts(shape, axis)
    if after == 1:
        return 1 < size <= _WIDEST_COPIED and before >= _LEAST_COLUMN
    return 1 < size <= _WIDEST and after >= _LEAST_COLUMN


def _parts(shape: Shape, axis: int) -> Shape:
    """Return the number of elements before an axis, on it and after it."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _by_column(call: KernelCall, function: Find, extreme: np.ufunc) -> Step:
    """Return the step that compares whole columns with their extremes, a block at a time."""
    before, size, after = _parts(call.spec(0).shape, call.op.axis)
    total = before * size * after
    most = min(block_size(total, _BLOCK) // size, before if after == 1 else after)
    x, out = call.read(0), call.write()
    room = scratch_floats(call, most * size) if after == 1 else None
    spare, marks = scratch_floats(call, most), call.scratch((size + 1) * most)
    # the largest number marks the first column
    numbers = np.arange(size, 0, -1, dtype=np.uint8)[:, None]

    def bind(buffers: Buffers) -> Bound:
        values, found = buffers.array(x), buffers.array(out)
        copied = None if room is None else floats(buffers, room)
        extremes, marked = floats(buffers, spare), buffers.array(marks).view(np.uint8)
        if copied is None:
            shaped = values.reshape(before, size, after), found.reshape(before, after)
        else:
            shaped = values.reshape(before, size).T[None], found.reshape(1, before)

        def run_block(columns: Array, result: Array) -> None:
            count = len(result)
            if copied is not None:
                block = copied[: columns.size].reshape(columns.shape)
                np.copyto(block, columns)
                columns = block
            best, first = extremes[:count], marked[:count]
            extreme.reduce(columns, axis=0, out=best)
            mask = marked[count : count * (size + 1)].reshape(size, count)
            np.equal(columns, best, out=mask.view(np.bool_))
            np.multiply(mask, numbers, out=mask)
            np.maximum.reduce(mask, axis=0, out=first)
            np.subtract(size, first, out=result, casting="unsafe")
            if not first.all():  # NaN equals nothing
                unequal = first == 0
                result[unequal] = function(columns[:, unequal], axis=0)

        return call_sequence(
            functools.partial(run_block, columns[:, block], result[block])
            for columns, result in zip(*shaped, strict=True)
            for block in blocks(len(result), most)
        )

    return call.step(bind)


@KERNELS.register(STANDARD, "TopK", quantized=True)
@KERNELS.register(STANDARD, "TopK")
def top_k(call: KernelCall) -> Step | None:
    """Run TopK: sort numbers of 64 bits, an element in the upper half, its index in the lower."""
    data, values, k = call.spec(0), call.outputs[0], int(call.op.k)
    size, is_largest = data.shape[-1], bool(call.op.largest)
    is_move = (data.dtype, data.encoding) == (values.dtype, values.encoding)
    if not is_move or not isinstance(data.encoding, ScaleOffset | None):
        return None
    storage = data.dtype.storage
    if storage.kind not in "fiu" or storage.itemsize > _WIDEST_SORTED or 0 in values.shape:
        return None
    height = math.prod(data.shape[:-1])
    block = block_size(height * size)
    most, is_long = min(max(1, block // size), height), 2 * size > block
    x, *outs = call.read(0), call.write(0), call.write(1)
    room = call.scratch(most * size * _KEY.itemsize)

    def bind(buffers: Buffers) -> Bound:
        rows, keys = buffers.array(x).reshape(-1, size), buffers.array(room).view(_KEY)
        found, places = (buffers.array(out).reshape(-1, k) for out in outs)
        ranks = np.arange(size) if is_largest else np.arange(size)[::-1]
        starts = np.arange(0, most * size, size)[:, None]

        def run_block(block: slice) -> None:
            part = kept = rows[block]
            ranked = ranks
            if is_long:  # alone
                among = _candidates(part[0], k, is_largest=is_largest)
                kept, ranked = part[:, among], ranks[among]
            spare = keys[: kept.size].reshape(kept.shape)
            _set_keys(spare, kept, ranked)
            at = _last(spare, k) if is_largest else size - 1 - _first(spare, k)
            np.copyto(places[block], at, casting="unsafe")
            part.reshape(-1).take(np.add(at, starts[: len(at)], at), None, found[block], "clip")

        return call_sequence(functools.partial(run_block, b) for b in blocks(height, most))

    return call.step(bind)


def _candidates(row: Array, k: int, *, is_largest: bool) -> Array:
    """Return the indices of the k first elements of a row, and of some others.

    The k-th of the first elements of columns is a bound for k elements at least, and for few others
    if there are twice as many columns: to find the exact bound takes five times as long. Ordered
    rows are in no order by column, and those with a period are not, either, by an odd number.
    """
    count = max(_LEAST_PARTED, 2 * k) | 1
    ends = row
    if len(row) >= _LEAST_HEIGHT * count:
        first = np.maximum if is_largest else np.minimum
        ends = first.reduce(row[: len(row) // count * count].reshape(-1, count), axis=0)
    at = len(ends) - k if is_largest else k - 1
    bound = np.partition(ends, at)[at]
    # NaN is neither less nor greater
    return np.flatnonzero(~(row < bound if is_largest else row > bound))


def _set_keys(keys: Array, rows: Array, ranks: Array) -> None:
    """Set integers in the order of elements, of equal ones in that of the ranks in their row."""
    if rows.dtype.kind == "f":
        values = np.add(rows, np.float32(0), dtype=np.float32)  # -0 becomes 0
        if np.isnan(np.maximum.reduce(values, axis=None)):
            values[np.isnan(values)] = np.nan  # the positive one, whose bits are above those of inf
        rows = values.view(np.int32)
        # the bits of negative numbers fall, but for the sign
        np.bitwise_xor(rows, (rows >> 31) & 0x7FFFFFFF, out=rows)
    np.copyto(keys, rows)
    if rows.dtype.kind == "u":
        np.subtract(keys, 1 << 31, out=keys)
    np.left_shift(keys, 32, out=keys)
    np.bitwise_or(keys, ranks, out=keys)


def _last(keys: Array, k: int) -> Array:
    """Return the ranks of the k largest keys of each row, the largest first."""
    size = keys.shape[1]
    kept = keys
    if size >= _LEAST_PARTED and size >= _LEAST_ROW * k:
        keys.partition(size - k, axis=1)
        kept = keys[:, size - k :]
    kept.sort(axis=1)
    return np.asarray(kept[:, : -k - 1 : -1] & _RANK)


def _first(keys: Array, k: int) -> Array:
    """Return the ranks of the k smallest keys of each row, the smallest first."""
    kept = keys
    if keys.shape[1] >= _LEAST_PARTED and keys.shape[1] >= _LEAST_ROW * k:
        keys.partition(k - 1, axis=1)
        kept = keys[:, :k]
    kept.sort(axis=1)
    return np.asarray(kept[:, :k] & _RANK)
