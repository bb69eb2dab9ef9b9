"""Cases of the activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dovetail.ir import Array, DType
from dovetail.testing import OpCase, typed
from dovetail_opset.testing._data import real, widely

_X = real(2, 3, 5, 7, low=-5, high=5)
_EMPTY = np.zeros((2, 0, 3), np.float32)
# Beyond these, an exponential overflows float32 where it is not kept from it.
_EXTREME = np.array([-1e4, -100, -88, -1e-20, 0, 1e-20, 88, 100, 1e4], np.float32)
_SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0], np.float32)


def _clip(low: float, high: float) -> Callable[[Array], Array]:
    def clipped(x: Array) -> Array:
        return np.where(x < low, np.float32(low), np.where(x > high, np.float32(high), x))

    return clipped


def _relu(x: Array) -> Array:
    return np.where(x < 0, np.float32(0), x)


def _sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x.astype(np.float64)))
    return result


def _gelu(x: Array) -> Array:
    half = np.vectorize(lambda v: v / 2 * math.erfc(-v / math.sqrt(2)), otypes="d")
    return np.asarray(half(x))


def _elu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * (np.exp(np.minimum(x, 0).astype(np.float64)) - 1))


def _hard_swish(x: Array) -> Array:
    return np.where(x <= -3, 0, np.where(x >= 3, x, x * (x.astype(np.float64) + 3) / 6))


def _softplus(x: Array, beta: float = 1.0) -> Array:
    def one(v: float) -> float:
        return (max(beta * v, 0) + math.log1p(math.exp(-abs(beta * v)))) / beta

    return np.asarray(np.vectorize(one, otypes="d")(x))


def _prelu(x: Array, slope: Array) -> Array:
    return np.where(x >= 0, x, x * slope)


_FUNCTIONS: dict[str, Callable[[Array], Any]] = {
    "Relu": _relu,
    "Relu1": _clip(-1, 1),
    "Relu6": _clip(0, 6),
    "Sigmoid": _sigmoid,
    "Tanh": lambda x: np.tanh(x.astype(np.float64)),
    "Gelu": _gelu,
    "HardSwish": _hard_swish,
    "Elu": _elu,
    "ElementWiseSoftplus": _softplus,
}
_NEURONS: dict[str, tuple[int, Callable[[Array], Any], dict[str, float]]] = {
    "ELU": (0, _elu, {}),
    "ELU alpha": (0, lambda x: _elu(x, 0.3), {"alpha": 0.3}),
    "GELU": (1, _gelu, {}),
    "HARD_SIGMOID": (2, lambda x: np.clip(0.2 * x + 0.5, 0, 1), {}),
    "HARD_SIGMOID slope": (
        2,
        lambda x: np.clip(0.25 * x + 0.125, 0, 1),
        {"alpha": 0.25, "beta": 0.125},
    ),
    "HARD_SWISH": (3, _hard_swish, {}),
    "RELU": (4, _relu, {}),
    "RELU_MIN_MAX": (5, _clip(-1.5, 2.5), {"min_value": -1.5, "max_value": 2.5}),
    "SIGMOID": (6, _sigmoid, {}),
    "SOFTPLUS": (7, _softplus, {}),
    "SOFTPLUS beta": (7, lambda x: _softplus(x, 2.0), {"beta": 2.0}),
    "SOFTPLUS threshold": (
        7,
        lambda x: np.where(0.5 * x > 1, x, _softplus(x, 0.5)),
        {"beta": 0.5, "threshold": 1.0},
    ),
    "TANH": (8, lambda x: np.tanh(x.astype(np.float64)), {}),
}

CASES: tuple[OpCase, ...] = (
    *(c for op, f in _FUNCTIONS.items() for c in widely(OpCase(op, (_X,), f))),
    *typed(OpCase("Relu", (_X,), _relu), DType.BFLOAT_16),
    *(OpCase(op, (real(seed=4),), f, name="rank 0") for op, f in _FUNCTIONS.items()),
    *(OpCase(op, (_EMPTY,), lambda x: x, name="empty") for op in _FUNCTIONS),
    *(
        OpCase(op, (_EXTREME,), _FUNCTIONS[op], name="extreme values")
        for op in ("Sigmoid", "Tanh", "Gelu", "HardSwish", "Elu")
    ),
    OpCase("Relu", (_SPECIAL,), _relu, name="not finite"),
    OpCase("Relu", (np.array([-7, 0, 7], np.int32),), np.array([0, 0, 7], np.int32), name="int32"),
    *widely(OpCase("ReluMinMax", (_X,), _clip(-0.5, 4), {"min_value": -0.5, "max_value": 4.0})),
    OpCase("Elu", (_X,), lambda x: _elu(x, 2.5), {"alpha": 2.5}, name="alpha"),
    OpCase(
        "ElementWiseSoftplus",
        (_X,),
        lambda x: np.where(0.5 * x > 1, x, _softplus(x, 0.5)),
        {"beta": 0.5, "threshold": 1.0},
        name="threshold",
    ),
    *widely(OpCase("Prelu", (_X, real(7, low=0, high=1)), _prelu, static=(1,))),
    OpCase("Prelu", (_X, real(1, 1, 1, 1)), _prelu, name="one slope"),
    OpCase("Prelu", (_X, real(3, 1, 7)), _prelu, name="slope of lower rank"),
    *(
        OpCase("ElementWiseNeuron", (_X,), f, {"operation": n, **params}, name=name)
        for name, (n, f, params) in _NEURONS.items()
    ),
)
