"""Elementwise functions of real numbers as lines of OpenCL C.

A line computes the variable `v`, a float or a vector of eight (its type is `V`), of expressions for
the inputs of an op, {0} to {2}, and of numbers of the op. NaN stays NaN, as in the references. Its
own variables end in an underscore: `v` has the name that the kernel gives it.
"""

from __future__ import annotations

import math
from typing import Any

from dovetail.ops import NodeView

# ln(erfc(z) exp(z^2) / t) by t = 1 / (1 + z / 2), for z in [0, 9.5]: the lowest power first.
# Fitted to `math.erfc`; the relative error of erfc is 6e-7.
_ERFC = (
    -1.2655423879623413,
    0.9996045827865601,
    0.3876227140426636,
    -0.01909775473177433,
    0.311857134103775,
    -0.9608414769172668,
    0.7288984656333923,
    -0.1825018674135208,
)


def number(value: float) -> str:
    """Return a number in OpenCL C, exactly."""
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    return f"({float(value).hex()}f)"


def _polynomial(variable: str, coefficients: tuple[float, ...]) -> str:
    *rest, text = map(number, coefficients)
    for coefficient in reversed(rest):
        text = f"({text} * {variable} + {coefficient})"
    return text


def _clipped(x: str, low: str, high: str) -> str:
    return f"v = {x}; v = v < (V)({low}) ? (V)({low}) : v; v = v > (V)({high}) ? (V)({high}) : v;"


# x times the share of a normal distribution below x, which is an erfc of |x| / sqrt 2
_GELU = (
    "{{ const V z_ = fabs({0}) * 0.70710678f; const V t_ = 1.0f / (1.0f + 0.5f * z_);"
    f"const V tail_ = 0.5f * t_ * exp({_polynomial('t_', _ERFC)} - z_ * z_);"
    "const V share_ = {0} < (V)(0.0f) ? tail_ : 1.0f - tail_;"
    "v = share_ == (V)(0.0f) ? (V)(0.0f) : {0} * share_; }}"
)
_SOFTPLUS = (
    "{{ const V s_ = {beta} * {0};"
    "const V sum_ = (fmax(s_, (V)(0.0f)) + log1p(exp(-fabs(s_)))) / {beta};"
    "v = s_ > (V)({threshold}) ? {0} : sum_; }}"
)
UNARY: dict[str, str] = {
    "ElementWiseAbs": "v = fabs({0});",
    "ElementWiseAsin": "v = asin({0});",
    "ElementWiseAtan": "v = atan({0});",
    "ElementWiseCeil": "v = ceil({0});",
    "ElementWiseCos": "v = cos({0});",
    "ElementWiseExp": "v = exp({0});",
    "ElementWiseFloor": "v = floor({0});",
    "ElementWiseLog": "v = log({0});",
    "ElementWiseNeg": "v = -{0};",
    "ElementWiseNot": "v = {0} == (V)(0.0f) ? (V)(1.0f) : (V)(0.0f);",
    "ElementWiseRound": "v = rint({0});",
    "ElementWiseRsqrt": "v = 1.0f / sqrt({0});",
    "ElementWiseSign": "v = {0} == {0} ? sign({0}) : {0};",
    "ElementWiseSin": "v = sin({0});",
    "ElementWiseSquareRoot": "v = sqrt({0});",
    "Reciprocal": "v = 1.0f / {0};",
    "Logit": "v = log({0} / (1.0f - {0}));",
    "Relu": "v = {0} < (V)(0.0f) ? (V)(0.0f) : {0};",
    "Relu1": _clipped("{0}", "-1.0f", "1.0f"),
    "Relu6": _clipped("{0}", "0.0f", "6.0f"),
    "ReluMinMax": _clipped("{0}", "{min_value}", "{max_value}"),
    "Sigmoid": "v = 1.0f / (1.0f + exp(-{0}));",
    "Tanh": "v = VECTOR(tanh_, V)({0});",
    "Gelu": _GELU,
    "HardSwish": "v = {0} * (clamp({0} + 3.0f, (V)(0.0f), (V)(6.0f)) / 6.0f);",
    "HardSigmoid": _clipped("{alpha} * {0} + {beta}", "0.0f", "1.0f"),
    "Elu": "v = {0} > (V)(0.0f) ? {0} : {alpha} * expm1({0});",
    "ElementWiseSoftplus": _SOFTPLUS,
}
BINARY: dict[str, str] = {
    "ElementWiseAdd": "v = {0} + {1};",
    "ElementWiseDivide": "v = {0} / {1};",
    "ElementWiseFloorDiv": "v = floor(QUOTIENT({0}, {1}));",
    "ElementWiseFmod": "v = fmod({0}, {1});",
    "ElementWiseMaximum": "v = (({0} > {1}) | ({0} != {0})) ? {0} : {1};",
    "ElementWiseMinimum": "v = (({0} < {1}) | ({0} != {0})) ? {0} : {1};",
    "ElementWiseMultiply": "v = {0} * {1};",
    "ElementWisePower": "v = {1} == (V)(2.0f) ? {0} * {0} : pow({0}, {1});",
    "ElementWiseSquaredDifference": "v = {0} - {1}; v = v * v;",
    "ElementWiseSubtract": "v = {0} - {1};",
    "Prelu": "v = {0} >= (V)(0.0f) ? {0} : {1} * {0};",
}
# x, the scale and the offset of a grid of whole numbers from {low} to {high}: the nearest number of
# the grid, as `dovetail.ir.quantize` defines it
ON_GRID = (
    "{{ const V z_ = rint(-{2}); V q_ = rint(QUOTIENT({0}, {1}) - {2} - z_) + z_;"
    "q_ = q_ == q_ ? q_ : z_; q_ = clamp(q_, (V)({low}), (V)({high}));"
    "v = {1} == (V)(0.0f) ? (V)(0.0f) : (q_ + {2}) * {1}; }}"
)
SCALED = "v = {0} * {1};"
SCALED_AND_SHIFTED = "v = {0} * {1} + {2};"


def single_op(view: NodeView) -> Any:
    """Return the op of a node; for those that select a function by number, the op of that."""
    return getattr(view.op, "single", view.op)


def name_of(view: NodeView) -> str:
    """Return the name of the function that a node computes: that of its class."""
    return type(single_op(view)).__name__


def numbers_of(view: NodeView) -> dict[str, str]:
    """Return the params of a node that lines contain."""
    op = single_op(view)
    found = {name: getattr(op, name, None) for name in ("alpha", "beta", "min_value", "max_value")}
    threshold = getattr(op, "threshold", -1.0)
    found["threshold"] = threshold if threshold >= 0 else math.inf
    return {name: number(value) for name, value in found.items() if value is not None}


def division_lines(*, is_exact: bool) -> str:
    """Return the definition of QUOTIENT, a correctly rounded division.

    Args:
        is_exact: Whether the device's division is correctly rounded.
    """
    if is_exact:
        return "#define QUOTIENT(a, b) ((a) / (b))\n"
    rest = "fma(-((a) / (b)), (b), (a)) / (b)"  # of infinity times zero, if b is infinite
    is_usual = "(isfinite((a) / (b)) && isfinite(b))"
    return f"#define QUOTIENT(a, b) ({is_usual} ? (a) / (b) + {rest} : (a) / (b))\n"
