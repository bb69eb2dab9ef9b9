"""Precision: the type that values may be rounded to. Sums of products stay float32."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dovetail_onednn._api import DataType
from dovetail_onednn._library import library


class Precision(enum.Enum):
    """The type that factors of products, and results between steps, may be rounded to.

    It is a permission: without code for the type on this processor, everything stays float32.
    oneDNN 3.2 supports BF16 on processors with AVX-512 and BF16, and FLOAT16 on none.
    """

    FLOAT32 = "float32"
    BF16 = "bf16"
    FLOAT16 = "float16"


# Source: oneDNN 3.2, dnnl_common_types.h, dnnl_fpmath_mode_t
_MODES = {Precision.FLOAT32: 0, Precision.BF16: 1, Precision.FLOAT16: 2}
_CURRENT = ContextVar("dovetail_onednn_precision", default=Precision.FLOAT32)


@contextmanager
def computing_in(precision: Precision) -> Iterator[None]:
    """Let primitives that are described in this context round their factors."""
    token = _CURRENT.set(precision)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def factor_type() -> DataType:
    """Return the type that convolutions and products read, and write for the next step.

    Steps after them use the type of their input, if the library has fast code for it.
    """
    is_wanted = _CURRENT.get() is Precision.BF16
    return DataType.BF16 if is_wanted and library().has_bfloat16 else DataType.F32


def math_mode() -> int:
    """Return the library's number for the current precision."""
    return _MODES[_CURRENT.get()]
