"""Cases of recurrent layers and of ops with state or random numbers."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array, DType, Spec
from dovetail.testing import Call, OpCase
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
    """Run (time, batch, k) through six weights and three biases: f, c and o; i is 1 - f."""
    x, wf, wc, wo, rf, rc, ro, bf, bc, bo = (a.astype(np.float64) for a in given)
    h, c = (np.zeros((x.shape[1], _UNITS)) for _ in range(2))
    made = np.zeros((*x.shape[:2], _UNITS))
    steps = range(len(x))
    for t in reversed(steps) if reverse else steps:
        forget = _sigmoid(x[t] @ wf.T + h @ rf.T + bf)
        c = forget * c + (1 - forget) * np.tanh(x[t] @ wc.T + h @ rc.T + bc)
        made[t] = h = _sigmoid(x[t] @ wo.T + h @ ro.T + bo) * np.tanh(c)
    return made, c, h


def _first(count: int) -> tuple[Array, Array, Array]:
    """Return the results of the first `count` steps of the sequence through an Lstm."""
    return _lstm(_SEQUENCE[:count], *_WEIGHTS, *_BIASES)


def _normal(sums: Array, norm: Array) -> Array:
    """Return the sums of a gate at mean 0 and variance 1 over the units, times the norm."""
    centered = sums - sums.mean(-1, keepdims=True)
    return np.asarray(centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-8) * norm)


def _whole_lstm(*given: Array) -> tuple[Array, ...]:
    """Run an Lstm with states, norms, input gate, peepholes, projection and clips."""
    x, *w = (a.astype(np.float64) for a in given)
    inputs = dict(enumerate(w, 1))
    h, c = inputs[10], inputs[11]
    made = np.zeros((*x.shape[:2], h.shape[-1]))

    def sums(t: int, gate: int, recurrent: int, norm: int, bias: int, seen: Array) -> Array:
        total = x[t] @ inputs[gate].T + h @ inputs[recurrent].T + seen
        return _normal(total, inputs[norm]) + inputs[bias]

    for t in range(len(x)):
        i = _sigmoid(sums(t, 16, 17, 12, 21, inputs[18] * c))
        f = _sigmoid(sums(t, 1, 4, 13, 7, inputs[19] * c))
        g = np.tanh(sums(t, 2, 5, 14, 8, 0 * c))
        c = np.clip(f * c + i * g, -0.4, 0.4)
        o = _sigmoid(sums(t, 3, 6, 15, 9, inputs[20] * c))
        made[t] = h = np.clip((o * np.tanh(c)) @ inputs[22].T + inputs[23], -0.3, 0.3)
    return made, c, h, i, f, g, o, h


def _whole_inputs() -> tuple[Array, ...]:
    """Return inputs 1 to 24 of an Lstm of four units, two outputs and input size three."""
    of_x, of_h, each = (_UNITS, 3), (_UNITS, 2), (_UNITS,)
    shapes = [of_x] * 3 + [of_h] * 3 + [each] * 3 + [(2, 2), (2, _UNITS)] + [each] * 4
    shapes += [of_x, of_h] + [each] * 4 + [(2, _UNITS), (2,)]
    values = (real(*shape, low=-1, high=1, seed=30 + i) for i, shape in enumerate(shapes))
    return (*values, np.array(True))


def _gru(*given: Array, late: bool = False, reverse: bool = False) -> tuple[Array, Array]:
    """Run (time, batch, k) through six weights and, if given, six biases and an initial state."""
    x, wz, wr, wn, rz, rr, rn, *rest = (a.astype(np.float64) for a in given)
    bz, br, bn, cz, cr, cn = rest[:6] or [np.zeros(_UNITS)] * 6
    h = rest[6][0] if len(rest) > 6 else np.zeros((x.shape[1], _UNITS))
    made = np.zeros((*x.shape[:2], _UNITS))
    steps = range(len(x))
    for t in reversed(steps) if reverse else steps:
        update = _sigmoid(x[t] @ wz.T + bz + h @ rz.T + cz)
        reset = _sigmoid(x[t] @ wr.T + br + h @ rr.T + cr)
        seen = reset * (h @ rn.T + cn) if late else (reset * h) @ rn.T + cn
        made[t] = h = (1 - update) * np.tanh(x[t] @ wn.T + bn + seen) + update * h
    return made, h[None]


_SEQUENCE, _STATE = real(5, 2, 3), real(1, 2, _UNITS, seed=11)
_RESET = (None,) * 14  # what an Lstm leaves out before its last input
_FRAMES = tuple(real(1, 2, 3, seed=i) for i in range(4))
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
    OpCase(
        "Lstm",
        (_SEQUENCE, *_whole_inputs()),
        _whole_lstm,
        {"cell_clip_threshold": 0.4, "output_clip_threshold": 0.3},
        name="all parts",
        atol=1e-4,  # each gate is scaled to variance 1 before it is summed up
    ),
    OpCase(
        "Gru",
        (_SEQUENCE, *_WEIGHTS, *_BIASES, *(-b for b in _BIASES[::-1]), _STATE, np.array(True)),
        lambda *given: _gru(*given[:-1], reverse=True),
        {"direction": 1},
        name="biases, state, reverse",
        atol=_LOOSE,
    ),
    OpCase(
        "Gru",
        (_SEQUENCE, *_WEIGHTS),
        lambda x, *rest: (
            (result := _gru(x.swapaxes(0, 1), *rest))[0].swapaxes(0, 1),
            result[1],
        ),
        {"time_major": False},
        name="batch major",
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
        "Lstm",
        (_SEQUENCE[:2], *_WEIGHTS, *_BIASES, *_RESET, np.array(True)),
        _first(2),
        name="in two calls",
        atol=_LOOSE,
        later_calls=(
            Call(
                (_SEQUENCE[2:4], *_WEIGHTS, *_BIASES, *_RESET, np.array(False)),
                (_first(4)[0][2:], *_first(4)[1:]),
            ),
        ),
    ),
    OpCase(
        "Buffer",
        (_FRAMES[0], np.array(False)),
        np.concatenate([_FRAMES[0], 0 * _FRAMES[0]], 1),
        {"buffer_size": 4, "buffer_dim": 1, "stride": 2},
        name="call by call",
        later_calls=(
            Call((_FRAMES[1], np.array(False)), np.concatenate(_FRAMES[:2], 1)),
            Call((_FRAMES[2], np.array(False)), np.concatenate(_FRAMES[1:3], 1)),
            Call((_FRAMES[3], np.array(True)), np.concatenate([_FRAMES[3], 0 * _FRAMES[3]], 1)),
        ),
    ),
    OpCase(
        "Buffer",
        (real(2, 2, 3), np.array(True)),
        lambda x, _: np.concatenate([0 * x, x, 0 * x], 1),
        {"buffer_size": 6, "buffer_dim": 1, "stride": 2, "buffer_padding": 2},
        name="reset, frames after padding",
    ),
    OpCase(
        "RandomUniformLike",
        (_SHAPE,),
        np.full((50, 40), 0.5, np.float32),
        name="from 0 to 1",
        static=(0,),
        outputs=_DRAWN,
        rtol=0.0,
        atol=0.5,
    ),
    OpCase(
        "RandomUniformLike",
        (_SHAPE,),
        lambda _: np.full((50, 40), 2.0, np.float32),
        {"low": 1.5, "high": 2.5},
        static=(0,),
        outputs=_DRAWN,
        rtol=0.0,
        atol=0.5,  # all samples are between the bounds
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
