"""LayerNorm of stored bytes along the last axes, a block of rows at a time; see `byte_rows`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step
from dovetail_numpy.integer.norms import mean_and_variance
from dovetail_numpy.kernels import wide_norms
from dovetail_numpy.kernels._calls import Floats
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.byte_rows import BYTE, Rows, are_bytes, by_block, divisor, quiet
from dovetail_numpy.kernels.norm_factors import NormFactors
from dovetail_numpy.kernels.norm_numbers import NormNumbers
from dovetail_numpy.kernels.row_roots import RowRoots
from dovetail_opset import STANDARD

_EXACT = 1 << 24  # float32 has all whole numbers up to this one


@KERNELS.register(STANDARD, "LayerNorm", quantized=True)
def layer_norm(call: KernelCall) -> Step | None:
    """Run LayerNorm along the last axes, with constant factors."""
    roots, factors = RowRoots.of(call), NormFactors.of(call)
    if not are_bytes(call.head) or roots is None or factors is None:
        return wide_norms.row_norm(call)
    size = roots.size
    numbers = NormNumbers.of(call.head, factors, size, size) if size * BYTE < _EXACT else None
    if numbers is None:
        return wide_norms.row_norm(call)
    norm, rows = _LayerNorm(numbers, divisor(size, BYTE)), Rows.of(call, size)

    def bind(buffers: Buffers) -> Bound:
        stored, result, pads = rows.arrays(buffers)

        def run(block: slice) -> None:
            q = stored[block]
            v, spare = (pad[: len(q)] for pad in pads)
            norm.run(q, result[block], v, spare)

        return quiet(by_block(rows, run))

    return call.step(bind)


@dataclass(frozen=True, slots=True)
class _LayerNorm:
    """The numbers of a LayerNorm.

    Attributes:
        norm: Those that it shares with others.
        part: Elements of a row whose squares have an exact sum in float32.
    """

    norm: NormNumbers
    part: int

    def run(self, q: Array, out: Array, v: Floats, spare: Floats) -> None:
        """Normalize rows of stored integers."""
        size, norm = q.shape[1], self.norm
        np.copyto(v, q)
        parts = v.reshape(len(q), -1, self.part)
        squares = np.einsum("rpi,rpi->rp", parts, parts).astype(np.int64).sum(1)
        # of stored integers: zero points cancel
        floor, share, variance = mean_and_variance(
            np.einsum("ri->r", v).astype(np.int64), squares, size
        )
        root = norm.root(variance)
        np.subtract(v, floor.astype(np.float32)[:, None], v)
        np.subtract(v, share.astype(np.float32)[:, None], v)
        np.multiply(v, (1.0 / root).astype(np.float32)[:, None], v)
        np.multiply(v, norm.factor, v)
        np.add(v, norm.offset, v)

        def exact(at: NDArray[np.intp]) -> Array:
            row, column = np.divmod(at, size)
            above = q.reshape(-1)[at].astype(np.int64) - floor[row]
            return norm.factors.applied((above - share[row]) / root[row], column)

        norm.near.store(v, out, spare, exact)
