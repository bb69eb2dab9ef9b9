"""Matrix products."""

from __future__ import annotations

from typing import cast

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels._calls import ufunc
from dovetail_numpy.kernels._epilogue import Epilogue, can_fuse
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_numpy.kernels.convolution import product
from dovetail_opset import STANDARD


@KERNELS.register(STANDARD, "FullyConnected", can_fuse=can_fuse)
def fully_connected(call: KernelCall) -> Step | None:
    """Run FullyConnected: one matrix product; BLAS reads the weights transposed, without a copy."""
    if not is_float32(call):
        return None
    x, weight = call.read(0), call.read(1)
    epilogue = Epilogue(call, bias=2)
    out = call.write()
    units, depth = call.spec(1).shape

    def bind(buffers: Buffers) -> Bound:
        rows = buffers.array(x).reshape(-1, depth)
        matrix = buffers.array(weight).T
        after = epilogue.bind(buffers, units)
        return product(rows, matrix, buffers.array(out).reshape(-1, units), after)

    return call.step(bind)


@KERNELS.register(STANDARD, "MatMul", can_fuse=can_fuse)
def matmul(call: KernelCall) -> Step | None:
    """Run MatMul: one product of all rows by a single right matrix, else a batch of products."""
    if not is_float32(call):
        return None
    left, right = call.read(0), call.read(1)
    epilogue = Epilogue(call, bias=2)
    out = call.write()
    op = call.op
    is_one_matrix = len(call.spec(1).shape) == 2 and not op.transpose_in0

    def bind(buffers: Buffers) -> Bound:
        a, b, c = (buffers.array(value) for value in (left, right, out))
        b = b.swapaxes(-1, -2) if op.transpose_in1 else b
        after = epilogue.bind(buffers, c.shape[-1])
        if is_one_matrix:
            return product(a.reshape(-1, a.shape[-1]), b, c.reshape(-1, c.shape[-1]), after)
        a = a.swapaxes(-1, -2) if op.transpose_in0 else a
        call_of_all = ufunc(np.matmul, a, b, c)
        return call_sequence([call_of_all, *after(cast(Array, c.reshape(-1, c.shape[-1])), 0)])

    return call.step(bind)
