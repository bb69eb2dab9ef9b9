"""Softmax of stored bytes, a block of rows at a time; see `byte_rows`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step
from dovetail_numpy.integer.norms import power_table, scale_of, single
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels import wide_norms
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.byte_rows import BYTE, Rows, are_bytes, by_block, divisor, quiet
from dovetail_numpy.kernels.near_ties import LARGEST, ULP, NearTies
from dovetail_opset import STANDARD

_PART = 32  # elements that are added in float32


@KERNELS.register(STANDARD, "Softmax", quantized=True)
def softmax(call: KernelCall) -> Step | None:
    """Run Softmax; columns are moved to rows and back."""
    view, shape, op = call.head, call.spec(0).shape, call.op
    if not are_bytes(view) or not shape:
        return wide_norms.softmax(call)
    size, after = shape[op.axis], math.prod(shape[op.axis + 1 :])
    rows, (out,) = Rows.of(call, size, after), view.outs
    powers = power_table(abs(single(op.beta)) * scale_of(call.spec(0)), BYTE)
    step, zero, limits = grid_of(out)
    part = divisor(size, _PART)
    # powers, sums, the reciprocal, product and sum with the zero point are rounded
    near = NearTies(step, zero, limits, 2 * ULP * LARGEST, (part + 12) * ULP)
    approximate, shift = powers.astype(np.float32), np.float32(zero)
    bytes_pad = call.scratch(rows.most * rows.size)
    farthest = np.maximum if op.beta >= 0 else np.minimum

    def bind(buffers: Buffers) -> Bound:
        stored, result, (v, spare) = rows.arrays(buffers)
        distances = buffers.array(bytes_pad).reshape(rows.most, rows.size)

        def run(block: slice) -> None:
            q, into = stored[block], result[block]
            d, p = distances[: len(q)], v[: len(q)]
            first = farthest.reduce(q, axis=1, keepdims=True)
            bits = first.view(np.uint8), q.view(np.uint8)
            # modulo 256, in which differences of signed bytes are right as well
            np.subtract(*(bits if farthest is np.maximum else bits[::-1]), out=d)
            approximate.take(d, None, p, "wrap")
            parts = np.einsum("rpi->rp", p.reshape(len(q), -1, part))
            total = np.add.reduce(parts, axis=1, dtype=np.float64)
            np.multiply(p, (1.0 / (total * step)).astype(np.float32)[:, None], p)
            if zero:
                np.add(p, shift, p)

            def exact(at: NDArray[np.intp]) -> Array:
                totals = powers[d[at // rows.size]].sum(1, dtype=np.int64)
                return np.asarray(powers[d.reshape(-1)[at]] / totals)

            near.store(p, into, spare[: len(q)], exact)

        before, behind = rows.moves(buffers)
        return quiet([*before, *by_block(rows, run), *behind])

    return call.step(bind)
