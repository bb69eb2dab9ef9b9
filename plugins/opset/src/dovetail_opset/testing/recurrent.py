"""Cases of recurrent layers and of ops that remember or draw."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array, DType, Spec
from dovetail.testing import OpCase
from dovetail_opset.testing._data import real

_UNITS = 4
_WEIGHTS = tuple(real(_UNITS, 3, seed=i) for i in (2, 3, 4)) + tuple(
    real(_UNITS, _UNITS, low=-1, high=1, seed=i) for i in (5, 6, 7)
)
_BIASES = tuple(real(_UNITS, seed=i) for i in (8, 9, 10))
# A handful of steps in float32, each of sums of a dozen products.
_LOOSE = 1e-5


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _lstm(*given: Array, reverse: bool = False) -> tuple[Array, Array, Array]:
    """(time, batch, k) through the six weights and three biases; f, c and o, and i is 1 - f."""
    x, wf, wc, wo, rf, rc, ro, bf, bc, bo = (a.astype(np.float64) for a in given)
    h, c = (np.zeros((x.shape[1], _UNITS)) for _ in range(2))
    made = np.zeros((*x.shape[:2], _UNITS))
    steps = range(len(x))
    for t in reversed(steps) if reverse else steps:
        forget = _sigmoid(x[t] @ wf.T + h @ rf.T + bf)
        c = forget * c + (1 - forget) * np.tanh(x[t] @ wc.T + h @ rc.T + bc)
        made[t] = h = _sigmoid(x[t] @ wo.T + h @ ro.T + bo) * np.tanh(c)
    return made, c, h


def _gru(*given: Array, late: bool = False) -> tuple[Array, Array]:
    """(time, batch, k) through the six weights, without biases."""
    x, wz, wr, wn, rz, rr, rn = (a.astype(np.float64) for a in given)
    h = np.zeros((x.shape[1], _UNITS))
    made = np.zeros((*x.shape[:2], _UNITS))
    for t in range(len(x)):
        update, reset = _sigmoid(x[t] @ wz.T + h @ rz.T), _sigmoid(x[t] @ wr.T + h @ rr.T)
        seen = reset * (h @ rn.T) if late else (reset * h) @ rn.T
        made[t] = h = (1 - update) * np.tanh(x[t] @ wn.T + seen) + update * h
    return made, h[None]


_SEQUENCE = real(5, 2, 3)
_SHAPE = np.array([50, 40], np.uint32)
_DRAWN = (Spec(DType.FLOAT_32, (50, 40)),)

CASES: tuple[OpCase, ...] = (
    OpCase("Lstm", (_SEQUENCE, *_WEIGHTS, *_BIASES), _lstm, {"time_major": True}, atol=_LOOSE),
    OpCase(
        "Lstm",
        (_SEQUENCE, *_WEIGHTS, *_BIASES),
        lambda *given: _lstm(*given, reverse=True),
        {"time_major": True, "direction": 1},
        name="reverse",
        atol=_LOOSE,
    ),
    OpCase(
        "Lstm",
        (_SEQUENCE, *_WEIGHTS, *_BIASES),
        lambda x, *rest: (
            (result := _lstm(x.swapaxes(0, 1), *rest))[0].swapaxes(0, 1),
            *result[1:],
        ),
        {"time_major": False},
        name="batch major",
        atol=_LOOSE,
    ),
    OpCase(
        "Lstm",
        (_SEQUENCE[0], *_WEIGHTS, *_BIASES),
        lambda x, *rest: ((result := _lstm(x[None], *rest))[0][0], *result[1:]),
        name="one step",
        atol=_LOOSE,
    ),
    OpCase("Gru", (_SEQUENCE, *_WEIGHTS), _gru, {"time_major": True}, atol=_LOOSE),
    OpCase(
        "Gru",
        (_SEQUENCE, *_WEIGHTS),
        lambda *given: _gru(*given, late=True),
        {"time_major": True, "linear_before_reset": 1},
        name="linear before reset",
        atol=_LOOSE,
    ),
    OpCase(
        "Buffer",
        (real(2, 2, 3),),
        lambda x: np.concatenate([x, 0 * x, 0 * x], 1),
        {"buffer_size": 6, "buffer_dim": 1, "stride": 2, "mode": 1},
        name="first call, frames first",
    ),
    OpCase(
        "Buffer",
        (real(2, 2, 3),),
        lambda x: np.concatenate([0 * x, 0 * x, x], 1),
        {"buffer_size": 6, "buffer_dim": 1, "stride": 2, "mode": 2},
        name="first call, frames last",
    ),
    OpCase(
        "RandomUniformLike",
        (_SHAPE,),
        lambda _: np.full((50, 40), 2.0, np.float32),
        {"low": 1.5, "high": 2.5},
        static=(0,),
        outputs=_DRAWN,
        rtol=0.0,
        atol=0.5,  # all that is drawn lies between the bounds
    ),
    OpCase(
        "RandomNormalLike",
        (_SHAPE,),
        lambda _: np.full((50, 40), 100.0, np.float32),
        {"mean": 100.0, "scale": 2.0},
        static=(0,),
        outputs=_DRAWN,
        rtol=0.0,
        atol=16.0,  # eight deviations: less than once in 10^11 runs of 2000 draws
    ),
)
