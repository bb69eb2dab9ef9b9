"""Values of params' defaults, from their text."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from dovetail.ir import DType, Scalar
from dovetail_tools.op_definitions._model import Parameter

_WORDS = {"true": True, "false": False}


def value_fault(param: Parameter) -> str | None:
    """Return the fault of a param's default, or None."""
    try:
        default_value(param)
    except ValueError as error:
        return str(error)
    return None


def default_value(param: Parameter) -> Any:
    """Return a param's default: a number, a bool, text, or an array.

    Raises:
        ValueError: The text is not a value of the param's type and rank.
    """
    dtype = param.all_dtypes[0]
    if param.choices and param.default in param.choices:
        return param.choices.index(param.default)
    if dtype is DType.STRING:
        return param.default
    value = _parsed(param.default)
    if param.is_scalar:
        return _scalar(param, dtype, value)
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(
            f"{param.default!r} is not an array: its rows have different lengths"
        ) from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{param.default!r} is not an array of numbers")
    rank = None if param.shape is None else param.shape.rank
    if rank is not None and array.ndim != rank:
        raise ValueError(f"{param.default!r} has rank {array.ndim}; expected {rank}")
    for each in array.ravel().tolist():
        _scalar(param, dtype, each)
    return array


def _scalar(param: Parameter, dtype: DType, value: Any) -> Any:
    if isinstance(value, list):
        raise ValueError(f"{param.default!r} is a list, but the parameter is a scalar")
    if dtype is DType.BOOL_8 and value in (0, 1):
        value = bool(value)
    elif dtype.is_float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not Scalar(dtype, value).fits:
        raise ValueError(f"{param.default!r} cannot be represented in {dtype.name}")
    if param.choices and value not in range(len(param.choices)):
        raise ValueError(
            f"{param.default!r} is unsupported; expected one of {', '.join(param.choices)}"
        )
    return value


def _parsed(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return json.loads(text.replace("{", "[").replace("}", "]"), parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        raise ValueError(f"{text!r} is neither a number nor a list of numbers") from None


def _reject_constant(text: str) -> Any:
    raise ValueError(text)
