"""Conversion of 64-bit indices to the ops' 32 bits; out of range stays out of range.

Indices of models are often INT_64, QNN's INT_32 or UINT_32. Three rules keep one meaning:

- constants are checked here when the model is converted, against the number of elements, and every
  constant of an op in `ImportContext.static`, against its type;
- values of a run saturate before they are cast (`narrowed`), so that the kernel finds those out
  of range and raises, or treats it as its op says;
- a Cast of the model itself is not an index: it keeps the model's meaning, which is to wrap.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import Array, DType, Spec, Tensor
from dovetail_opset.importing.context import ImportContext

_LOWEST, _HIGHEST = DType.INT_32.stored_range()
# Types that hold numbers beyond INT_32, and the bounds of that in each type.
_BOUNDS: dict[DType, tuple[float | None, float | None]] = {
    DType.INT_64: (_LOWEST, _HIGHEST),
    DType.UINT_64: (None, _HIGHEST),
    DType.FLOAT_32: (_LOWEST, float(np.nextafter(np.float32(_HIGHEST), np.float32(0)))),
    DType.FLOAT_64: (_LOWEST, _HIGHEST),
}
# Types of indices that ops accept.
_INDEX_TYPES = (DType.INT_32, DType.UINT_32)


def known_indices(op: ImportContext, i: int, sizes: int | Sequence[int]) -> Array | None:
    """Return an input's indices counted from the start; None if they are not known.

    Args:
        op: The node.
        i: The input.
        sizes: Number of elements; several are for the columns of the last dimension.

    Raises:
        FrontendError: One is out of range.
    """
    known = op.constant(i)
    if known is None:
        return None
    counts = np.broadcast_to(np.asarray(sizes, np.int64), known.shape)
    wrong = (known < -counts) | (known >= counts)
    if wrong.any():
        raise op.invalid(
            f"index {known[wrong].flat[0]} is out of range for {counts[wrong].flat[0]} elements"
        )
    return np.where(known < 0, known + counts, known)


def indices_tensor(op: ImportContext, i: int, sizes: int | Sequence[int]) -> Tensor:
    """Return an input's indices as a tensor of INT_32 or UINT_32; see `known_indices`.

    Raises:
        FrontendError: One is known and out of range.
    """
    known = known_indices(op, i, sizes)
    if known is not None:
        return op.static("indices", known, DType.INT_32)
    return narrowed(op, "indices", op.tensor(i))


def narrowed(op: ImportContext, suffix: str, x: Tensor, dtype: DType | None = None) -> Tensor:
    """Return computed indices in 32 bits; those beyond INT_32 become its lowest or highest.

    A tensor has fewer elements than 2^31, so these stay out of range. In UINT_32 negative numbers
    become 2^31 and more.

    Args:
        op: The node.
        suffix: Names the ops, after the node's name.
        x: Indices of any numeric type.
        dtype: UINT_32 where the op takes nothing else; by default INT_32, or UINT_32 if `x` is.
    """
    x = _widened_from(op, x)
    if x.dtype is dtype or (dtype is None and x.dtype in _INDEX_TYPES):
        return x
    low, high = _BOUNDS.get(x.dtype, (None, None))
    if low is not None:
        lowest = op.static(f"{suffix}.lowest", np.asarray(low), x.dtype)
        x = op.step(f"{suffix}.bounded", "ElementWiseMaximum", [x, lowest])
    if high is not None:
        highest = op.static(f"{suffix}.highest", np.asarray(high), x.dtype)
        x = op.step(f"{suffix}.bounded", "ElementWiseMinimum", [x, highest])
    return op.step(suffix, "Cast", [x], spec=Spec(dtype or DType.INT_32, x.shape))


def _widened_from(op: ImportContext, x: Tensor) -> Tensor:
    """Return the tensor before a Cast that widens integers; the tensor itself without one."""
    maker = op.graph.producer(x)
    if maker is None or maker.op_type != "Cast" or x.dtype not in (DType.INT_64, DType.UINT_64):
        return x
    narrow = maker.inputs[0]
    if narrow is None or not narrow.dtype.is_int or narrow.dtype.storage.itemsize > 4:
        return x
    signs = narrow.dtype.is_signed, x.dtype.is_signed
    return narrow if signs != (True, False) else x
