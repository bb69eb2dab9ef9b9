"""Indices of the maximum and minimum."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels._registry import KERNELS, PACKAGE
from dovetail_numpy.kernels.conditions import NUMBERS

_INDEX = np.dtype(np.intp)  # the type of NumPy's indices


@KERNELS.register(PACKAGE, "Argmax")
def argmax(call: KernelCall) -> Step | None:
    """Run Argmax; the first NaN counts as the maximum."""
    return _indices(call, np.argmax)


@KERNELS.register(PACKAGE, "Argmin")
def argmin(call: KernelCall) -> Step | None:
    """Run Argmin; the first NaN counts as the minimum."""
    return _indices(call, np.argmin)


def _indices(call: KernelCall, function: Callable[..., Any]) -> Step | None:
    if call.spec(0).dtype not in NUMBERS or call.outputs[0].dtype not in NUMBERS:
        return None
    shape = call.outputs[0].shape
    if 0 in shape:
        return None
    axis, keeps = call.op.axis, call.op.keep_dims
    x, out = call.read(0), call.write()
    pad = call.scratch(math.prod(shape) * _INDEX.itemsize)

    def bind(buffers: Buffers) -> Bound:
        found = buffers.array(pad).view(_INDEX).reshape(shape)
        find = functools.partial(function, buffers.array(x), axis=axis, out=found, keepdims=keeps)
        move = functools.partial(np.copyto, buffers.array(out), found, casting="unsafe")
        return call_sequence([find, move])

    return call.step(bind)
