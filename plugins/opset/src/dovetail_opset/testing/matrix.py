"""Cases of matrix products."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array, DType
from dovetail.testing import OpCase, typed
from dovetail_opset.testing._data import real


def _product(a: Array, b: Array) -> Array:
    """Return products of the last two dimensions, summed in float64; others broadcast."""
    terms = a.astype(np.float64)[..., :, :, None] * b.astype(np.float64)[..., None, :, :]
    return np.asarray(terms.sum(-2))


def _connected(x: Array, weight: Array, bias: Array | None = None) -> Array:
    result = _product(x, weight.T)
    return result if bias is None else result + bias


# Sums of some dozen products in float32, in any order.
_SUMS = 1e-5
_X, _WEIGHT, _BIAS = real(4, 6), real(5, 6, seed=2), real(5, seed=3)
_PLAIN = OpCase(
    "FullyConnected", (_X, _WEIGHT, _BIAS), _connected, name="bias", static=(1, 2), atol=_SUMS
)
_A, _B = real(2, 3, 4, 6), real(2, 3, 6, 5, seed=2)
_BATCHED = OpCase("MatMul", (_A, _B), _product, name="batches", atol=_SUMS)

CASES: tuple[OpCase, ...] = (
    *(c for case in (_PLAIN, _BATCHED) for c in (case, *typed(case, DType.FLOAT_16))),
    *typed(
        OpCase("FullyConnected", (_X, _WEIGHT), _connected, static=(1,)),
        DType.UFIXED_POINT_8,
        DType.SFIXED_POINT_16,
    ),
    OpCase("FullyConnected", (_X, _WEIGHT), _connected, name="weights from outside", atol=_SUMS),
    OpCase(
        "FullyConnected",
        (real(2, 2, 3, 2), _WEIGHT, _BIAS),
        lambda x, w, b: _connected(x.reshape(4, 6), w, b),
        name="flattened",
        atol=_SUMS,
    ),
    OpCase(
        "FullyConnected",
        (real(2, 3, 6), _WEIGHT, _BIAS),
        lambda x, w, b: _connected(x.reshape(6, 6), w, b).reshape(2, 3, 5),
        {"keep_dims": True},
        name="kept dimensions",
        atol=_SUMS,
    ),
    OpCase("FullyConnected", (_X[:0], _WEIGHT), _connected, name="no batch"),
    OpCase("MatMul", (_X, real(6, 3, seed=4)), _product, name="two matrices", atol=_SUMS),
    OpCase("MatMul", (_A, real(6, 5)), _product, name="one matrix for all", atol=_SUMS),
    OpCase("MatMul", (real(3, 1, 2, 4), real(5, 4, 3)), _product, name="broadcast", atol=_SUMS),
    OpCase(
        "MatMul",
        (real(3, 6, 4), real(3, 5, 6, seed=2)),
        lambda a, b: _product(a.swapaxes(1, 2), b.swapaxes(1, 2)),
        {"transpose_in0": True, "transpose_in1": True},
        name="both transposed",
        atol=_SUMS,
    ),
    OpCase(
        "MatMul",
        (_X, real(6, 5, seed=4), _BIAS),
        lambda a, b, c: _product(a, b) + c,
        name="bias",
        atol=_SUMS,
    ),
    OpCase(
        "MatMul",
        (np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32)),
        np.zeros((2, 3), np.float32),
        name="nothing to sum",
    ),
)
