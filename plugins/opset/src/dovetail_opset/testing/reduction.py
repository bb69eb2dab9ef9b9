"""Cases of reductions and cumulative sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dovetail.ir import Array, DType
from dovetail.testing import OpCase
from dovetail_opset.testing._data import real, whole, widely

_X, _INTS = real(2, 3, 5, 7), whole(2, 3, 4)


def _folded(step: Callable[[Any, Any], Any], first: float) -> Callable[..., Array]:
    """Return a reduction as a loop over the elements of the reduced axes, in float64."""

    def reduce(x: Array, axes: tuple[int, ...], *, keep: bool = False) -> Array:
        moved = np.moveaxis(x.astype(np.float64), axes, range(len(axes)))
        kept = moved.shape[len(axes) :]
        total = np.full(kept, first)
        for part in moved.reshape(math.prod(x.shape[a] for a in axes), *kept):
            total = step(total, part)
        return np.expand_dims(total, axes) if keep else total

    return reduce


_sum = _folded(lambda a, b: a + b, 0.0)
_square = _folded(lambda a, b: a + b * b, 0.0)


def _mean(x: Array, axes: tuple[int, ...], *, keep: bool = False) -> Array:
    count = math.prod(x.shape[a] for a in axes)
    return np.asarray(_sum(x, axes, keep=keep) / count)


def _as_int32(f: Callable[..., Array]) -> Callable[[Array], Array]:
    return lambda x: f(x, (1,)).astype(np.int32)


def _running(i: int, count: int, exclusive: bool, reverse: bool) -> slice:
    """Return the slice of the elements whose sum is at index i."""
    if reverse:
        return slice(i + exclusive, count)
    return slice(0, i + 1 - exclusive)


def _sums(exclusive: bool, reverse: bool) -> Callable[[Array], Array]:
    """Return a function for cumulative sums along axis 2, of 5 elements."""

    def expected(x: Array) -> Array:
        parts = [x[:, :, _running(i, 5, exclusive, reverse)] for i in range(5)]
        return np.stack([_sum(part, (2,)) for part in parts], 2)

    return expected


_REDUCTIONS: dict[str, Callable[..., Array]] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceProd": _folded(lambda a, b: a * b, 1.0),
    "ReduceSumSquare": _square,
    "ReduceMax": _folded(np.maximum, -np.inf),
    "ReduceMin": _folded(np.minimum, np.inf),
}
_TOLERANCE: dict[str, Any] = {
    "rtol": 1e-5,
    "atol": 1e-5,
}  # sums and products of up to a hundred elements


def _reductions(op: str, f: Callable[..., Array]) -> tuple[OpCase, ...]:
    return (
        *widely(
            OpCase(op, (_X,), lambda x: f(x, (1, 2)), {"axes": [1, 2]}, **_TOLERANCE),
            DType.FLOAT_16,
        ),
        OpCase(
            op,
            (_X,),
            lambda x: f(x, (3,), keep=True),
            {"axes": [3], "keep_dims": True},
            name="kept dimension",
            **_TOLERANCE,
        ),
        OpCase(
            op,
            (_X,),
            lambda x: f(x, (0, 1, 2, 3)),
            {"axes": [0, 1, 2, 3]},
            name="to rank 0",
            rtol=1e-4,
            atol=1e-4,  # of 210 elements, whose sums nearly cancel
        ),
        OpCase(
            op,
            (_X[:, :, :0],),
            lambda x: f(x, (0,)),
            {"axes": [0]},
            name="empty result",
        ),
    )


CASES: tuple[OpCase, ...] = (
    *(c for op, f in _REDUCTIONS.items() for c in _reductions(op, f)),
    *(
        OpCase(
            op,
            (_INTS,),
            _as_int32(_REDUCTIONS[op]),
            {"axes": [1]},
            name="int32",
        )
        for op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceSumSquare")
    ),
    OpCase(
        "ReduceSum",
        (np.zeros((2, 0), np.float32),),
        np.zeros(2, np.float32),
        {"axes": [1]},
        name="nothing to sum",
    ),
    OpCase(
        "Moments",
        (_X,),
        lambda x: (
            _mean(x, (1, 2)),
            _mean((x - _mean(x, (1, 2), keep=True)) ** 2, (1, 2)),
        ),
        {"axes": [1, 2], "keep_dims": False},
        **_TOLERANCE,
    ),
    OpCase(
        "Moments",
        (_X,),
        lambda x: (
            _mean(x, (3,), keep=True),
            _mean((x - _mean(x, (3,), keep=True)) ** 2, (3,), keep=True),
        ),
        {"axes": [3], "keep_dims": True},
        name="kept dimension",
        **_TOLERANCE,
    ),
    *(
        OpCase(
            "CumulativeSum",
            (_X,),
            _sums(exclusive, reverse),
            {"axis": 2, "exclusive": exclusive, "reverse": reverse},
            name=f"exclusive {exclusive} reverse {reverse}",
        )
        for exclusive in (False, True)
        for reverse in (False, True)
    ),
    OpCase(
        "CumulativeSum",
        (np.array([3, 1, 4, 1, 5], np.int32),),
        np.array([3, 4, 8, 9, 14], np.int32),
        {"axis": 0},
        name="int32",
    ),
)
