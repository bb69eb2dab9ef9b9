"""Products of real numbers with fixed-point weights, which stay integers on the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from small_nets import model_of

import dovetail as dt
from dovetail.ir import (
    Array,
    AxisScaleOffset,
    DType,
    Encoding,
    Graph,
    ScaleOffset,
    Tensor,
    TensorKind,
    dequantize,
)
from dovetail_gpu.kernels import convolution, matrix, transposed
from dovetail_gpu.kernels._stored import Stored
from dovetail_gpu.kernels._weights import weights_of
from dovetail_opset.build import add, static

_RNG = np.random.default_rng(13)
_WINDOW = {"stride": np.ones(2, np.uint32), "pad_amount": np.ones((2, 2), np.uint32)}
_SIGNED, _UNSIGNED = DType.SFIXED_POINT_8, DType.UFIXED_POINT_8


def _run(
    backend: str,
    op: str,
    x: Array,
    weights: Array,
    params: Mapping[str, Any],
    dtype: DType | None = None,
    encoding: Encoding | None = None,
) -> Array:
    graph = Graph("net")
    given = graph.add_tensor(Tensor("x", DType.FLOAT_32, x.shape, TensorKind.APP_WRITE))
    w = static(graph, "w", weights, dtype, encoding=encoding)
    y = add(graph, op, [given, w], name="product", **params)
    y.kind = TensorKind.APP_READ
    model = model_of(graph)
    with dt.Session(model, backend=backend) as session:
        (found,) = session.run({"x": x}).values()
    return np.asarray(found)


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> list[Stored]:
    """Return a list that receives the types in which weights are stored."""
    found: list[Stored] = []

    def recorded(*args: Any) -> Any:
        weights = weights_of(*args)
        found.append(weights.stored)
        return weights

    for module in (convolution, matrix, transposed):
        monkeypatch.setattr(module, "weights_of", recorded)
    return found


def _axis(axis: int, size: int, offset: int | None = None, bits: int | None = None) -> Encoding:
    scales = _RNG.uniform(0.01, 0.1, size).astype(np.float32)
    offsets = None if offset is None else np.full(size, offset, np.int32)
    return AxisScaleOffset(axis, scales, offsets, bits)


_ENCODINGS = [
    pytest.param(_SIGNED, lambda axis, n: ScaleOffset(0.02), Stored.CHAR, id="int8"),
    pytest.param(_UNSIGNED, lambda axis, n: ScaleOffset(0.02, -128), Stored.CHAR, id="uint8"),
    pytest.param(_UNSIGNED, lambda axis, n: ScaleOffset(0.02, -77), Stored.SHORT, id="offset"),
    pytest.param(_SIGNED, lambda axis, n: _axis(axis, n), Stored.CHAR, id="by column"),
    pytest.param(_SIGNED, lambda axis, n: _axis(axis, n, None, 4), Stored.NIBBLE, id="4 bits"),
]
_PRODUCTS = [
    pytest.param("Conv2d", (1, 6, 5, 12), (3, 3, 12, 10), 3, {}, id="conv"),
    pytest.param("Conv2d", (1, 6, 5, 12), (3, 3, 4, 30), 3, {"group": 3}, id="groups"),
    pytest.param("TransposeConv2d", (1, 4, 5, 12), (3, 3, 12, 9), 3, {"group": 2}, id="transposed"),
    pytest.param("FullyConnected", (1, 32), (50, 32), 0, None, id="dense"),
    pytest.param("MatMul", (9, 16), (16, 20), 1, None, id="matmul"),
]


@pytest.mark.parametrize(("dtype", "encoding", "kind"), _ENCODINGS)
@pytest.mark.parametrize(("op", "shape", "weight", "axis", "params"), _PRODUCTS)
def test_integer_weights(
    kinds: list[Stored],
    op: str,
    shape: tuple[int, ...],
    weight: tuple[int, ...],
    axis: int,
    params: dict[str, Any] | None,
    dtype: DType,
    encoding: Callable[[int, int], Encoding],
    kind: Stored,
) -> None:
    """The result is that of real weights; the type is the narrowest for `q + offset`."""
    made = encoding(axis, weight[axis])
    low, high = dtype.stored_range(made.bitwidth)
    stored = _RNG.integers(low, high + 1, weight).astype(dtype.storage)
    x = _RNG.standard_normal(shape).astype(np.float32)
    given = {} if params is None else {**_WINDOW, **params}
    found = _run("gpu", op, x, stored, given, dtype, made)
    wanted = _run("cpu", op, x, dequantize(stored, made), given)
    assert set(kinds) == {kind}
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-4 * float(np.abs(wanted).max()))


def test_outputs_without_taps_have_no_weights(kinds: list[Stored]) -> None:
    """A stride beyond the filter's size leaves outputs that no weight reaches."""
    made = _axis(3, 9, None, 4)
    stored = _RNG.integers(-8, 8, (2, 2, 5, 9)).astype(np.int8)
    x = _RNG.standard_normal((1, 4, 5, 5)).astype(np.float32)
    params = {"stride": np.full(2, 3, np.uint32), "pad_amount": np.zeros((2, 2), np.uint32)}
    found = _run("gpu", "TransposeConv2d", x, stored, params, _SIGNED, made)
    wanted = _run("cpu", "TransposeConv2d", x, dequantize(stored, made), params)
    assert set(kinds) == {Stored.NIBBLE}
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-4 * float(np.abs(wanted).max()))


def test_scales_along_other_axes_make_weights_real(kinds: list[Stored]) -> None:
    made = _axis(0, 16)
    stored = _RNG.integers(-128, 128, (16, 20)).astype(np.int8)
    x = _RNG.standard_normal((3, 16)).astype(np.float32)
    found = _run("gpu", "MatMul", x, stored, {}, _SIGNED, made)
    wanted = _run("cpu", "MatMul", x, dequantize(stored, made), {})
    assert kinds == [Stored.FLOAT]
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-4 * float(np.abs(wanted).max()))


@pytest.mark.parametrize(("low", "high"), [(-8, 7), (-9, 7), (-128, 127), (0, 255), (-40000, 0)])
def test_the_narrowest_type_holds_a_range(low: int, high: int) -> None:
    kind = Stored.for_range(low, high)
    assert kind is {
        (-8, 7): Stored.NIBBLE,
        (-9, 7): Stored.CHAR,
        (-128, 127): Stored.CHAR,
        (0, 255): Stored.SHORT,
    }.get((low, high))
