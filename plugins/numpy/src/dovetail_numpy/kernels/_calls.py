"""Helpers of all kernels: conditions on a call, scratchpads, blocks and bound NumPy calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array, DType, ScaleOffset
from dovetail.runtime.plan import Buffers, KernelCall, Value

Call = Callable[[], object]
Floats = NDArray[np.float32]

FLOAT_BYTES = 4
# Types that NumPy computes with in their stored form, like the references. float16 is not among
# them: the references compute it in float32.
NUMBERS = frozenset(d for d in DType if d.is_int or d in (DType.FLOAT_32, DType.FLOAT_64))
# Elements that one NumPy call of a kernel with several passes handles: 128 kB of float32, so that
# what one pass wrote is still in the second-level cache when the next one reads it. Twice as many
# took as long; with half of them the cost of the calls shows (MobileNetV2, 1 MB of cache).
BLOCK = 32768
# Most blocks of one step: each bound call takes some 500 bytes.
MOST_BLOCKS = 256


def is_float32(call: KernelCall) -> bool:
    """Return whether all tensors are FLOAT_32 and none is empty: the reference runs empty ones."""
    tensors = [t for t in (*call.tensors, *call.outputs) if t is not None]
    return all(t.dtype is DType.FLOAT_32 and 0 not in t.shape for t in tensors)


def is_plain(call: KernelCall) -> bool:
    """Return whether all tensors have the same type, one of NUMBERS, and none is empty."""
    dtype = call.outputs[0].dtype
    tensors = [t for t in (*call.tensors, *call.outputs) if t is not None]
    return dtype in NUMBERS and all(t.dtype is dtype and 0 not in t.shape for t in tensors)


def single_op_type(call: KernelCall) -> str:
    """Return the op type; for an op that selects its function by number, that of the function."""
    return type(getattr(call.op, "single", call.op)).__name__


def only_moves(call: KernelCall, *inputs: int) -> bool:
    """Return whether these inputs and the outputs have one type and encoding, and none is empty.

    With several scales a stored element represents another value wherever it is moved to.
    """
    moved = [t for i in inputs if (t := call.tensors[i]) is not None]
    first = call.outputs[0]
    return isinstance(first.encoding, ScaleOffset | None) and all(
        (t.dtype, t.encoding) == (first.dtype, first.encoding) and 0 not in t.shape
        for t in (*moved, *call.outputs)
    )


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


def copy(target: Array, source: Array) -> Call:
    """Return a call that copies an array, broadcast, into another."""
    return partial(np.copyto, target, source)


def fill(target: Array, value: Array) -> Call:
    """Return a call that sets all elements to a scalar."""
    return partial(target.fill, value)
