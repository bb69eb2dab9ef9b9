"""Cases of the softmax family."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array
from dovetail.testing import OpCase
from dovetail_opset.testing._data import real, widely

_X = real(2, 3, 5, 7, low=-5, high=5)
_FAR = np.array([[-1e30, 0, 1e30], [88, 89, 90], [-1e4, -1e4, -1e4]], np.float32)


def _softmax(x: Array, axis: int = -1, beta: float = 1.0) -> Array:
    scaled = beta * x.astype(np.float64)
    powers = np.exp(scaled - np.max(scaled, axis, keepdims=True, initial=-1e300))
    shares: Array = powers / np.sum(powers, axis, keepdims=True)
    return shares


def _blocks(x: Array, lengths: Array) -> Array:
    """Return a softmax of each row over the elements of its sequence."""
    result = np.zeros(x.shape)
    for b, row in enumerate(lengths):
        ends = np.cumsum(row)
        for start, end in zip(ends - row, ends, strict=True):
            if end > start:
                result[b, :, start:end, start:end] = _softmax(x[b, :, start:end, start:end])
    return result


CASES: tuple[OpCase, ...] = (
    *widely(OpCase("Softmax", (_X,), _softmax)),
    OpCase("Softmax", (_X,), lambda x: _softmax(x, 1), {"axis": 1}, name="inner axis"),
    OpCase("Softmax", (_X,), lambda x: _softmax(x, beta=0.3), {"beta": 0.3}, name="beta"),
    OpCase("Softmax", (_FAR,), _softmax, name="far apart"),
    OpCase("Softmax", (np.zeros((3, 0), np.float32),), lambda x: x, name="empty"),
    OpCase("Softmax", (real(1),), np.ones(1, np.float32), name="one element"),
    *widely(OpCase("LogSoftmax", (_X,), lambda x: np.log(_softmax(x)), {"axis": 3})),
    OpCase(
        "LogSoftmax",
        (_X,),
        lambda x: np.log(_softmax(x, 1, 0.3)),
        {"axis": 1, "beta": 0.3},
        name="beta",
    ),
    OpCase("LogSoftmax", (_X,), lambda x: np.log(_softmax(x, 0)), {"axis": 0}, name="axis 0"),
    OpCase(
        "LogSoftmax",
        (_FAR[1:],),
        lambda x: (
            (d := x.astype(np.float64))
            - d.max(1, keepdims=True)
            - np.log(np.exp(d - d.max(1, keepdims=True)).sum(1, keepdims=True))
        ),
        {"axis": 1},
        name="far apart",
    ),
    OpCase(
        "MaskedSoftmax",
        (_X, np.where(real(2, 7, seed=2) > 0, 0, -10000).astype(np.float32)),
        lambda x, mask: _softmax(x + mask[:, None, None, :]),
        atol=1e-5,  # at -10000 float32's steps are 0.001, but these elements drop out
    ),
    OpCase(
        "MaskedSoftmax",
        (real(2, 3, 6, 6), np.array([[1, 3, 2], [2, 0, 2]], np.int32)),
        _blocks,
        {"mode": 1},
        name="compressed",
    ),
)
