"""Cases of the elementwise functions of one tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dovetail.ir import Array
from dovetail.testing import OpCase
from dovetail_opset.testing._data import real, truth, whole, widely

_SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5], np.float32)


_ROOTS = np.array([np.nan, np.inf, np.nan, -0.0, 0.0, 1.5**0.5], np.float32)


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """Return the elementwise form of a function of a Python number."""
    return lambda x: np.vectorize(function, otypes="d")(x)


def _half_even(v: float) -> float:
    return float(round(v))


_ANY, _POSITIVE, _SHARE = real(3, 5, 7), real(3, 5, 7, low=0.1), real(3, 5, 7, low=-1, high=1)
_HALVES = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.49, -3.51], np.float32)
_FUNCTIONS: dict[str, tuple[Array, Callable[[Array], Any]]] = {
    "ElementWiseAbs": (_ANY, _each(abs)),
    "ElementWiseAsin": (_SHARE, _each(math.asin)),
    "ElementWiseAtan": (_ANY, _each(math.atan)),
    "ElementWiseCeil": (_ANY, _each(math.ceil)),
    "ElementWiseCos": (_ANY, _each(math.cos)),
    "ElementWiseExp": (_ANY, _each(math.exp)),
    "ElementWiseFloor": (_ANY, _each(math.floor)),
    "ElementWiseLog": (_POSITIVE, _each(lambda v: math.log(v) if v > 0 else -math.inf)),
    "ElementWiseNeg": (_ANY, _each(lambda v: -v)),
    "ElementWiseRound": (_HALVES, _each(_half_even)),
    "ElementWiseRsqrt": (_POSITIVE, _each(lambda v: v**-0.5 if v else math.inf)),
    "ElementWiseSign": (_ANY, _each(lambda v: (v > 0) - (v < 0))),
    "ElementWiseSin": (_ANY, _each(math.sin)),
    "ElementWiseSquareRoot": (_POSITIVE, _each(math.sqrt)),
    "Logit": (real(3, 5, low=0.05, high=0.95), _each(lambda v: math.log(v) - math.log(1 - v))),
}
# Numbers of the same functions in ElementWiseUnary.
_NUMBERS = {
    "ElementWiseAbs": 0,
    "ElementWiseAsin": 1,
    "ElementWiseAtan": 2,
    "ElementWiseCeil": 3,
    "ElementWiseCos": 4,
    "ElementWiseExp": 5,
    "ElementWiseFloor": 6,
    "ElementWiseLog": 7,
    "ElementWiseNeg": 8,
    "ElementWiseRound": 11,
    "ElementWiseRsqrt": 12,
    "ElementWiseSign": 13,
    "ElementWiseSin": 14,
    "ElementWiseSquareRoot": 15,
}

CASES: tuple[OpCase, ...] = (
    *(OpCase(op, (x,), f) for op, (x, f) in _FUNCTIONS.items()),
    *(
        c
        for op in ("ElementWiseAbs", "ElementWiseNeg", "ElementWiseExp", "ElementWiseSquareRoot")
        for c in widely(OpCase(op, _FUNCTIONS[op][:1], _FUNCTIONS[op][1], name="narrow"))[1:]
    ),
    *(OpCase(op, (x.reshape(-1)[0],), f, name="rank 0") for op, (x, f) in _FUNCTIONS.items()),
    *(OpCase(op, (x[:0],), lambda x: x, name="empty") for op, (x, _) in _FUNCTIONS.items()),
    OpCase("ElementWiseAbs", (whole(3, 4),), lambda x: np.where(x < 0, -x, x), name="int32"),
    OpCase("ElementWiseNeg", (whole(3, 4),), lambda x: 0 - x, name="int32"),
    OpCase(
        "ElementWiseSign",
        (whole(3, 4),),
        lambda x: ((x > 0) * 1 - (x < 0)).astype(x.dtype),
        name="int32",
    ),
    OpCase("ElementWiseSquareRoot", (_SPECIAL,), _ROOTS, name="not finite"),
    OpCase(
        "ElementWiseLog",
        (np.array([0, -1, np.inf], np.float32),),
        np.array([-np.inf, np.nan, np.inf], np.float32),
        name="not finite",
    ),
    OpCase("ElementWiseNot", (truth(3, 5),), lambda x: x != np.True_),
    OpCase("ElementWiseNot", (truth(),), lambda x: x != np.True_, name="rank 0"),
    OpCase(
        "IsNan", (_SPECIAL.astype(np.float16),), np.array([True] + [False] * 5), name="half float"
    ),
    OpCase("IsNan", (_SPECIAL,), np.array([True] + [False] * 5)),
    OpCase("IsInf", (_SPECIAL,), np.array([False, True, True, False, False, False])),
    OpCase(
        "IsInf",
        (_SPECIAL,),
        np.array([False, True, False, False, False, False]),
        {"detect_negative": False},
        name="positive",
    ),
    OpCase(
        "IsInf",
        (_SPECIAL,),
        np.array([False, False, True, False, False, False]),
        {"detect_positive": False},
        name="negative",
    ),
    *(
        OpCase(
            "ElementWiseUnary",
            _FUNCTIONS[op][:1],
            _FUNCTIONS[op][1],
            {"operation": number},
            name=op.removeprefix("ElementWise"),
        )
        for op, number in _NUMBERS.items()
    ),
    OpCase("ElementWiseUnary", (truth(4),), lambda x: x != np.True_, {"operation": 9}, name="Not"),
    OpCase(
        "ElementWiseUnary",
        (_POSITIVE,),
        _each(lambda v: 1 / v),
        {"operation": 10},
        name="Reciprocal",
    ),
)
