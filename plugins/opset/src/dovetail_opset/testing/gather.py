"""Cases of gathering and scattering by index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dovetail.ir import Array, DType, Spec
from dovetail.testing import OpCase, typed
from dovetail_opset.testing._data import real, whole

_DATA, _LINE = real(3, 4, 5), real(6, seed=2)
_PICKS = np.array([[2, 0], [1, -1]], np.int32)
_PLACES = whole(3, 2, 5, low=-4, high=4)
_ROWS = np.array([[0, 3], [2, -1], [1, 0]], np.int32)


def _elements(data: Array, indices: Array, axis: int) -> Array:
    made = np.zeros(indices.shape, data.dtype)
    for at in np.ndindex(*indices.shape):
        made[at] = data[(*at[:axis], int(indices[at]), *at[axis + 1 :])]
    return made


def _slices(data: Array, rows: Array) -> Array:
    """Return the slice of the data at each row of indices."""
    found = [data[tuple(int(i) for i in row)] for row in rows.reshape(-1, rows.shape[-1])]
    return np.array(found, data.dtype).reshape(*rows.shape[:-1], *data.shape[rows.shape[-1] :])


def _scattered(axis: int, join: Callable[[Any, Any], Any]) -> Callable[..., Array]:
    def expected(data: Array, indices: Array, updates: Array) -> Array:
        made = data.copy()
        for at in np.ndindex(*indices.shape):
            to = (*at[:axis], int(indices[at]), *at[axis + 1 :])
            made[to] = join(made[to], updates[at])
        return made

    return expected


def _updated(join: Callable[[Any, Any], Any]) -> Callable[..., Array]:
    def expected(data: Array, rows: Array, updates: Array) -> Array:
        made = data.copy()
        for row, update in zip(rows, updates, strict=True):
            to = tuple(int(i) for i in row)
            made[to] = join(made[to], update)
        return made

    return expected


_JOINS: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "replacing": (0, lambda old, new: new),
    "adding": (1, lambda old, new: old + new),
    "multiplying": (2, lambda old, new: old * new),
}

CASES: tuple[OpCase, ...] = (
    *(
        c
        for case in (
            OpCase(
                "Gather",
                (_DATA, _PICKS),
                lambda d, i: np.array([[d[:, j] for j in r] for r in i]).transpose(2, 0, 1, 3),
                {"axis": 1},
                static=(1,),
            ),
            OpCase(
                "GatherElements", (_DATA, _PLACES), lambda d, i: _elements(d, i, 1), {"axis": 1}
            ),
            OpCase("GatherNd", (_DATA, _ROWS), _slices),
        )
        for c in (case, *typed(case, DType.FLOAT_16, DType.UFIXED_POINT_8, steps=0))
    ),
    OpCase(
        "Gather", (_LINE, np.array(4, np.int32)), lambda d, i: d[4], {"axis": 0}, name="to rank 0"
    ),
    OpCase(
        "Gather",
        (_LINE, _PICKS[:0]),
        lambda d, i: np.zeros((0, 2), d.dtype),
        {"axis": 0},
        name="no indices",
    ),
    OpCase(
        "Gather",
        (whole(5, 2), _PICKS.astype(np.int64)),
        lambda d, i: d[i],
        {"axis": 0},
        name="integers",
    ),
    OpCase(
        "GatherElements",
        (_LINE, np.array([5, 5, -6], np.int32)),
        lambda d, i: d[[5, 5, 0]],
        name="default axis",
    ),
    OpCase(
        "GatherNd",
        (_DATA, np.array([[1], [0], [3]], np.int32)),
        lambda d, i: np.stack([d[0, 1], d[1, 0], d[2, 3]]),
        {"batch_dims": 1},
        name="batch",
    ),
    *(
        OpCase(
            "ScatterElements",
            (
                _DATA,
                np.argsort(real(3, 4, 5, seed=7), 1)[:, :2].astype(np.int32),
                real(3, 2, 5, seed=3),
            ),
            _scattered(1, join),
            {"axis": 1, "reduction": number},
            name=name,
        )
        for name, (number, join) in _JOINS.items()
    ),
    OpCase(
        "ScatterElements",
        (_LINE, np.array([1, -1, 1], np.int32), np.array([9, -9, 2], np.float32)),
        _scattered(0, max),
        {"reduction": 3},
        name="greatest",
    ),
    *(
        OpCase(
            "ScatterNd",
            (_DATA, _ROWS, real(3, 5, seed=4)),
            _updated(join),
            {"reduction": number},
            name=name,
        )
        for name, (number, join) in _JOINS.items()
    ),
    OpCase(
        "ScatterNd",
        (_LINE, np.array([[2], [2]], np.int32), np.array([1, 5], np.float32)),
        _updated(lambda old, new: old + new),
        {"reduction": 1},
        name="adding twice",
    ),
    OpCase(
        "OneHot",
        (np.array([1, 0, 3], np.int32),),
        np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], np.float32),
        {"depth": 3},
        outputs=(Spec(DType.FLOAT_32, (3, 3)),),
    ),
    OpCase(
        "OneHot",
        (np.array([[1, 0]], np.int32),),
        np.array([[[-1.0, 2.0]], [[2.0, -1.0]]], np.float32),
        {"depth": 2, "axis": 0, "on_value": 2.0, "off_value": -1.0},
        name="first axis, values",
        outputs=(Spec(DType.FLOAT_32, (2, 1, 2)),),
    ),
)
