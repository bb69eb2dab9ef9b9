"""LayerNorm, RmsNorm and L2Norm of stored bytes along the last axes, a block of rows at a time.

See `byte_rows`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step
from dovetail_numpy.kernels import wide_norms
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.byte_rows import BYTE, Rows, are_bytes, by_block, quiet
from dovetail_numpy.kernels.norm_factors import NormFactors
from dovetail_numpy.kernels.norm_numbers import NormNumbers
from dovetail_numpy.kernels.row_roots import RowRoots
from dovetail_opset import STANDARD

_EXACT = 1 << 24  # float32 has all whole numbers up to this one


@KERNELS.register(STANDARD, "LayerNorm", quantized=True)
@KERNELS.register(STANDARD, "RmsNorm", quantized=True)
@KERNELS.register(STANDARD, "L2Norm", quantized=True)
def row_norm(call: KernelCall) -> Step | None:
    """Run LayerNorm, RmsNorm or L2Norm along the last axes, with constant factors."""
    if 0 in call.spec(0).shape:
        return None
    roots, factors = RowRoots.of(call), NormFactors.of(call)
    if roots is None or factors is None or not are_bytes(call.head):
        return wide_norms.row_norm(call)
    size = roots.size
    # an element over the root of the mean is at most the root of their number; over that of the
    # sum at most 1
    reach = 1 if roots.op_type == "L2Norm" else size
    norm = NormNumbers.of(call.head, factors, size, reach)
    if norm is None or size * BYTE >= _EXACT:
        return wide_norms.row_norm(call)
    rows = Rows.of(call, size)

    def bind(buffers: Buffers) -> Bound:
        stored, result, pads = rows.arrays(buffers)

        def run(block: slice) -> None:
            q = stored[block]
            v, spare = (pad[: len(q)] for pad in pads)
            sums = np.empty((2, len(q)))
            roots.add(q, v, sums)
            floor, share, root = roots.numbers(sums)
            if roots.has_mean:
                np.subtract(v, floor.astype(np.float32)[:, None], v)
                np.subtract(v, share.astype(np.float32)[:, None], v)
            np.multiply(v, (1.0 / root).astype(np.float32)[:, None], v)
            np.multiply(v, norm.factor, v)
            np.add(v, norm.offset, v)

            def exact(at: NDArray[np.intp]) -> Array:
                row, column = np.divmod(at, size)
                above = q.reshape(-1)[at] - floor[row]
                return norm.factors.applied((above - share[row]) / root[row], column)

            norm.near.store(v, result[block], spare, exact)

        return quiet(by_block(rows, run))

    return call.step(bind)
