"""RmsNorm and L2Norm of stored bytes along the last axes.

They run as LayerNorm whose mean is the zero point, and whose variances NumPy computes.
"""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step
from dovetail_numpy.kernels.near_ties import Exact, Places
from dovetail_numpy.kernels.row_roots import RowRoots, axes_of
from dovetail_onednn._api import FORWARD_INFERENCE, Arg, NormalizationFlag
from dovetail_onednn.execution import Argument
from dovetail_onednn.primitives import PrimitiveDesc
from dovetail_onednn.quantized.marks import marked_step
from dovetail_onednn.quantized.row_norm import RowNorm, has_rows
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import TYPES
from dovetail_onednn.quantized.word_norm import norm_of_words
from dovetail_onednn.steps import is_slow

# Differences from the mean are exact. The variance and its root are rounded, and so are the
# reciprocal of that, the factors, and their products and sums.
_ROUNDINGS = 12.0
_LEAST_SQUARE = 1e-30  # of roots of rows of zeros, so that float32 does not underflow


def plain_norm(call: KernelCall) -> Step | None:
    """Run RmsNorm or L2Norm along the last axes, with constant factors; see `Kernel.make`."""
    roots = RowRoots.of(call) if has_rows(call, axes_of(call)) else None
    norm = None if roots is None else RowNorm.of(call, roots.size, _ROUNDINGS)
    if roots is None or norm is None:
        return norm_of_words(call)
    given = NormalizationFlag.GIVEN_STATISTICS
    with PrimitiveDesc(norm.described(call, FORWARD_INFERENCE, 0.0, given)) as desc:
        if is_slow(desc):
            return None
        stages, per_row = Stages(call), desc.desc(Arg.MEAN)
        stored = norm.desc.of_type(TYPES[call.spec(0).dtype])
        data, real = Argument(stored, call.read(0)), stages.room(norm.desc)
        variance = stages.room(per_row)
        arguments = norm.arguments(stages) | {
            Arg.SOURCE: data,
            Arg.MEAN: stages.numbers(np.full(norm.count, roots.zero, np.float32), per_row),
            Arg.VARIANCE: variance,
            Arg.DESTINATION: real,
        }
        stages.add(desc, arguments)
    sums, found = np.zeros((2, norm.count)), np.ones(norm.count)

    def rows_of(buffers: Buffers) -> Array:
        return buffers.array(data.value).reshape(norm.count, norm.width)

    def compute_variances(buffers: Buffers) -> Bound:
        rows = rows_of(buffers)
        levels = buffers.array(real.value).view(np.float32)[: rows.size].reshape(rows.shape)
        squares = buffers.array(variance.value).view(np.float32)[: norm.count]

        def compute() -> None:
            roots.add(rows, levels, sums)
            found[:] = roots.numbers(sums).root
            np.maximum(found * found, _LEAST_SQUARE, out=squares, casting="same_kind")

        return compute

    def exact_of(buffers: Buffers) -> Exact:
        rows = rows_of(buffers)

        def exact(at: Places) -> Array:
            row, column = np.divmod(at, norm.width)
            levels = rows[row, column].astype(np.int64) - roots.zero
            return norm.factors.applied(levels / found[row], column)

        return exact

    return marked_step(
        call,
        stages,
        real.value,
        norm.near.step,
        norm.near,
        exact_of,
        before=compute_variances,
    )
