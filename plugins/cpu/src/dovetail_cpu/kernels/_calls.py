"""What the kernels share: which calls they are made for, and running NumPy calls in a row."""

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
# Types whose stored elements are numbers that NumPy computes with as the references do. float16 is
# none: a reference computes it in float32.
NUMBERS = frozenset(d for d in DType if d.is_int or d in (DType.FLOAT_32, DType.FLOAT_64))
# Elements that one NumPy call of a kernel with several passes handles: 128 kB of float32, so that
# what one pass wrote is still in the second-level cache when the next one reads it. Twice of it
# measured alike, at half of it the calls themselves began to cost (MobileNetV2, 1 MB of cache).
BLOCK = 32768
# Blocks of one step at most: every call that is bound takes memory, some 500 bytes.
MOST_BLOCKS = 256


def is_float32(call: KernelCall) -> bool:
    """Return whether all tensors are FLOAT_32 and have elements; empty ones are the reference's."""
    tensors = [t for t in (*call.tensors, *call.outputs) if t is not None]
    return all(t.dtype is DType.FLOAT_32 and 0 not in t.shape for t in tensors)


def is_plain(call: KernelCall) -> bool:
    """Return whether all tensors are of one and the same of NUMBERS and have elements."""
    dtype = call.outputs[0].dtype
    tensors = [t for t in (*call.tensors, *call.outputs) if t is not None]
    return dtype in NUMBERS and all(t.dtype is dtype and 0 not in t.shape for t in tensors)


def single_op_type(call: KernelCall) -> str:
    """Return the name of the op of one function: of the one that an op by number stands for."""
    return type(getattr(call.op, "single", call.op)).__name__


def only_moves(call: KernelCall, *inputs: int) -> bool:
    """Return whether these inputs have the type and the encoding of the outputs, which have elements.

    Under several scales a stored element means another value wherever it is moved to.
    """
    moved = [t for i in inputs if (t := call.tensors[i]) is not None]
    first = call.outputs[0]
    return isinstance(first.encoding, ScaleOffset | None) and all(
        (t.dtype, t.encoding) == (first.dtype, first.encoding) and 0 not in t.shape
        for t in (*moved, *call.outputs)
    )


def scratch_floats(call: KernelCall, count: int) -> Value:
    """Declare a scratchpad of float32."""
    return call.scratch(count * FLOAT_BYTES)


def floats(buffers: Buffers, scratch: Value) -> Floats:
    """Return a scratchpad's elements, float32, one dimension."""
    return buffers.array(scratch).view(np.float32)


def block_size(total: int, least: int = BLOCK) -> int:
    """Return how many elements a block has, so that there are not too many blocks."""
    return max(least, -(-total // MOST_BLOCKS))


def blocks(total: int, size: int) -> Iterator[slice]:
    """Return the blocks of so many elements, in order."""
    for start in range(0, total, size):
        yield slice(start, min(start + size, total))


def constant(value: float) -> Any:
    """Return a float32 scalar as NumPy's functions take it without converting at every call."""
    return np.asarray(value, np.float32)


def ufunc(function: Callable[..., object], *arrays: Array) -> Call:
    """Return a call of a NumPy function of arrays; the last one is where its result goes."""
    return partial(function, *arrays[:-1], out=arrays[-1])


def copy(target: Array, source: Array) -> Call:
    """Return a call that copies an array into one to whose shape it broadcasts."""
    return partial(np.copyto, target, source)


def fill(target: Array, value: Array) -> Call:
    """Return a call that sets all elements to a scalar."""
    return partial(target.fill, value)
