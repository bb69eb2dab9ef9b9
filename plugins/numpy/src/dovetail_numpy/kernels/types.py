"""Type conversions."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from dovetail.ir import DType
from dovetail.ir.storage import saturate
from dovetail.ops import NodeView
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.halves import BLOCK, from_halves, round_to_half, to_halves
from dovetail_opset import STANDARD

_THERE_AND_BACK = (DType.FLOAT_32, DType.FLOAT_16, DType.FLOAT_32)


def _can_fuse(chain: Sequence[NodeView], view: NodeView) -> bool:
    """Return whether a cast after another makes the pair a rounding."""
    if len(chain) != 1 or (view.package, view.op_type) != (STANDARD, "Cast"):
        return False
    specs = *chain[0].ins, *chain[0].outs, *view.outs
    return tuple(s and s.dtype for s in specs) == _THERE_AND_BACK and 0 not in view.outs[0].shape


@KERNELS.register(STANDARD, "Cast", can_fuse=_can_fuse)
def cast(call: KernelCall) -> Step | None:
    """Cast to types of whole bytes."""
    if call.fused:
        return _rounding(call)
    source, target = call.spec(0).dtype, call.outputs[0].dtype
    if target.is_packed:
        return None
    if {source, target} == {DType.FLOAT_32, DType.FLOAT_16} and 0 not in call.spec(0).shape:
        return _widened(call) if target is DType.FLOAT_32 else _narrowed(call)
    x, out = call.read(0), call.write()

    def bind(buffers: Buffers) -> Bound:
        result, values = buffers.array(out), buffers.array(x)
        if values.dtype.kind == "f" and result.dtype.kind in "iu":
            # NumPy leaves NaN and what is out of range to the processor
            if values.size == 1:
                low, high = target.stored_range()
                return lambda: result.fill(_saturated(values.item(), low, high))
            return lambda: np.copyto(result, saturate(values, target))
        return functools.partial(np.copyto, result, values, casting="unsafe")

    return call.step(bind)


def _saturated(value: float, low: int, high: int) -> int:
    """Return a number as `saturate` does, in a tenth of its time."""
    if low < value < high:
        return int(value)
    return 0 if math.isnan(value) else low if value <= low else high


def _widened(call: KernelCall) -> Step:
    """Return the step of a cast of float16 to float32."""
    x, out = call.read(0), call.write()

    def bind(buffers: Buffers) -> Bound:
        halves, values = (buffers.array(value).reshape(-1) for value in (x, out))
        return functools.partial(from_halves, halves, values)

    return call.step(bind)


def _narrowed(call: KernelCall) -> Step:
    """Return the step of a cast of float32 to float16."""
    x, out = call.read(0), call.write()
    room = call.scratch(2 * min(x.spec.nbytes, BLOCK * x.spec.dtype.storage.itemsize))

    def bind(buffers: Buffers) -> Bound:
        values, halves = (buffers.array(value).reshape(-1) for value in (x, out))
        return functools.partial(to_halves, values, halves, buffers.array(room).view(np.float32))

    return call.step(bind)


def _rounding(call: KernelCall) -> Step:
    """Return the step of a cast to float16 and back."""
    x, out = call.read(0), call.write()
    size = x.spec.dtype.storage.itemsize
    room = call.scratch(min(x.spec.nbytes, BLOCK * size))

    def bind(buffers: Buffers) -> Bound:
        values, result, block = (buffers.array(value) for value in (x, out, room))
        flat = values.reshape(-1), result.reshape(-1), block.view(np.float32)
        return functools.partial(round_to_half, *flat)

    return call.step(bind, in_place=[(0, 0)])
