"""Elements moved: transposes, channel shuffles, concatenation; reorders of strides."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

from dovetail.ir import Shape
from dovetail.runtime.plan import KernelCall, Step
from dovetail_onednn._api import Arg
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.handles import engine
from dovetail_onednn.layouts import Strided, input_type, layout_of, narrow_layout, permuted, type_of
from dovetail_onednn.primitives import (
    Attributes,
    PrimitiveDesc,
    reorder_primitive,
)
from dovetail_onednn.steps import Argument, Arguments, Work, execute, is_float32

# Fewer elements are copied by NumPy before a primitive is called.
_LEAST = 2048
_MULTIPLE_SOURCE = 1024  # a concatenation's sources are arguments from here on


def reshape(call: KernelCall) -> Step | None:
    """Run Reshape and its like where the elements are of a narrower type: a view, as ever."""
    narrow = narrow_layout(call)
    return None if narrow is None else call.view(0, narrow, source=narrow)


def transpose(call: KernelCall) -> Step | None:
    """Run Transpose: who can reads other strides, for others it is a reorder from them."""
    narrow = narrow_layout(call)
    if not is_float32(call) or (math.prod(call.outputs[0].shape) < _LEAST and narrow is None):
        return None
    shape, perm = call.spec(0).shape, [int(p) for p in call.op.perm]
    if lazy := call.view(0, Strided.transposed(shape, perm, type_of(narrow)), source=narrow):
        return lazy
    made = [shape[p] for p in perm]
    return _reordered(call, permuted(shape, perm), permuted(made, range(len(made))))


def channel_shuffle(call: KernelCall) -> Step | None:
    """Run ChannelShuffle as a reorder that swaps groups and places within them."""
    shape, axis, groups = call.spec(0).shape, call.op.axis, call.op.num_groups
    small = math.prod(shape) < _LEAST and narrow_layout(call) is None
    if not is_float32(call) or small:
        return None
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    split = (outer, groups, shape[axis] // groups, inner)
    swapped = (split[0], split[2], split[1], split[3])
    return _reordered(call, permuted(split, (0, 2, 1, 3)), permuted(swapped, range(4)))


def concat(call: KernelCall) -> Step | None:
    """Run Concat as one primitive, on rows of what lies before the axis."""
    if not is_float32(call) or any(t is None for t in call.tensors):
        return None
    axis, shape = call.op.axis, call.outputs[0].shape
    rows = math.prod(shape[:axis])
    narrow = [found for i in range(len(call.tensors)) if (found := narrow_layout(call, i))]
    # one row: long copies, which NumPy does as well
    if (math.prod(shape) < _LEAST or rows == 1) and not narrow:
        return None
    kind = type_of(narrow[0] if narrow else None)
    forms = [_row(rows, call.spec(i).shape[axis:]) for i in range(len(call.tensors))]
    sources, target = [form.of_type(kind) for form in forms], _row(rows, shape[axis:])
    with _concat_desc(sources, target.of_type(kind)) as desc:
        places = Arguments(call, desc)
        for i, (source, form) in enumerate(zip(sources, forms, strict=True)):
            places.read_form(_MULTIPLE_SOURCE + i, i, source, form)
        places.write(Arg.DESTINATION, 0, target)
        return places.step()


def _row(rows: int, shape: Shape) -> MemoryDesc:
    return permuted((rows, math.prod(shape)), (0, 1))


def _reordered(call: KernelCall, source: MemoryDesc, target: MemoryDesc) -> Step:
    kind = input_type(call)
    lies, made = source.of_type(kind), target.of_type(kind)
    places: dict[int, Argument] = {
        Arg.SOURCE: Argument(lies, call.read(0, layout_of(lies, source))),
        Arg.DESTINATION: Argument(made, call.write(0, layout_of(made, target))),
    }
    return execute(call, Work(reorder_primitive(lies, made), places))


def _concat_desc(sources: Sequence[MemoryDesc], target: MemoryDesc) -> PrimitiveDesc:
    listed = (ctypes.c_void_p * len(sources))(*(source.address for source in sources))
    with Attributes() as attributes:
        return PrimitiveDesc(
            "concat",
            engine(),
            target,
            len(sources),
            1,
            listed,
            attributes,
            description=f"a {target.type.text} concatenation of {len(sources)} to {target.key}",
        )
