"""Transposes, channel shuffles and concatenation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dovetail.ir import Shape
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_onednn._api import MULTIPLE_SOURCE, Arg
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import Strided, input_type, layout_of, narrow_layout, permuted, type_of
from dovetail_onednn.moves import moves
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.steps import Arguments, execute

# NumPy copies fewer elements in less time than the call of a primitive takes.
_LEAST = 2048


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


def concat(call: KernelCall) -> Step | None:
    """Run Concat as one primitive, with all axes before the concatenated one as rows."""
    if not is_float32(call) or any(t is None for t in call.tensors):
        return None
    axis, shape = call.op.axis, call.outputs[0].shape
    rows = math.prod(shape[:axis])
    narrow = [found for i in range(len(call.tensors)) if (found := narrow_layout(call, i))]
    # NumPy's copies of one long row are as fast
    if (math.prod(shape) < _LEAST or rows == 1) and not narrow:
        return None
    kind = type_of(narrow[0] if narrow else None)
    forms = [_row(rows, call.spec(i).shape[axis:]) for i in range(len(call.tensors))]
    sources, target = [form.of_type(kind) for form in forms], _row(rows, shape[axis:])
    with PrimitiveDesc(_concatenation(sources, target.of_type(kind))) as desc:
        arguments = Arguments(call, desc)
        for i, (source, form) in enumerate(zip(sources, forms, strict=True)):
            arguments.read_form(MULTIPLE_SOURCE + i, i, source, form)
        arguments.write(Arg.DESTINATION, 0, target)
        return arguments.step()


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
