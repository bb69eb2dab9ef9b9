"""Transposes of stored bytes, and what else exchanges axes."""

from __future__ import annotations

import math

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.kernels.conditions import only_moves
from dovetail_onednn._api import MAX_DIMS, Arg, DataType
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument, Work
from dovetail_onednn.layouts import row_major
from dovetail_onednn.primitives import reorder_primitive
from dovetail_onednn.steps import execute

# NumPy copies fewer elements in less time than the call of a primitive takes.
_LEAST = 4096


def rearranged(call: KernelCall) -> Step | None:
    """Run Transpose, ChannelShuffle, DepthToSpace and SpaceToDepth; see `Kernel.make`."""
    shape, out = call.spec(0).shape, call.outputs[0]
    is_large = math.prod(shape) >= _LEAST
    if out.dtype.storage.itemsize > 1 or not is_large or not only_moves(call, 0):
        return None
    # the elements are never read, so all share one byte
    dense = np.lib.stride_tricks.as_strided(np.empty(1, np.int8), shape, row_major(shape))
    if call.head.op_type == "Transpose":
        view: Array = dense.transpose([int(axis) for axis in call.op.perm])
    else:
        view = call.op.arranged(dense)
    if not 0 < view.ndim <= MAX_DIMS:
        return None
    source = MemoryDesc.strided(view.shape, view.strides, DataType.S8)
    target = MemoryDesc.strided(view.shape, row_major(view.shape), DataType.S8)
    arguments: dict[int, Argument] = {
        Arg.SOURCE: Argument(source, call.read(0)),
        Arg.DESTINATION: Argument(target, call.write()),
    }
    return execute(call, Work(reorder_primitive(source, target), arguments))
