"""Values of params that are in the JSON itself.

JSON has no infinities and no NaN: they are the texts "inf", "-inf" and "nan".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dovetail.errors import DovetailError, FrontendError
from dovetail.ir import Blob, DType, Scalar, Tensor, pack

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_UNDEFINED = str(int(DType.UNDEFINED))
_DEEPEST = 64


def dump_scalar(scalar: Scalar) -> dict[str, Any]:
    """Return a scalar under the number of its type."""
    value = scalar.value.item() if isinstance(scalar.value, np.generic) else scalar.value
    if scalar.dtype is DType.BOOL_8:
        value = int(value)
    return {str(int(scalar.dtype)): _finite_or_text(value)}


def read_scalar(given: dict[str, Any]) -> Scalar:
    """Return the scalar of an object with one item.

    Raises:
        FrontendError: The object has no single item, or the value does not fit the type.
    """
    if len(given) != 1:
        raise FrontendError(f"expected one value under the number of its type, got {len(given)}")
    ((code, value),) = given.items()
    if code == _UNDEFINED and isinstance(value, str):
        return Scalar(DType.STRING, value)
    try:
        dtype = DType(int(code) if len(code) <= 10 else -1)
    except ValueError:
        raise FrontendError(f"unknown data type {code[:20]}") from None
    if dtype.is_float and isinstance(value, str):
        value = _NOT_FINITE.get(value, value)
    if dtype is DType.BOOL_8 and value in (0, 1):
        value = bool(value)
    scalar = Scalar(dtype, value)
    if (isinstance(value, bool) and dtype is not DType.BOOL_8) or not scalar.fits:
        raise FrontendError(f"{str(value)[:40]!r} is not a value of {dtype.name}")
    return scalar


def dump_values(tensor: Tensor) -> list[Any]:
    """Return the values of a static tensor as a list, from rank 2 on as a list of rows.

    The viewer Netron opens no file with a value outside a list, and resolves one level of lists.
    """
    values: np.ndarray[Any, Any] = tensor.values()
    if values.ndim != 1:
        values = values.reshape(math.prod(tensor.shape[:-1]), *tensor.shape[-1:])
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        texts = np.empty(values.shape, object)
        texts.reshape(-1)[:] = [_finite_or_text(v) for v in values.reshape(-1).tolist()]
        values = texts
    elif tensor.dtype is DType.BOOL_8:
        values = values.astype(np.uint8)
    listed: list[Any] = values.tolist()
    return listed


def read_values(given: Any, dtype: DType, count: int) -> Blob:
    """Return nested lists of values in their stored form.

    Args:
        given: The lists; their nesting is not compared with a shape.
        dtype: The type.
        count: The number of values.

    Raises:
        FrontendError: There are more or fewer values, or one does not fit the type.
    """
    flat = _flattened(given, count)
    if len(flat) != count:
        raise FrontendError(f"expected {count} values, got {len(flat)}")
    if dtype.is_float:
        flat = [_NOT_FINITE.get(v, v) if isinstance(v, str) else v for v in flat]
    kinds = (str,) if dtype is DType.STRING else (int, float) if dtype.is_float else (int,)
    for value in flat:
        if not isinstance(value, kinds) or (value is True and dtype is not DType.BOOL_8):
            raise FrontendError(f"{str(value)[:40]!r} is not a value of {dtype.name}")
    if dtype is DType.STRING and any("\0" in text for text in flat):
        raise FrontendError("text has a zero character")
    try:
        if dtype.is_float or dtype is DType.STRING:
            with np.errstate(over="ignore"):
                return pack(np.array(flat, None if dtype is DType.STRING else np.float64), dtype)
        low, high = (0, 1) if dtype is DType.BOOL_8 else dtype.stored_range()
        if any(not low <= v <= high for v in flat):
            raise FrontendError(f"a value does not fit {dtype.name}")
        return pack(np.array(flat, dtype.storage), dtype)
    except (OverflowError, UnicodeError) as error:
        raise FrontendError(f"a value does not fit {dtype.name}") from error
    except DovetailError as error:
        raise FrontendError(error.message) from error


def _flattened(given: Any, count: int) -> list[Any]:
    """Return the items of nested lists; slightly more than `count` if there are more."""
    for _ in range(_DEEPEST):
        if not isinstance(given, list):
            return [given]
        if not any(isinstance(item, list) for item in given):
            return given
        parts = [item if isinstance(item, list) else [item] for item in given]
        given = [inner for part in parts for inner in part]
    raise FrontendError(f"lists are nested more than {_DEEPEST} deep; expected {count} values")


def _finite_or_text(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
