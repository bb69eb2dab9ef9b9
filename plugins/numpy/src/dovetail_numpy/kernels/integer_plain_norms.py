"""RmsNorm and L2Norm of stored bytes along the last axes, a block of rows at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step
from dovetail_numpy.kernels import wide_norms
from dovetail_numpy.kernels._calls import Floats
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.byte_rows import BYTE, Rows, are_bytes, by_block, divisor, quiet
from dovetail_numpy.kernels.norm_factors import NormFactors
from dovetail_numpy.kernels.norm_numbers import NormNumbers
from dovetail_numpy.kernels.row_roots import RowRoots
from dovetail_opset import STANDARD


@KERNELS.register(STANDARD, "RmsNorm", quantized=True)
@KERNELS.register(STANDARD, "L2Norm", quantized=True)
def plain_norm(call: KernelCall) -> Step | None:
    """Run RmsNorm or L2Norm along the last axes, with constant factors."""
    roots, factors = RowRoots.of(call), NormFactors.of(call)
    if roots is None or factors is None or not are_bytes(call.head):
        return wide_norms.row_norm(call)
    # an element over the root of the mean is at most the root of their number; over that of the
    # sum at most 1
    reach = roots.size if roots.op_type == "RmsNorm" else 1
    norm = NormNumbers.of(call.head, factors, roots.size, reach)
    if norm is None:
        return wide_norms.row_norm(call)
    rows = Rows.of(call, roots.size)

    def bind(buffers: Buffers) -> Bound:
        stored, result, pads = rows.arrays(buffers)

        def run(block: slice) -> None:
            q = stored[block]
            v, spare = (pad[: len(q)] for pad in pads)
            root = roots_of_bytes(roots, q, v)
            np.multiply(v, (1.0 / root).astype(np.float32)[:, None], v)
            np.multiply(v, norm.factor, v)
            np.add(v, norm.offset, v)

            def exact(at: NDArray[np.intp]) -> Array:
                row, column = np.divmod(at, roots.size)
                levels = q.reshape(-1)[at].astype(np.int64) - roots.zero
                return norm.factors.applied(levels / root[row], column)

            norm.near.store(v, result[block], spare, exact)

        return quiet(by_block(rows, run))

    return call.step(bind)


def roots_of_bytes(roots: RowRoots, stored: Array, levels: Floats) -> Array:
    """Return the divisors of rows (n, size) of bytes, float64 (n,), and write their levels."""
    np.copyto(levels, stored)
    np.subtract(levels, np.float32(roots.zero), levels)
    parts = levels.reshape(-1, divisor(roots.size, BYTE))  # their sums are below 2**24
    return roots.roots(np.vecdot(parts, parts).reshape(len(stored), -1).sum(1, dtype=np.float64))
