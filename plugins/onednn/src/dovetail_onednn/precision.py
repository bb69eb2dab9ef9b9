"""Precision: what the library may round the factors of products to. Sums stay float32."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Precision(enum.Enum):
    """The type that float32 factors of convolutions and products may be rounded to.

    It is a permission: where the library has no code for a type on this processor, it computes in
    float32. oneDNN 3.2 has BF16 where there is AMX, and FLOAT16 nowhere.
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


def math_mode() -> int:
    """Gives the library's number of the present precision."""
    return _MODES[_PRESENT.get()]
