"""Exponential functions and logarithms of additions, multiplications and divisions alone.

The functions of a C library, and NumPy's, differ between processors in the last bits. These are
accurate to a few times 2**-53, relative to the result, and have the same bits everywhere.
"""

from __future__ import annotations

import math

import numpy as np

from dovetail.ir import Array

# ln 2 in two parts; the first has so few bits that its product with an exponent is exact.
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_TAYLOR = [1.0 / math.factorial(n) for n in range(14)]
_ATANH = [2.0 / (2 * n + 1) for n in range(12)]
_ROOT_HALF = 0.7071067811865476  # of 2**-0.5, where the mantissa's range is cut


def exp(x: Array) -> Array:
    """Return e**x, float64, any shape; 0 below -745, infinity above 709.7."""
    x = np.clip(np.asarray(x, np.float64), -800.0, 800.0)
    power = np.rint(x / (_LN2_HIGH + _LN2_LOW))
    rest = (x - power * _LN2_HIGH) - power * _LN2_LOW
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.ldexp(_polynomial(_TAYLOR, rest), power.astype(np.int32)))


def log(x: Array) -> Array:
    """Return the natural logarithm of positive finite numbers, float64, any shape."""
    mantissa, power = np.frexp(np.asarray(x, np.float64))
    is_low = mantissa < _ROOT_HALF
    mantissa, power = np.where(is_low, mantissa * 2, mantissa), power - is_low
    t = (mantissa - 1.0) / (mantissa + 1.0)  # ln m = 2 atanh t
    return np.asarray(power * _LN2_HIGH + (power * _LN2_LOW + t * _polynomial(_ATANH, t * t)))


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + e**-x), float64, any shape."""
    return np.asarray(1.0 / (1.0 + exp(-np.asarray(x, np.float64))))


def tanh(x: Array) -> Array:
    """Return the hyperbolic tangent, float64, any shape, with an absolute error of a few 2**-53."""
    return np.asarray(1.0 - 2.0 / (exp(2.0 * np.asarray(x, np.float64)) + 1.0))


def _polynomial(factors: list[float], x: Array) -> Array:
    result = np.full_like(x, factors[-1])
    for factor in factors[-2::-1]:
        result = result * x + factor
    return result
