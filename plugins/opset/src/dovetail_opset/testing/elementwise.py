"""Cases of the elementwise functions of two tensors, by name and by number, and of logic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dovetail.ir import Array
from dovetail.testing import OpCase
from dovetail_opset.testing._data import real, truth, whole, widely

Function = Callable[..., Any]

_A, _B = real(2, 3, 5), real(2, 3, 5, low=0.5, seed=2)
_ROW, _COLUMN = real(5, low=0.5, seed=3), real(3, 1, low=0.5, seed=4)
_INTS = whole(4, 3), np.where(whole(4, 3, seed=2) == 0, 1, whole(4, 3, seed=2)).astype(np.int32)


def _each(function: Callable[[float, float], float]) -> Function:
    """Return the elementwise form of a function of two Python numbers."""
    return lambda a, b: np.vectorize(function, otypes="d")(a, b)


_ARITHMETIC: dict[str, tuple[int, Function]] = {
    "Add": (0, lambda a, b: a + b),
    "Divide": (2, lambda a, b: a / b),
    "FloorDiv": (4, _each(lambda a, b: math.floor(np.float32(a) / np.float32(b)))),
    "Fmod": (5, _each(math.fmod)),
    "Maximum": (10, lambda a, b: np.where(a > b, a, b)),
    "Minimum": (11, lambda a, b: np.where(a < b, a, b)),
    "Multiply": (13, lambda a, b: a * b),
    "SquaredDifference": (17, lambda a, b: (a - b) * (a - b)),
    "Subtract": (18, lambda a, b: a - b),
}
_COMPARISONS: dict[str, tuple[int, Function]] = {
    "Equal": (3, lambda a, b: (a <= b) & (a >= b)),
    "Greater": (6, lambda a, b: b < a),
    "GreaterEqual": (7, lambda a, b: b <= a),
    "Less": (8, lambda a, b: b > a),
    "LessEqual": (9, lambda a, b: b >= a),
    "NotEqual": (14, lambda a, b: (a < b) | (a > b)),
}
_LOGIC: dict[str, tuple[int, Function]] = {
    "And": (1, lambda a, b: np.where(a, b, False)),
    "Or": (15, lambda a, b: np.where(a, True, b)),
    "Xor": (19, lambda a, b: np.where(a, np.where(b, False, True), b)),
}
_SMALL = ("Add", "Maximum", "Minimum", "Multiply", "SquaredDifference", "Subtract")
_TIED = np.array([[1.0, 2.0, 3.0], [0.0, -0.0, 5.0]], np.float32)


def _power(a: Array, b: Array) -> Array:
    result: Array = np.exp(np.log(a.astype(np.float64)) * b)
    return result


CASES: tuple[OpCase, ...] = (
    *(
        c
        for name, (_, f) in _ARITHMETIC.items()
        for c in (
            OpCase(f"ElementWise{name}", (_A, _B), f),
            OpCase(f"ElementWise{name}", (_A, _ROW), f, name="row"),
            OpCase(f"ElementWise{name}", (_COLUMN, _ROW), f, name="column by row"),
            OpCase(f"ElementWise{name}", (real(), _B), f, name="rank 0"),
            OpCase(f"ElementWise{name}", (_A[:0], _ROW), lambda a, b: a, name="empty"),
        )
    ),
    *(
        c
        for name in _SMALL
        for c in widely(OpCase(f"ElementWise{name}", (_A, _B), _ARITHMETIC[name][1], name="both"))
    ),
    *(OpCase(f"ElementWise{name}", _INTS, _ARITHMETIC[name][1], name="int32") for name in _SMALL),
    OpCase(
        "ElementWiseDivide",
        _INTS,
        lambda a, b: np.vectorize(lambda x, y: int(x / y), otypes="i")(a, b),
        name="int32 towards zero",
    ),
    OpCase(
        "ElementWiseFloorDiv",
        _INTS,
        lambda a, b: np.vectorize(lambda x, y: math.floor(x / y), otypes="i")(a, b),
        name="int32",
    ),
    OpCase(
        "ElementWiseMod",
        _INTS,
        lambda a, b: np.vectorize(lambda x, y: x - y * math.floor(x / y), otypes="i")(a, b),
    ),
    OpCase(
        "ElementWiseMod",
        (whole(3, 1), np.array([3, -3, 5], np.int32)),
        lambda a, b: np.vectorize(lambda x, y: x - y * math.floor(x / y), otypes="i")(a, b),
        name="broadcast",
    ),
    OpCase(
        "ElementWiseFmod",
        _INTS,
        lambda a, b: np.vectorize(lambda x, y: x - y * int(x / y), otypes="i")(a, b),
        name="int32",
    ),
    OpCase("ElementWisePower", (_B, real(2, 3, 5, seed=5)), _power),
    OpCase("ElementWisePower", (_B, _ROW), _power, name="row"),
    OpCase(
        "ElementWisePower",
        (real(6), np.full(6, 2, np.float32)),
        lambda a, b: a * a,
        name="negative base",
    ),
    *(
        c
        for name, (_, f) in _COMPARISONS.items()
        for c in (
            OpCase(f"ElementWise{name}", (_TIED, _TIED[::-1].copy()), f),
            OpCase(f"ElementWise{name}", (_TIED, _TIED[0]), f, name="row"),
            OpCase(f"ElementWise{name}", _INTS, f, name="int32"),
            OpCase(f"ElementWise{name}", (real(), real(seed=2)), f, name="rank 0"),
        )
    ),
    OpCase(
        "ElementWiseEqual",
        (np.array([np.nan], np.float32), np.array([np.nan], np.float32)),
        np.array([False]),
        name="nan",
    ),
    OpCase(
        "ElementWiseNotEqual",
        (np.array([np.nan], np.float32), np.array([np.nan], np.float32)),
        np.array([True]),
        name="nan",
    ),
    *(
        c
        for name, (_, f) in _LOGIC.items()
        for c in (
            OpCase(f"ElementWise{name}", (truth(4, 5), truth(4, 5, seed=2)), f),
            OpCase(f"ElementWise{name}", (truth(4, 1), truth(5, seed=2)), f, name="broadcast"),
        )
    ),
    *(
        OpCase("ElementWiseBinary", (_A, _B), f, {"operation": number}, name=name)
        for name, (number, f) in (_ARITHMETIC | _COMPARISONS).items()
    ),
    *(
        OpCase(
            "ElementWiseBinary",
            (truth(9), truth(9, seed=2)),
            f,
            {"operation": number},
            name=name,
        )
        for name, (number, f) in _LOGIC.items()
    ),
    OpCase("ElementWiseBinary", (_B, _ROW), _power, {"operation": 16}, name="Power"),
    OpCase(
        "ElementWiseBinary",
        _INTS,
        lambda a, b: np.vectorize(lambda x, y: x - y * math.floor(x / y), otypes="i")(a, b),
        {"operation": 12},
        name="Mod",
    ),
    OpCase(
        "ElementWiseSelect",
        (truth(2, 3, 5), _A, _B),
        lambda c, a, b: c * a + (1 - c) * b,
    ),
    OpCase(
        "ElementWiseSelect",
        (truth(3, 1), _ROW, real()),
        lambda c, a, b: np.stack([a if row else np.full(5, b) for row in c[:, 0]]),
        name="all three broadcast",
    ),
    OpCase(
        "ElementWiseSelect",
        (truth(4, 3), *_INTS),
        lambda c, a, b: (c * a + (1 - c) * b).astype(np.int32),
        name="int32",
    ),
)
