"""Helpers of all kernels: scratchpads, blocks and bound NumPy calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail.runtime.plan import Buffers, KernelCall, Value

Call = Callable[[], object]
Floats = NDArray[np.float32]

FLOAT_BYTES = 4
# Elements that one NumPy call of a kernel with several passes handles: 128 kB of float32, so that
# what one pass wrote is still in the second-level cache when the next one reads it. Twice as many
# took as long; with half of them the cost of the calls shows (MobileNetV2, 1 MB of cache).
BLOCK = 32768
# Elements of a row with which NumPy compares rows of a tensor; it takes longer for shorter ones.
ROW = 8192
_ZEROS = np.zeros(ROW, np.float32)
# Bytes of a run that is copied as one item, and of arrays that are worth it: for each run NumPy's
# loop over its elements takes 6 ns. Runs of 16 bytes took 78 us for 400 kB and take 10, runs of 64
# took 29 and take 10, those of 512 take the same.
_LONGEST_RUN, _LEAST_OF_RUNS = 256, 1 << 13
# Most blocks of one step: each bound call takes some 500 bytes.
MOST_BLOCKS = 256


def scratch_floats(call: KernelCall, count: int) -> Value:
    """Declare a scratchpad for a number of float32 elements."""
    return call.scratch(count * FLOAT_BYTES)


def floats(buffers: Buffers, scratch: Value) -> Floats:
    """Return a scratchpad's elements, float32, (n,)."""
    return buffers.array(scratch).view(np.float32)


def block_size(total: int, least: int = BLOCK) -> int:
    """Return the elements of a block: at least `least`, and enough for MOST_BLOCKS blocks."""
    return max(least, -(-total // MOST_BLOCKS))


def blocks(total: int, size: int) -> Iterator[slice]:
    """Yield the slices of all blocks of `size` elements, in order."""
    for start in range(0, total, size):
        yield slice(start, min(start + size, total))


def constant(value: float) -> Any:
    """Return a float32 scalar that NumPy does not convert at every call."""
    return np.asarray(value, np.float32)


def ufunc(function: Callable[..., object], *arrays: Array) -> Call:
    """Return a call of a NumPy function; the last array receives the result."""
    return partial(function, *arrays[:-1], out=arrays[-1])


def clip_between(x: Array, low: float, high: float, out: Array) -> Iterator[Call]:
    """Yield the calls that clip float32 elements; a bound may be infinite.

    NumPy takes up to ten times as long for the maximum or minimum of an array and a scalar.
    """
    if (low, high) == (0, math.inf) and x.flags.c_contiguous and out.flags.c_contiguous:
        yield from by_rows(np.maximum, x.reshape(-1), _ZEROS, out.reshape(-1))
        return
    yield partial(x.clip, constant(low), constant(high), out=out)
    if low == 0:  # NumPy keeps -0, of which and 0 the maximum is 0
        yield ufunc(np.add, out, constant(0), out)


def by_rows(function: np.ufunc, x: Array, row: Array, out: Array) -> Iterator[Call]:
    """Yield the calls of a function of each element and a number, two at most.

    For a maximum of two zeros of different signs NumPy returns the number's.

    Args:
        function: A maximum or minimum, which takes a third of the time that a number takes.
        x: Flat.
        row: The number, ROW times.
        out: Receives the results; flat.
    """
    count = x.size // ROW
    whole = count * ROW
    if whole:
        rows, results = (each[:whole].reshape(count, ROW) for each in (x, out))
        yield ufunc(function, rows, row, results)
    if whole < x.size:
        yield ufunc(function, x[whole:], row[: x.size - whole], out[whole:])


def copy(target: Array, source: Array) -> Call:
    """Return a call that copies an array, broadcast, into another."""
    are_alike = (target.shape, target.dtype) == (source.shape, source.dtype)
    if are_alike and target.nbytes >= _LEAST_OF_RUNS:
        target, source = _in_runs(target, source)
    return partial(np.copyto, target, source)


def _in_runs(target: Array, source: Array) -> tuple[Array, Array]:
    """Return both arrays with elements that are neighbors in both as one item, unless it is long.

    Arrays with gaps and transposed ones are copied in a tenth to a half of the time then.
    """
    size, axis = target.itemsize, target.ndim
    while axis and target.strides[axis - 1] == source.strides[axis - 1] == size:
        axis -= 1
        size *= target.shape[axis]
    if not 0 < axis < target.ndim or size > _LONGEST_RUN:
        return target, source
    shape = *target.shape[:axis], -1
    items = [each.reshape(shape).view(f"V{size}") for each in (target, source)]
    return items[0], items[1]


def fill(target: Array, value: Array) -> Call:
    """Return a call that sets all elements to a scalar."""
    return partial(target.fill, value)
