"""Elements moved in float32: transposes, channel shuffles, concatenation; reorders of strides."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

from dovetail.ir import Shape
from dovetail.runtime.plan import KernelCall, Step
from dovetail_onednn._api import Arg
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.handles import engine
from dovetail_onednn.layouts import Strided, permuted
from dovetail_onednn.primitives import (
    Attributes,
    Primitive,
    PrimitiveDesc,
    reorder_primitive,
)
from dovetail_onednn.steps import Place, Work, execute, is_float32

# Fewer elements are copied by NumPy before a primitive is called.
_LEAST = 2048
_MULTIPLE_SOURCE = 1024  # a concatenation's sources are arguments from here on


def transpose(call: KernelCall) -> Step | None:
    """Runs Transpose: who can reads other strides, for others it is a reorder from them."""
    if not is_float32(call) or math.prod(call.outputs[0].shape) < _LEAST:
        return None
    shape, perm = call.spec(0).shape, [int(p) for p in call.op.perm]
    if lazy := call.view(layout=Strided.transposed(shape, perm)):
        return lazy
    made = [shape[p] for p in perm]
    return _reordered(call, permuted(shape, perm), permuted(made, range(len(made))))


def channel_shuffle(call: KernelCall) -> Step | None:
    """Runs ChannelShuffle as a reorder that swaps groups and places within them."""
    shape, axis, groups = call.spec(0).shape, call.op.axis, call.op.num_groups
    if not is_float32(call) or math.prod(shape) < _LEAST:
        return None
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    split = (outer, groups, shape[axis] // groups, inner)
    swapped = (split[0], split[2], split[1], split[3])
    return _reordered(call, permuted(split, (0, 2, 1, 3)), permuted(swapped, range(4)))


def concat(call: KernelCall) -> Step | None:
    """Runs Concat as one primitive, on rows of what lies before the axis."""
    if not is_float32(call) or any(t is None for t in call.tensors):
        return None
    axis, shape = call.op.axis, call.outputs[0].shape
    rows = math.prod(shape[:axis])
    if math.prod(shape) < _LEAST or rows == 1:  # one row: long copies, which NumPy does as well
        return None
    sources = [_row(rows, call.spec(i).shape[axis:]) for i in range(len(call.tensors))]
    target = _row(rows, shape[axis:])
    with _concat_desc(sources, target) as desc:
        primitive = Primitive(desc)
    places = {_MULTIPLE_SOURCE + i: Place(source, call.read(i)) for i, source in enumerate(sources)}
    places[Arg.DESTINATION] = Place(target, call.write())
    return execute(call, Work(primitive, places))


def _row(rows: int, shape: Shape) -> MemoryDesc:
    return permuted((rows, math.prod(shape)), (0, 1))


def _reordered(call: KernelCall, source: MemoryDesc, target: MemoryDesc) -> Step:
    places: dict[int, Place] = {
        Arg.SOURCE: Place(source, call.read(0)),
        Arg.DESTINATION: Place(target, call.write()),
    }
    return execute(call, Work(reorder_primitive(source, target), places))


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
            description=f"a concatenation of {len(sources)} float32 tensors to {target.key}",
        )
