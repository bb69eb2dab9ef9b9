"""Cases of ops that return indices: maximum, top k, nonzero elements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.ir import Array, DType, Spec
from dovetail.testing import OpCase
from dovetail_opset.testing._data import real, truth

_X = real(2, 3, 5, 7)
_TIES = np.array([[1, 5, 5, 2], [0, 0, -3, -3], [4, 4, 4, 4]], np.float32)


def _first(x: Array, axis: int) -> Array:
    """Return the index of the maximum along an axis, the first of equal ones."""
    rows = np.moveaxis(x, axis, -1)
    made = np.zeros(rows.shape[:-1], np.int32)
    for at in np.ndindex(*made.shape):
        row = [float(v) for v in rows[at]]
        made[at] = row.index(max(row))
    return made


def _top(x: Array, k: int) -> tuple[Array, Array]:
    """Return the k largest elements of each row and their indices, the last of equal ones first."""
    values = np.zeros((*x.shape[:-1], k), x.dtype)
    indices = np.zeros((*x.shape[:-1], k), np.uint32)
    for at in np.ndindex(*x.shape[:-1]):
        order = sorted(((float(v), i) for i, v in enumerate(x[at])), reverse=True)
        for j, (_, i) in enumerate(order[:k]):
            values[(*at, j)], indices[(*at, j)] = x[at][i], i
    return values, indices


def _indices(sign: int, axis: int, *, keep: bool = False) -> Callable[[Array], Array]:
    """Return a function for the indices of the maximum, or of the minimum with sign -1."""

    def expected(x: Array) -> Array:
        found = _first(sign * x, axis)
        return np.expand_dims(found, axis) if keep else found

    return expected


CASES: tuple[OpCase, ...] = (
    *(
        c
        for op, sign in (("Argmax", 1), ("Argmin", -1))
        for c in (
            OpCase(op, (_X,), _indices(sign, 2), {"axis": 2}),
            OpCase(op, (_TIES,), _indices(sign, 1), {"axis": 1}, name="ties"),
            OpCase(
                op,
                (_X,),
                _indices(sign, 0, keep=True),
                {"axis": 0, "keep_dims": True},
                name="kept dimension",
            ),
        )
    ),
    OpCase(
        "Argmax",
        (_X,),
        lambda x: _first(x, 1),
        {"axis": 1},
        name="uint32",
        outputs=(Spec(DType.UINT_32, (2, 5, 7)),),
    ),
    OpCase("TopK", (_X,), lambda x: _top(x, 3), {"k": 3}),
    OpCase("TopK", (_TIES,), lambda x: _top(x, 2), {"k": 2}, name="ties"),
    OpCase(
        "TopK",
        (_X,),
        lambda x: (-_top(-x, 4)[0], _top(-x, 4)[1]),
        {"k": 4, "largest": False},
        name="least",
    ),
    OpCase("TopK", (_X,), lambda x: _top(x, 0), {"k": 0}, name="none"),
    OpCase(
        "NonZero",
        (np.array([[0, 3, 0], [-1, 0, 2]], np.float32),),
        np.array([[0, 1], [1, 0], [1, 2], [0, 0], [0, 0], [0, 0]], np.int32),
    ),
    OpCase(
        "NonZero",
        (truth(7),),
        lambda x: np.array([[i] for i in range(7) if x[i]] + [[0]] * int(7 - x.sum()), np.uint32),
        name="bool",
    ),
)
