"""Functions of two tensors.

Products are `v = float32(la*lb) * m + z`, and sums of 16-bit tensors `v = la*a + lb*b + z`, each
operation rounded to float32; see `product_rescale` and `sum_rescale`. Everything else is the op's
own reference on real values in float64, rounded once. What jumps (comparisons, floor division,
remainders) is computed in float32, as a float run does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from dovetail.ir import Array, Spec
from dovetail.ops import NodeView
from dovetail_numpy.integer.definitions import DEFINITIONS, Run
from dovetail_numpy.integer.functions import exp, log
from dovetail_numpy.integer.grid import (
    is_defined,
    is_single,
    is_tabular,
    real_of,
    single_of,
    stored_of,
)
from dovetail_numpy.integer.rescaling import (
    LARGEST_FACTOR,
    LARGEST_MULTIPLIER,
    Floats,
    Rescale,
    grid_of,
    levels,
)
from dovetail_numpy.integer.tables import (
    TableKey,
    function_name,
    grid_key,
    look_up,
    made_table,
    params_key,
)

_COMPARISONS = (
    "ElementWiseEqual",
    "ElementWiseNotEqual",
    "ElementWiseGreater",
    "ElementWiseGreaterEqual",
    "ElementWiseLess",
    "ElementWiseLessEqual",
)
_SUMS = ("ElementWiseAdd", "ElementWiseSubtract")
_STEPS = (*_COMPARISONS, "ElementWiseFloorDiv", "ElementWiseFmod")
BINARY = (
    "ElementWiseAdd",
    "ElementWiseSubtract",
    "ElementWiseMultiply",
    "ElementWiseDivide",
    "ElementWisePower",
    "ElementWiseMaximum",
    "ElementWiseMinimum",
    "ElementWiseSquaredDifference",
    *_STEPS,
    "ElementWiseAnd",
    "ElementWiseOr",
    "ElementWiseXor",
    "ElementWiseBinary",
    "Prelu",
)

_BYTE = 8  # bits


def product_rescale(view: NodeView) -> Rescale | None:
    """Return the rescaling of products of levels; None if they are computed in float64.

    That is so unless float32 holds all levels, see `is_single`.
    """
    specs = [spec for spec in (*view.ins, view.outs[0]) if spec is not None]
    if not all(is_single(spec) for spec in specs):
        return None
    (sa, *_), (sb, *_), (step, zero, limits) = (grid_of(spec) for spec in specs)
    multiplier = min(sa * sb / step, LARGEST_MULTIPLIER)
    return Rescale(np.asarray(multiplier, np.float32), np.zeros((), np.float32), zero, limits)


def sum_rescale(view: NodeView) -> tuple[Rescale, Floats] | None:
    """Return the rescaling of the first operand of a sum or difference, and the second's factor.

    None if they are computed in float64: of 8-bit tensors alone, where float32 does not hold all
    levels, and where a scale is more than 16 times the result's.
    """
    specs = [spec for spec in (*view.ins, view.outs[0]) if spec is not None]
    if not all(is_single(spec) for spec in specs) or max(s.dtype.bits for s in specs) <= _BYTE:
        return None
    (sa, *_), (sb, *_), (step, zero, limits) = (grid_of(spec) for spec in specs)
    first, second = sa / step, sb / step
    if max(first, second) > LARGEST_FACTOR:
        return None
    if function_name(view) == "ElementWiseSubtract":
        second = -second
    factors = (np.asarray(factor, np.float32) for factor in (first, second))
    return Rescale(next(factors), np.zeros((), np.float32), zero, limits), next(factors)


@DEFINITIONS.prepares(*BINARY, supports=is_defined)
def binary(view: NodeView) -> Run:
    """Choose the form of a function of two tensors by its name and types."""
    name = function_name(view)
    if name == "ElementWiseMultiply":
        return _product(view)
    if name in _SUMS:
        return _sum(view)
    if name == "ElementWisePower":
        return _powers(view) if (exponents := _exponents(view)) is None else _power(view, exponents)
    return by_reference(view, kind=np.float32 if name in _STEPS else np.float64)


def by_reference(view: NodeView, *, kind: DTypeLike = np.float64, settled: bool = False) -> Run:
    """Return the function of a node by its op's reference on real values.

    Args:
        view: The node.
        kind: The float type that it computes in.
        settled: As in `stored_of`.
    """
    schema, op = view.definition

    def real(stored: Array | None, spec: Spec | None) -> Array | None:
        if stored is None or spec is None:
            return None
        found = real_of(stored, spec)
        with np.errstate(over="ignore"):  # beyond float32 is inf
            return found.astype(kind) if found.dtype.kind == "f" else found

    def result(found: Array, out: Spec) -> Array:
        return stored_of(
            found.astype(np.float64) if found.dtype.kind == "f" else found, out, settled=settled
        )

    def run(ins: Sequence[Array | None]) -> Sequence[Array]:
        reals = [real(x, spec) for x, spec in zip(ins, view.ins, strict=True)]
        results = schema.reference(op, reals, view.outs)
        return [result(found, out) for found, out in zip(results, view.outs, strict=True)]

    return run


def _product(view: NodeView) -> Run:
    rescale, (out,) = product_rescale(view), view.outs
    first, second = view.ins
    if rescale is None or first is None or second is None:
        return by_reference(view)

    def run(ins: Sequence[Array | None]) -> Sequence[Array]:
        a, b = _both(view, ins)
        return [rescale.apply(levels(a, first) * levels(b, second), out)]

    return run


def _sum(view: NodeView) -> Run:
    found, (out,) = sum_rescale(view), view.outs
    first, second = view.ins
    if found is None or first is None or second is None:
        return by_reference(view)
    rescale, factor = found

    def run(ins: Sequence[Array | None]) -> Sequence[Array]:
        a, b = np.broadcast_arrays(*_both(view, ins))
        return [rescale.apply(levels(a, first), out, (levels(b, second), factor))]

    return run


def _both(view: NodeView, ins: Sequence[Array | None]) -> tuple[Array, Array]:
    a, b = ins
    if a is None or b is None:
        raise AssertionError(f"{view.node.where} lacks an operand")
    return a, b


def _exponents(view: NodeView) -> Array | None:
    """Return the stored exponents of a power for which there are tables; None for others.

    That is one constant for a base of up to 16 bits, and every integer for two 8-bit tensors.
    """
    base, exponent = view.ins
    if base is None or exponent is None or not is_tabular(base):
        return None
    tensor = view.node.inputs[1]
    if tensor is not None and tensor.data is not None and not tensor.kind.is_updateable:
        constant = tensor.stored()
        if constant.size == 1:
            return constant.reshape(-1)
    if is_tabular(exponent) and max(base.dtype.bits, exponent.dtype.bits) <= 8:
        return np.arange(256, dtype=np.uint8).view(exponent.dtype.storage)
    return None


def _power(view: NodeView, exponents: Array) -> Run:
    """Look up powers: tables of the base, one for each exponent."""
    schema, op = view.definition
    (base, spec), (out,) = view.ins, view.outs
    if base is None or spec is None:
        raise AssertionError(f"{view.node.where} lacks an operand")
    powers = _real_exponents(exponents, spec)

    def power(stored: Array) -> Array:
        reals = real_of(stored, base)[:, np.newaxis], powers
        (result,) = schema.reference(op, reals, view.outs)
        return stored_of(result, out, settled=True)

    function = params_key(view), grid_key(spec), exponents.tobytes()
    table = made_table(TableKey(function, grid_key(base), grid_key(out), power))

    def run(ins: Sequence[Array | None]) -> Sequence[Array]:
        a, b = _both(view, ins)
        if exponents.size == 1:
            found = look_up(table[:, 0], a)
            return [np.broadcast_to(found, np.broadcast_shapes(a.shape, b.shape))]
        return [table[a.view(np.uint8), b.view(np.uint8)]]

    return run


def _powers(view: NodeView) -> Run:
    """Raise real values to varying powers, by functions that have the same bits everywhere."""
    (base, spec), (out,) = view.ins, view.outs
    if base is None or spec is None:
        raise AssertionError(f"{view.node.where} lacks an operand")

    def run(ins: Sequence[Array | None]) -> Sequence[Array]:
        a, b = _both(view, ins)
        real, exponent = real_of(a, base), _real_exponents(b, spec)
        size = np.abs(real)
        with np.errstate(invalid="ignore"):  # infinite exponents
            is_whole, is_odd = np.rint(exponent) == exponent, np.fmod(exponent, 2) != 0
            powers = exp(np.nan_to_num(exponent * log(np.where(size == 0, 1.0, size))))
        of_zero = np.where(exponent == 0, 1.0, np.where(exponent > 0, 0.0, np.inf))
        negative = np.where(is_whole, np.where(is_odd, -powers, powers), np.nan)
        result = np.where(real == 0, of_zero, np.where(real < 0, negative, powers))
        return [stored_of(result, out, settled=True)]

    return run


def _real_exponents(stored: Array, spec: Spec) -> Array:
    """Return exponents as floats have them: 30 times the float32 nearest to 0.1 is 3."""
    return single_of(real_of(stored, spec)).astype(np.float64)
