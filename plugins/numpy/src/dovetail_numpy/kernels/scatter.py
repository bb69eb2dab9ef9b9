"""Scattering by index."""

from __future__ import annotations

import functools
import math

import numpy as np

from dovetail.ir import Shape
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels._calls import Call, copy
from dovetail_numpy.kernels._flat_indices import FlatIndices, Rows
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.conditions import NUMBERS, only_moves
from dovetail_opset import STANDARD

_FUNCTIONS = {"ADD": np.add, "MUL": np.multiply, "MAX": np.maximum}


@KERNELS.register(STANDARD, "ScatterElements")
def scatter_elements(call: KernelCall) -> Step | None:
    """Run ScatterElements: copy the data unless updated in place, then one NumPy call."""
    indices = call.spec(1).shape
    if not _is_plain(call):
        return None
    rows = Rows.along(call.spec(0).shape, call.op.axis, indices)
    return _updated(call, rows, (), single=True)


@KERNELS.register(STANDARD, "ScatterNd")
def scatter_nd(call: KernelCall) -> Step | None:
    """Run ScatterNd: copy the data unless updated in place, then one NumPy call."""
    data, indices = call.spec(0).shape, call.spec(1).shape
    if not _is_plain(call):
        return None
    rows = Rows.into(data, indices[-1], 0, indices)
    return _updated(call, rows, data[indices[-1] :], single=False)


def _is_plain(call: KernelCall) -> bool:
    if not only_moves(call, 0, 2) or 0 in call.spec(1).shape:
        return False
    return not call.op.reduction or call.outputs[0].dtype in NUMBERS


def _updated(call: KernelCall, rows: Rows, slices: Shape, *, single: bool) -> Step:
    """Return the step that updates slices of this shape at offsets into all of the data."""
    x, new = call.read(0), call.read(2)
    offsets = FlatIndices(call, 1, rows, single=single)
    out = call.write()
    name: str = call.op.reduction.name

    def bind(buffers: Buffers) -> Bound:
        found, calls = offsets.bind(buffers)
        data, result = buffers.array(x), buffers.array(out)
        flat = result.reshape(result.size // math.prod(slices), *slices)
        updates = buffers.array(new).reshape(len(found), *slices)
        if buffers.address(x) != buffers.address(out):
            calls.append(copy(result, data))
        update: Call
        if name == "NONE":
            update = functools.partial(flat.__setitem__, found, updates)
        else:
            update = functools.partial(_FUNCTIONS[name].at, flat, found, updates)
        return call_sequence([*calls, update])

    # the indices are checked before anything is written, so a failed run changes nothing
    return call.step(bind, in_place=[(0, 0)])
