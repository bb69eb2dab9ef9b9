"""Definitions with multipliers in fixed point, as LiteRT's reference kernels compute.

Each function takes the form of rounding first. An op, or types and scales, that LiteRT has no
integer kernel for have the definition of `dovetail_numpy.integer.DEFINITIONS`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np

from dovetail.ir import Array, AxisScaleOffset, DType, ScaleOffset, Spec
from dovetail.ops import NodeView
from dovetail_numpy.integer.definitions import DEFINITIONS, Definitions, Supports
from dovetail_numpy.integer.fixed.arithmetic import (
    INT32,
    Multiplier,
    Rounding,
    divided,
    high_product,
    rounded_quotient,
    truncated,
)
from dovetail_numpy.integer.fixed.functions import (
    FixedPoint,
    logistic_of_16_bits,
    tanh_of_16_bits,
)
from dovetail_numpy.integer.fixed.recurrent import is_lstm, lstm
from dovetail_numpy.integer.grid import is_tabular
from dovetail_numpy.integer.products import (
    PRODUCTS,
    channel_scales,
    has_form,
    operands,
)
from dovetail_numpy.integer.rescaling import grid_of, levels, real_bias, scales
from dovetail_numpy.integer.tables import function_name

_WIDE = FixedPoint(32)
_SUMS = {"ElementWiseAdd": 1, "ElementWiseSubtract": -1}
# Integer bits of the arguments of functions, and of the sums of softmax.
_FUNCTION_BITS, _SOFTMAX_BITS, _SUM_BITS = 4, 5, 12


class Requantization(enum.Enum):
    """Arithmetic of the step from an exact sum to the grid of a result.

    FLOAT multiplies in float32. FIXED multiplies with 31 bits and a shift and rounds twice, as
    gemmlowp and LiteRT do by default; FIXED_SINGLE rounds once.
    """

    FLOAT = "float"
    FIXED = "fixed"
    FIXED_SINGLE = "fixed-single"


@cache
def definitions(requantization: Requantization) -> Definitions:
    """Return the definitions of all ops for a kind of requantization."""
    match requantization:
        case Requantization.FLOAT:
            return DEFINITIONS
        case Requantization.FIXED:
            return _fixed(Rounding.DOUBLE)
        case Requantization.FIXED_SINGLE:
            return _fixed(Rounding.SINGLE)


Compute = Callable[[Rounding, NodeView, Sequence[Array | None]], Sequence[Array]]


def _fixed(rounding: Rounding) -> Definitions:
    found = Definitions(fallback=DEFINITIONS)
    rows: list[tuple[tuple[str, ...], Supports, Compute]] = [
        (PRODUCTS, _is_product, product),
        ((*_SUMS, "ElementWiseBinary"), _is_sum, add),
        (("ElementWiseMultiply", "ElementWiseBinary"), _is_multiplication, multiply),
        (("Prelu",), _is_prelu, prelu),
        (("HardSwish", "ElementWiseNeuron"), _is_hard_swish, hard_swish),
        (("Sigmoid", "ElementWiseNeuron"), _is_sigmoid, sigmoid),
        (("Tanh", "ElementWiseNeuron"), _is_tanh, tanh),
        (("Softmax",), _is_softmax, softmax),
        (("ReduceMean",), _is_mean, mean),
        (("PoolAvg2d", "PoolAvg3d"), _is_average, average),
    ]
    by_op: dict[str, list[tuple[Supports, Compute]]] = {}
    for ops, supports, compute in rows:
        for op in ops:
            by_op.setdefault(op, []).append((supports, compute))
    for op, choices in by_op.items():
        found.defines(op, supports=partial(_any, choices))(partial(_first, choices, rounding))
    found.prepares("Lstm", supports=is_lstm)(partial(lstm, rounding))
    return found


def _any(choices: list[tuple[Supports, Compute]], view: NodeView) -> bool:
    return any(supports(view) for supports, _ in choices)


def _first(
    choices: list[tuple[Supports, Compute]],
    rounding: Rounding,
    view: NodeView,
    ins: Sequence[Array | None],
) -> Sequence[Array]:
    compute = next(compute for supports, compute in choices if supports(view))
    return compute(rounding, view, ins)


def product(rounding: Rounding, view: NodeView, ins: Sequence[Array | None]) -> Sequence[Array]:
    """Add products and a bias, multiply, add the zero point.

    Sums of 16-bit data have 64 bits and are rounded once in either form; only FullyConnected keeps
    all bits of the multiplier.
    """
    stored, filters, bias = (*ins, None)[:3]
    if stored is None or filters is None:
        raise AssertionError(f"{view.node.where} lacks an operand")
    (data, weights), (schema, op) = operands(view), view.definition
    exact = [levels(stored, data), levels(filters, weights), None]
    acc = np.asarray(schema.reference(op, exact, view.outs)[0]).astype(np.int64)
    products = scales(data) * channel_scales(view)
    if bias is not None:
        real = real_bias(bias, view.ins[2], products)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            steps = np.nan_to_num(np.rint(real / products))
        acc += np.clip(steps, *INT32).astype(np.int64)  # a bias has 32 bits
    multiplier = Multiplier.of(products / grid_of(view.outs[0])[0])
    if data.dtype.bits <= 8:
        found = multiplier.times(acc, rounding)
    elif view.op_type == "FullyConnected":
        found = multiplier.times(acc, Rounding.SINGLE)
    else:
        found = multiplier.times_wide(acc)
    return [_stored(found, view.outs[0])]


def add(rounding: Rounding, view: NodeView, ins: Sequence[Array | None]) -> Sequence[Array]:
    """Rescale both inputs to a common scale with more bits, add or subtract, and rescale."""
    steps, out = [grid_of(s)[0] for s in view.ins if s is not None], view.outs[0]
    left = 15 if out.dtype.bits > 8 else 20
    twice = 2 * max(steps)
    parts = [
        Multiplier.of(step / twice).times(_levels(view, ins, i) << left, rounding)
        for i, step in enumerate(steps)
    ]
    total = parts[0] + _SUMS[function_name(view)] * parts[1]
    back = Multiplier.of(twice / ((1 << left) * grid_of(out)[0]))
    return [_stored(back.times(total, rounding), out)]


def multiply(rounding: Rounding, view: NodeView, ins: Sequence[Array | None]) -> Sequence[Array]:
    """Multiply levels and rescale."""
    first, second = (grid_of(s)[0] for s in view.ins if s is not None)
    multiplier = Multiplier.of(first * second / grid_of(view.outs[0])[0])
    products = _levels(view, ins, 0) * _levels(view, ins, 1)
    return [_stored(multiplier.times(products, rounding), view.outs[0])]


def prelu(rounding: Rounding, view: NodeView, ins: Sequence[Array | None]) -> Sequence[Array]:
    """Rescale levels, those below 0 times the level of the slope."""
    x, slope = _levels(view, ins, 0), _levels(view, ins, 1)
    data, slopes = (grid_of(s)[0] for s in view.ins if s is not None)
    step = grid_of(view.outs[0])[0]
    above = Multiplier.of(data / step).times(x, rounding)
    below = Multiplier.of(data * slopes / step).times(x * slope, rounding)
    return [_stored(np.where(x >= 0, above, below), view.outs[0])]


def hard_swish(rounding: Rounding, view: NodeView, ins: Sequence[Array | None]) -> Sequence[Array]:
    """Multiply x and relu6(x + 3) / 6 in 16 bits; the multipliers have 15 bits."""
    step, out = _step(view), view.outs[0]
    fine = _levels(view, ins, 0) << 7
    scale = Multiplier.of(step / 128 / grid_of(out)[0])
    gate = Multiplier.of(step / 128 / (3 / 32768))
    shift = int(gate.shift)
    inner = np.clip(fine << max(shift - 1, 0), -32768, 32767)
    inner = high_product(inner, _narrow(gate), 16)
    if shift > 0:
        inner = np.clip(inner << 1, -32768, 32767)
    inner = divided(inner, max(-shift, 0))
    inner = (inner + 32768) >> 1
    outer = high_product(fine, _narrow(scale), 16)
    found = np.minimum(truncated(inner * outer, 15), 32767)
    found = divided(found, max(-int(scale.shift), 0)) << max(int(scale.shift), 0)
    return [_stored(found, out)]


def sigmoid(rounding: Rounding, view: NodeView, ins: Sequence[Array | None]) -> Sequence[Array]:
    """Return the logistic function: for 8 bits of 4 integer bits, for 16 bits by a table."""
    if view.outs[0].dtype.bits > 8:
        found = logistic_of_16_bits(_levels(view, ins, 0), _step(view))
        return [_stored(found, view.outs[0])]
    argument, beyond = _argument(rounding, view, ins)
    found = divided(_WIDE.logistic(argument, _FUNCTION_BITS), 23)
    return [_stored(np.where(beyond == 0, found, np.where(beyond > 0, 256, 0)), view.outs[0])]


def tanh(rounding: Rounding, view: NodeView, ins: Sequence[Array | None]) -> Sequence[Array]:
    """Return the hyperbolic tangent: for 8 bits of 4 integer bits, for 16 bits by a table."""
    if view.outs[0].dtype.bits > 8:
        found = tanh_of_16_bits(_levels(view, ins, 0), _step(view))
        return [_stored(found, view.outs[0])]
    argument, beyond = _argument(rounding, view, ins)
    found = divided(_WIDE.tanh(argument, _FUNCTION_BITS), 24)
    return [_stored(np.where(beyond == 0, found, 128 * beyond), view.outs[0])]


def softmax(rounding: Rounding, view: NodeView, ins: Sequence[Array | None]) -> Sequence[Array]:
    """Divide exponentials by their sum, which has 12 integer bits, through a reciprocal."""
    x, axis, out = _levels(view, ins, 0), view.op.axis, view.outs[0]
    difference = x - x.max(axis, keepdims=True)
    real = float(np.float32(view.op.beta)) * _step(view) * (1 << (31 - _SOFTMAX_BITS))
    multiplier = Multiplier.of(min(real, float((1 << 31) - 1)))
    is_near = difference >= -_radius(_SOFTMAX_BITS, int(multiplier.shift))
    scaled = np.where(is_near, difference, 0) << int(multiplier.shift)
    powers = _WIDE.exp(high_product(scaled, multiplier.factor), _SOFTMAX_BITS)
    total = np.where(is_near, divided(powers, _SUM_BITS), 0).sum(axis, keepdims=True)
    headroom = 32 - np.frexp(total.astype(np.float64))[1].astype(np.int64)
    reciprocal = _WIDE.reciprocal((total << headroom) - (1 << 31))
    shift = _SUM_BITS - headroom + 31 - out.dtype.bits
    found = divided(high_product(reciprocal, powers), shift)
    return [_stored(np.where(is_near, found, 0), out)]


def mean(rounding: Rounding, view: NodeView, ins: Sequence[Array | None]) -> Sequence[Array]:
    """Rescale a sum by a multiplier that contains its count."""
    x, out = _levels(view, ins, 0), view.outs[0]
    total = view.op.over_axes(np.sum, x)
    count = max(x.size // max(total.size, 1), 1)
    plain = Multiplier.of(_step(view) / grid_of(out)[0])
    shift = min(count.bit_length() - 1, 32, 31 + int(plain.shift))
    factor = np.asarray((int(plain.factor) << shift) // count, np.int64)
    multiplier = Multiplier(factor, np.asarray(int(plain.shift) - shift, np.int64))
    return [_stored(multiplier.times(total, rounding), out)]


def average(rounding: Rounding, view: NodeView, ins: Sequence[Array | None]) -> Sequence[Array]:
    """Divide the sum of stored integers by their count; padding is not counted."""
    stored = ins[0]
    if stored is None:
        raise AssertionError(f"{view.node.where} lacks its input")
    found = rounded_quotient(*_window_sums(view, stored))
    return [np.asarray(found, view.outs[0].dtype.storage)]


def _window_sums(view: NodeView, stored: Array) -> tuple[Array, Array]:
    """Return the sums of windows, and the numbers of their elements without padding."""
    window = view.op.window
    axes = tuple(range(-view.op.axes, 0))
    padded = (window.padded(a.astype(np.int64)) for a in (stored, np.ones_like(stored)))
    sums, counts = (window.views(a).sum(axes) for a in padded)
    return sums, np.maximum(counts, 1)


def _stored(found: Array, out: Spec) -> Array:
    _, zero, limits = grid_of(out)
    return np.asarray(np.clip(found + zero, *limits), out.dtype.storage)


def _levels(view: NodeView, ins: Sequence[Array | None], port: int) -> Array:
    stored, spec = ins[port], view.ins[port]
    if stored is None or spec is None or not isinstance(spec.encoding, ScaleOffset):
        raise AssertionError(f"{view.node.where} lacks an operand with one scale")
    return stored.astype(np.int64) + spec.encoding.offset


def _step(view: NodeView) -> float:
    return grid_of(view.spec(0))[0]


def _narrow(multiplier: Multiplier) -> int:
    """Return the factor of a multiplier with 15 bits."""
    factor = int(multiplier.factor)
    return 32767 if factor >= (1 << 31) - (1 << 15) else (factor + (1 << 15)) >> 16


def _radius(integer_bits: int, shift: int) -> int:
    """Return the level from which an argument does not fit its integer bits."""
    largest = ((1 << integer_bits) - 1) * (1 << (31 - integer_bits))
    return math.floor(largest / 2.0**shift)


def _argument(
    rounding: Rounding, view: NodeView, ins: Sequence[Array | None]
) -> tuple[Array, Array]:
    """Return the argument of a function, and 1 or -1 where it is too far from 0, else 0."""
    x = _levels(view, ins, 0)
    multiplier = Multiplier.of(_step(view) * 2.0 ** (31 - _FUNCTION_BITS))
    radius = _radius(_FUNCTION_BITS, int(multiplier.shift))
    beyond = np.where(x <= -radius, -1, np.where(x >= radius, 1, 0))
    return multiplier.times(np.where(beyond == 0, x, 0), rounding), beyond


def _has_grids(view: NodeView) -> bool:
    """Return whether all tensors have one scale above 0, and 8 or 16 bits."""
    specs = [s for s in (*view.ins, *view.outs) if s is not None]
    return all(is_tabular(s) and grid_of(s)[0] > 0 for s in specs)


def _is_product(view: NodeView) -> bool:
    if not has_form(view):
        return False
    data, weights = operands(view)
    if not isinstance(weights.encoding, ScaleOffset | AxisScaleOffset):
        return False
    # LiteRT has 16-bit factors in products of two activations only
    is_narrow = weights.dtype.bits <= 8 or view.op_type == "MatMul"
    return is_narrow and bool((channel_scales(view) > 0).all() and scales(data) > 0)


def _is_sum(view: NodeView) -> bool:
    return function_name(view) in _SUMS and _has_grids(view)


def _is_multiplication(view: NodeView) -> bool:
    return function_name(view) == "ElementWiseMultiply" and _has_grids(view) and _products_fit(view)


def _is_prelu(view: NodeView) -> bool:
    return _has_grids(view) and _products_fit(view)


def _is_mean(view: NodeView) -> bool:
    data = view.ins[0]
    if data is None or not _has_grids(view):
        return False
    count = math.prod(data.shape) // max(math.prod(view.outs[0].shape), 1)
    return count * _largest(data) <= INT32[1]


def _products_fit(view: NodeView) -> bool:
    """Return whether products of levels fit 32 bits, as all those of LiteRT's types do."""
    return math.prod(_largest(s) for s in view.ins if s is not None) <= INT32[1]


def _largest(spec: Spec) -> int:
    """Return the magnitude of the largest level."""
    _, zero, limits = grid_of(spec)
    return max(abs(limit - zero) for limit in limits)


def _is_hard_swish(view: NodeView) -> bool:
    return function_name(view) == "HardSwish" and _has_grids(view) and view.outs[0].dtype.bits <= 8


def _is_function(view: NodeView, name: str, step: float, level: int) -> bool:
    """Return whether a function has 8-bit data, and the grid that its result must have."""
    if function_name(view) != name or not _has_grids(view) or view.ins[0] is None:
        return False
    out = view.outs[0]
    found, zero, limits = grid_of(out)
    is_narrow = max(view.ins[0].dtype.bits, out.dtype.bits) <= 8
    return is_narrow and (found, zero) == (step, limits[0] + level)


def _is_wide_function(view: NodeView, name: str) -> bool:
    """Return whether a function has int16 data and a result of int16 over 2**15."""
    if function_name(view) != name or not _has_grids(view) or view.ins[0] is None:
        return False
    grids = [grid_of(s) for s in (view.ins[0], view.outs[0])]
    wide = DType.SFIXED_POINT_16
    are_wide = view.ins[0].dtype is wide and view.outs[0].dtype is wide
    steps = [step for step, _, _ in grids]
    return are_wide and all(zero == 0 for _, zero, _ in grids) and steps[0] < 1 == steps[1] * 2**15


def _is_sigmoid(view: NodeView) -> bool:
    return _is_function(view, "Sigmoid", 1 / 256, 0) or _is_wide_function(view, "Sigmoid")


def _is_tanh(view: NodeView) -> bool:
    return _is_function(view, "Tanh", 1 / 128, 128) or _is_wide_function(view, "Tanh")


def _is_softmax(view: NodeView) -> bool:
    return _is_function(view, "Softmax", 1 / 256, 0) and view.op.beta > 0


def _is_average(view: NodeView) -> bool:
    if not _has_grids(view) or view.ins[0] is None or view.op.count_pad_for_edges:
        return False
    data, out = view.ins[0], view.outs[0]
    return (data.dtype, data.encoding) == (out.dtype, out.encoding)
