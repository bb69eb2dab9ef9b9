"""Cases of paddings and slices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.ir import Array, DType
from dovetail.testing import OpCase, typed
from dovetail_opset.testing._data import NARROW, real, whole

_X, _ROW = real(3, 4), np.arange(5, dtype=np.float32)
_PADS = [[1, 2], [2, 3]]


def _mirrored(i: int, count: int, border: int) -> int:
    """Return the source index of element i; with `border` 1 the border occurs twice."""
    if i < 0:
        return -i - border
    return 2 * (count - 1) - i + border if i >= count else i


def _clamped(i: int, count: int) -> int:
    return min(max(i, 0), count - 1)


def _padded(source: Callable[[int, int], int]) -> Callable[[Array], Array]:
    """Return an expected output defined by the source row and column of each element."""

    def expected(x: Array) -> Array:
        rows = [source(i, x.shape[0]) for i in range(-1, x.shape[0] + 2)]
        columns = [source(j, x.shape[1]) for j in range(-2, x.shape[1] + 3)]
        return np.array([[x[i, j] for j in columns] for i in rows], x.dtype)

    return expected


def _filled(x: Array, value: float) -> Array:
    made = np.full((6, 9), value, x.dtype)
    made[1:4, 2:6] = x
    return made


CASES: tuple[OpCase, ...] = (
    *(
        c
        for case in (
            OpCase("Pad", (_X,), lambda x: _filled(x, 0), {"scheme": 0, "pad_amount": _PADS}),
            OpCase(
                "StridedSlice", (_X,), lambda x: x[1:3, ::2], {"ranges": [[1, 3, 1], [0, 4, 2]]}
            ),
        )
        for c in (case, *typed(case, *NARROW, steps=0))
    ),
    OpCase(
        "Pad",
        (_X,),
        lambda x: _filled(x, -1.5),
        {"scheme": 0, "pad_amount": _PADS, "pad_constant_value": -1.5},
        name="constant",
    ),
    OpCase("Pad", (_X,), lambda x: x, {"scheme": 0, "pad_amount": [[0, 0], [0, 0]]}, name="none"),
    OpCase(
        "Pad",
        (_X,),
        _padded(lambda i, n: _mirrored(i, n, 1)),
        {"scheme": 1, "pad_amount": _PADS},
        name="symmetric",
    ),
    OpCase(
        "Pad",
        (_X,),
        _padded(lambda i, n: _mirrored(i, n, 0)),
        {"scheme": 2, "pad_amount": _PADS},
        name="reflect",
    ),
    OpCase("Pad", (_X,), _padded(_clamped), {"scheme": 3, "pad_amount": _PADS}, name="edge"),
    OpCase(
        "Pad",
        (whole(2, 2),),
        lambda x: np.array([[0, *x[0]], [0, *x[1]]], x.dtype),
        {"scheme": 0, "pad_amount": [[0, 0], [1, 0]]},
        name="int32",
    ),
    OpCase(
        "StridedSlice",
        (_ROW,),
        np.array([4, 2, 0], np.float32),
        {"ranges": [[4, -1, -2]]},
        name="backwards",
    ),
    OpCase(
        "StridedSlice",
        (_ROW,),
        np.array([0, 2, 4], np.float32),
        {"ranges": [[3, 4, 2]], "begin_mask": 1, "end_mask": 1},
        name="masks",
    ),
    OpCase(
        "StridedSlice",
        (_X,),
        lambda x: x[2],
        {"ranges": [[2, 3, 1], [0, 4, 1]], "shrink_axes": 1},
        name="shrunk",
    ),
    OpCase(
        "StridedSlice",
        (_ROW,),
        lambda x: x[3],
        {"ranges": [[3, 4, 1]], "shrink_axes": 1},
        name="one element",
    ),
    OpCase(
        "StridedSlice",
        (_X,),
        lambda x: x[0:2, None, 1:4],
        {"ranges": [[0, 2, 1], [0, 1, 1], [1, 4, 1]], "new_axes_mask": 2},
        name="new axis",
    ),
    OpCase("StridedSlice", (_ROW,), _ROW[:0], {"ranges": [[2, 2, 1]]}, name="nothing"),
    *typed(
        OpCase("StridedSlice", (_X,), lambda x: x[::-1], {"ranges": [[2, -1, -1], [0, 4, 1]]}),
        DType.BFLOAT_16,
        steps=0,
    ),
)
