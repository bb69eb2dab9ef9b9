"""Products with tiles in local memory, as on devices that are not processors.

A processor runs them, too: here the backend takes it for another device. Halves are then read
without a conversion to float.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from opencl_driver import many_programs
from small_nets import model_of

import dovetail as dt
from dovetail.ir import AxisScaleOffset, DType, Graph, Tensor, TensorKind
from dovetail_gpu import _backend
from dovetail_gpu.driver import choose_device
from dovetail_gpu.kernels import _choices, _product
from dovetail_gpu.kernels._tiles import Tile
from dovetail_opset.build import add, static

Same = Callable[..., None]
_RNG = np.random.default_rng(14)
_HALF = DType.FLOAT_16
_PADS = np.array([[1, 0], [2, 1]], np.uint32)


@pytest.fixture(autouse=True)
def tiles(monkeypatch: pytest.MonkeyPatch) -> list[Tile]:
    """Take the processor for another device, and return a list that receives the tiles used."""
    found: list[Tile] = []
    arguments = _product._arguments

    def recorded(product: Any, tile: Tile, *rest: Any) -> Any:
        found.append(tile)
        return arguments(product, tile, *rest)

    def chosen(wanted: str | None) -> Any:
        return dataclasses.replace(choose_device(wanted), is_cpu=False)

    monkeypatch.setattr(_backend, "choose_device", chosen)
    monkeypatch.setattr(_product, "_arguments", recorded)
    return found


def _real(*shape: int, dtype: DType = DType.FLOAT_32) -> Any:
    return _RNG.standard_normal(shape).astype(dtype.storage)


def _check(
    same: Same,
    op: str,
    x: Any,
    weight: tuple[int, ...],
    made: int,
    dtype: DType = DType.FLOAT_32,
    **params: Any,
) -> None:
    graph = Graph("net")
    given = graph.add_tensor(Tensor("x", dtype, x.shape, TensorKind.APP_WRITE))
    w = static(graph, "w", _real(*weight, dtype=dtype))
    b = static(graph, "b", _real(made, dtype=dtype))
    y = add(graph, op, [given, w, b], name="product", **params)
    y = add(graph, "Relu6", [y], name="relu")
    y.kind = TensorKind.APP_READ
    same(graph, {"x": x}, 2e-2 if dtype is _HALF else 1e-4)


def _numbers(*values: int) -> Any:
    return np.array(values, np.uint32)


@many_programs
def test_convolution(same_as_cpu: Same, tiles: list[Tile]) -> None:
    params = {"stride": _numbers(2, 1), "dilation": _numbers(1, 2), "pad_amount": _PADS}
    x = _real(2, 9, 8, 66)
    _check(same_as_cpu, "Conv2d", x, (3, 2, 33, 34), 34, group=2, **params)
    assert {tile.is_shared for tile in tiles} == {True}


def test_large_tiles(same_as_cpu: Same, tiles: list[Tile], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_choices, "_of_groups", lambda product, **_: [Tile(32, 4, is_shared=True)])
    _check(same_as_cpu, "FullyConnected", _real(70, 40), (90, 40), 90)
    assert tiles == [Tile(32, 4, is_shared=True)]


@many_programs
def test_halves(same_as_cpu: Same) -> None:
    x = _real(1, 4, 5, 16, dtype=_HALF)
    params = {"stride": _numbers(2, 2), "pad_amount": _PADS}
    _check(same_as_cpu, "TransposeConv2d", x, (3, 3, 16, 20), 20, _HALF, **params)
    _check(same_as_cpu, "DepthWiseConv2d", x, (3, 3, 1, 16), 16, _HALF, **params)


@many_programs
def test_batches(same_as_cpu: Same, tiles: list[Tile]) -> None:
    graph = Graph("net")
    inputs, feeds = [], {}
    for name, shape in (("a", (3, 17, 20)), ("b", (2, 1, 20, 40))):
        inputs.append(graph.add_tensor(Tensor(name, DType.FLOAT_32, shape, TensorKind.APP_WRITE)))
        feeds[name] = _real(*shape)
    y = add(graph, "MatMul", inputs, name="product")
    y.kind = TensorKind.APP_READ
    same_as_cpu(graph, feeds)
    assert {tile.is_shared for tile in tiles} == {True}


@many_programs
def test_integer_weights(same_as_cpu: Same) -> None:
    """On `cpu`, 4-bit weights are dequantized."""
    scales = _RNG.uniform(0.01, 0.1, 21).astype(np.float32)
    stored = _RNG.integers(-8, 8, (9, 21)).astype(np.int8)
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (19, 9), TensorKind.APP_WRITE))
    encoding = AxisScaleOffset(1, scales, None, 4)
    w = static(graph, "w", stored, DType.SFIXED_POINT_8, encoding=encoding)
    y = add(graph, "MatMul", [x, w], name="product")
    y.kind = TensorKind.APP_READ
    same_as_cpu(graph, {"x": _real(19, 9)})


def test_the_device_converts_inputs_to_half_precision(tiles: list[Tile]) -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (3, 50), TensorKind.APP_WRITE))
    y = add(graph, "Relu", [x], name="relu")
    y.kind = TensorKind.APP_READ
    model = model_of(graph)
    config = {"graph": [{"graph_name": "net", "precision_mode": "fp16"}]}
    values = _real(3, 50)
    with dt.Session(model, backend="gpu", config=config) as session:
        (found,) = session.run({"x": values}).values()
    np.testing.assert_array_equal(found, np.maximum(values, 0).astype(np.float16))


@many_programs
@pytest.mark.parametrize(
    "tile", [Tile(128, 16, True), Tile(128, 8, True), Tile(64, 8, True), Tile(32, 4, True)], ids=str
)
@pytest.mark.parametrize("parts", [1, 3])
def test_sizes_and_parts(
    same_as_cpu: Same, tiles: list[Tile], monkeypatch: pytest.MonkeyPatch, tile: Tile, parts: int
) -> None:
    wanted = dataclasses.replace(tile, parts=parts)
    monkeypatch.setattr(_choices, "_of_groups", lambda product, **_: [wanted])
    x = _real(2, 9, 8, 37)
    _check(same_as_cpu, "Conv2d", x, (3, 2, 37, 70), 70, stride=_numbers(1, 1), pad_amount=_PADS)
    _check(same_as_cpu, "FullyConnected", _real(140, 83), (90, 83), 90)
    assert set(tiles) == {wanted}


def test_parts_are_added_before_the_stages(
    same_as_cpu: Same, tiles: list[Tile], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = Tile(16, 4, is_shared=True, parts=4)
    monkeypatch.setattr(_choices, "_of_groups", lambda product, **_: [wanted])
    _check(same_as_cpu, "FullyConnected", _real(5, 70), (20, 70), 20)
    assert tiles == [wanted]
