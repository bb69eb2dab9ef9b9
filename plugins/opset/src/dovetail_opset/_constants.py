"""Constants as params of ops: their types, and their form as elements."""

from __future__ import annotations

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType, ScaleOffset, Spec
from dovetail.ops.simulate import from_real, unstorable

# Each backend chooses the value's type; a float is usual.
CONSTANT_TYPES = (
    DType.FLOAT_32,
    *(d for d in DType if (d.is_float and d is not DType.FLOAT_32) or d.is_int),
    *(d for d in DType if d.is_fixed_point),
    DType.BOOL_8,
)


def stored_constant(value: float, out: Spec) -> Array:
    """Return a constant in the stored form of elements of `out`.

    An integer for a fixed-point type is a stored value already.

    Args:
        value: A number or bool.
        out: The spec of the target; an encoding must be per tensor.
    """
    found = np.asarray(value)
    if out.dtype.is_fixed_point and found.dtype.kind != "f":
        return found.astype(out.dtype.storage)
    if out.dtype is DType.BFLOAT_16:
        found = found.astype(np.float32)
    return from_real(found, out)


def element_of(value: float, x: Array, out: Spec) -> Array:
    """Return a constant in the form of the elements of `x`, which move to `out`: stored or real."""
    if x.dtype == out.dtype.storage:
        return stored_constant(value, out)
    return np.asarray(value).astype(x.dtype)


def need_storable(value: float, out: Spec, name: str) -> None:
    """Raise if elements of `out` cannot hold a constant.

    Raises:
        OpError: The type cannot hold it, or it has no single stored value.
    """
    if not isinstance(out.encoding, ScaleOffset | None):
        raise OpError(f"{name} has no single stored value under an encoding by axis or block")
    found = np.asarray(value)
    least, most = out.dtype.stored_range() if out.dtype.is_fixed_point else (-np.inf, np.inf)
    is_stored = out.dtype.is_fixed_point and found.dtype.kind != "f"
    if unstorable(found, out.dtype).any() or (is_stored and not least <= value <= most):
        raise OpError(f"{name} is {value}, which {out.dtype.name} cannot hold")
