"""Indices as the ops want them: INT_32, those that are known in range and from the start."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import Array, DType, Spec, Tensor
from dovetail_onnx._context import OpContext


def known_indices(op: OpContext, i: int, extents: int | Sequence[int]) -> Array | None:
    """Return an input's indices counted from the start, None where they are not known.

    Args:
        op: The node.
        i: The input.
        extents: How many elements there are; several are for the columns of the last dimension.

    Raises:
        FrontendError: One is out of range.
    """
    known = op.constant(i)
    if known is None:
        return None
    counts = np.broadcast_to(np.asarray(extents, np.int64), known.shape)
    wrong = (known < -counts) | (known >= counts)
    if wrong.any():
        raise op.invalid(
            f"its index {known[wrong].flat[0]} is not one of {counts[wrong].flat[0]} elements"
        )
    return np.where(known < 0, known + counts, known)


def indices_tensor(op: OpContext, i: int, extents: int | Sequence[int]) -> Tensor:
    """Return an input's indices as a tensor of INT_32; see `known_indices`.

    Raises:
        FrontendError: One is known and out of range.
    """
    known = known_indices(op, i, extents)
    if known is not None:
        return op.static("indices", known, DType.INT_32)
    indices = op.tensor(i)
    if indices.dtype is DType.INT_32:
        return indices
    # Convert clamps, where Cast wraps: an index out of range stays out of range
    return op.step("indices", "Convert", [indices], spec=Spec(DType.INT_32, indices.shape))
