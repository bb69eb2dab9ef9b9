"""Transposes, channel shuffles, exchange of depth and space, and concatenation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from dovetail.ir import Array, Shape
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.kernels.conditions import is_float32, only_moves
from dovetail_onednn._api import MULTIPLE_SOURCE, Arg, DataType
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument, Work
from dovetail_onednn.layouts import Strided, input_type, layout_of, narrow_layout, permuted, type_of
from dovetail_onednn.moves import moves
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc, reorder_primitive
from dovetail_onednn.steps import Arguments, execute
from dovetail_onednn.threads import threads

# NumPy copies fewer elements in less time than the call of a primitive takes.
_LEAST = 2048
# Elements that NumPy copies as one number, and their least count in its inner loop. To space of
# (128, 128, 2) took 4.5 us there and 10.3 in the library, of (256, 256, 1) by 4 it took 7.4 and
# 18.4. With blocks of 2 by 2 the inner loop of SpaceToDepth is too short.
_QUICK_RUNS, _FEWEST_RUNS = (2, 4), 4
# NumPy copies as many rows in the time of two such calls, or longer ones at the same speed.
_LEAST_ROWS, _LONG_ROW = 512, 4096
_WORD = 4  # bytes
# Bytes from which on two threads are faster: copies of 193,600 took 3 us in one and 5 in two.
_LEAST_SHARED = 1 << 18


def reshape(call: KernelCall) -> Step | None:
    """Run Reshape, ExpandDims and Squeeze of elements of a narrower type: a view."""
    narrow = narrow_layout(call)
    return None if narrow is None else call.view(0, narrow, source=narrow)


def transpose(call: KernelCall) -> Step | None:
    """Run Transpose: a view with other strides if its readers support that, else a reorder."""
    narrow = narrow_layout(call)
    if not is_float32(call) or (math.prod(call.outputs[0].shape) < _LEAST and narrow is None):
        return None
    shape, perm = call.spec(0).shape, [int(p) for p in call.op.perm]
    if lazy := call.view(0, Strided.transposed(shape, perm, type_of(narrow)), source=narrow):
        return lazy
    result = [shape[p] for p in perm]
    return _reordered(call, permuted(shape, perm), permuted(result, range(len(result))))


def channel_shuffle(call: KernelCall) -> Step | None:
    """Run ChannelShuffle as a reorder that swaps the groups with the channels in them."""
    shape, axis, groups = call.spec(0).shape, call.op.axis, call.op.num_groups
    small = math.prod(shape) < _LEAST and narrow_layout(call) is None
    if not is_float32(call) or small:
        return None
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    split = (outer, groups, shape[axis] // groups, inner)
    swapped = (split[0], split[2], split[1], split[3])
    return _reordered(call, permuted(split, (0, 2, 1, 3)), permuted(swapped, range(4)))


def exchange(call: KernelCall) -> Step | None:
    """Run DepthToSpace and SpaceToDepth as a reorder of the view that the op returns."""
    shape = call.spec(0).shape
    if not is_float32(call) or (math.prod(shape) < _LEAST and narrow_layout(call) is None):
        return None
    view = call.op.arranged(np.empty(shape, np.float32))
    if narrow_layout(call) is None and _has_quick_runs(view):
        return None
    source = MemoryDesc.strided(view.shape, [step // view.itemsize for step in view.strides])
    return _reordered(call, source, permuted(view.shape, range(view.ndim)))


def _has_quick_runs(view: Array) -> bool:
    """Return whether NumPy copies a view quickly: many times 2 or 4 elements that are neighbors."""
    axis, run = view.ndim, 1
    while axis > 1 and view.strides[axis - 1] == run * view.itemsize:
        axis -= 1
        run *= view.shape[axis]
    return run in _QUICK_RUNS and view.shape[axis - 1] >= _FEWEST_RUNS


def concat(call: KernelCall) -> Step | None:
    """Run Concat of float32: short rows as `concatenated`, else as one primitive."""
    if not is_float32(call) or any(t is None for t in call.tensors):
        return None
    axis, shape = call.op.axis, call.outputs[0].shape
    rows = math.prod(shape[:axis])
    narrow = [found for i in range(len(call.tensors)) if (found := narrow_layout(call, i))]
    # NumPy's copies of one long row are as fast
    if (math.prod(shape) < _LEAST or rows == 1) and not narrow:
        return None
    if not narrow and (copied := concatenated(call)):
        return copied
    kind = type_of(narrow[0] if narrow else None)
    forms = [_row(rows, call.spec(i).shape[axis:]) for i in range(len(call.tensors))]
    sources, target = [form.of_type(kind) for form in forms], _row(rows, shape[axis:])
    with PrimitiveDesc(_concatenation(sources, target.of_type(kind))) as desc:
        arguments = Arguments(call, desc)
        for i, (source, form) in enumerate(zip(sources, forms, strict=True)):
            arguments.read_form(MULTIPLE_SOURCE + i, i, source, form)
        arguments.write(Arg.DESTINATION, 0, target)
        return arguments.step()


def concatenated(call: KernelCall) -> Step | None:
    """Run Concat of many short rows: each input is copied into its part of them, in words.

    The library's own concatenation takes 1.3 times as long for two rows of 64 float32, 2.5 times
    for two of 32 and 5 times for two of 16. All axes before the concatenated one are rows.
    """
    inputs = [i for i in range(len(call.tensors)) if call.has(i)]
    if not only_moves(call, *inputs):
        return None
    axis, out = call.op.axis, call.outputs[0]
    rows, size = math.prod(out.shape[:axis]), out.dtype.storage.itemsize
    widths = [math.prod(call.spec(i).shape[axis:]) * size for i in inputs]
    is_slow = rows >= _LEAST_ROWS and max(widths) <= _LONG_ROW and min(widths) > 0
    if not is_slow:
        return None
    unit, kind = (_WORD, DataType.S32) if not any(w % _WORD for w in widths) else (1, DataType.S8)
    pitch, target, works = sum(widths) // unit, call.write(), []
    for i, width, end in zip(inputs, widths, itertools.accumulate(widths), strict=True):
        source = MemoryDesc.strided((rows, width // unit), (width // unit, 1), kind)
        part = MemoryDesc.strided((rows, width // unit), (pitch, 1), kind)
        arguments: dict[int, Argument] = {
            Arg.SOURCE: Argument(source, call.read(i)),
            Arg.DESTINATION: Argument(part, target, end - width),
        }
        with threads(1 if rows * width < _LEAST_SHARED else 0):
            works.append(Work(reorder_primitive(source, part), arguments))
    return execute(call, *works)


def _row(rows: int, shape: Shape) -> MemoryDesc:
    return permuted((rows, math.prod(shape)), (0, 1))


def _reordered(call: KernelCall, source: MemoryDesc, target: MemoryDesc) -> Step:
    kind = input_type(call)
    read, written = source.of_type(kind), target.of_type(kind)
    ends = (
        Argument(read, call.read(0, layout_of(read, source))),
        Argument(written, call.write(0, layout_of(written, target))),
    )
    return execute(call, *moves(*ends, call.scratch))


def _concatenation(sources: Sequence[MemoryDesc], target: MemoryDesc) -> Description:
    return Description(
        "concat",
        (ENGINE, target, len(sources), 1, tuple(sources)),
        lambda: f"a {target.type.text} concatenation of {len(sources)} to {target.key}",
    )
