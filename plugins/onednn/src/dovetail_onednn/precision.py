"""Precision: what may be rounded, and to which type. Sums of products stay float32."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dovetail_onednn._api import DataType
from dovetail_onednn._library import library


class Precision(enum.Enum):
    """The type that factors of products, and results from step to step, may be rounded to.

    It is a permission: where the library has no code for a type on this processor, all stays
    float32. oneDNN 3.2 has BF16 where there is AVX-512 with BF16, and FLOAT16 nowhere.
    """

    FLOAT32 = "float32"
    BF16 = "bf16"
    FLOAT16 = "float16"


# Source: oneDNN 3.2, dnnl_common_types.h, dnnl_fpmath_mode_t
_MODES = {Precision.FLOAT32: 0, Precision.BF16: 1, Precision.FLOAT16: 2}
_PRESENT = ContextVar("dovetail_onednn_precision", default=Precision.FLOAT32)


@contextmanager
def computing_in(precision: Precision) -> Iterator[None]:
    """Lets what is described while this is entered round its factors."""
    token = _PRESENT.set(precision)
    try:
        yield
    finally:
        _PRESENT.reset(token)


def factor_type() -> DataType:
    """Return the type that convolutions and products read, and write for the next step.

    What follows them keeps to the type that it finds, if the library has fast code for that.
    """
    is_wanted = _PRESENT.get() is Precision.BF16
    return DataType.BF16 if is_wanted and library().has_bfloat16 else DataType.F32


def math_mode() -> int:
    """Return the library's number of the present precision."""
    return _MODES[_PRESENT.get()]
