"""Updates of the weights of products, whose packed forms are made again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.container import WeightStore
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
from dovetail.ops import OpRegistry, check_ops
from dovetail.runtime.contract import PrepareRequest, RunControl
from dovetail_gpu import GpuBackend, GpuOptions
from dovetail_gpu.kernels._winograd import Winograd
from dovetail_gpu.options import GpuGraph
from dovetail_opset import PACKAGE
from dovetail_opset.build import add

OPS = OpRegistry.of(PACKAGE)
_RNG = np.random.default_rng(16)
_PLAIN: dict[str, Any] = {"stride": np.ones(2, np.uint32), "pad_amount": np.ones((2, 2), np.uint32)}
_SHAPE = (1, 16, 16, 32)


def _graph(weights: Array, dtype: DType, encoding: Encoding | None) -> Graph:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, _SHAPE, TensorKind.APP_WRITE))
    w = graph.add_tensor(Tensor.static("w", weights, dtype, encoding=encoding))
    w.kind = TensorKind.UPDATEABLE_STATIC
    y = add(graph, "Conv2d", [x, w], name="y", **_PLAIN)
    y.kind = TensorKind.APP_READ
    return graph


def _integers() -> Array:
    return _RNG.integers(-128, 128, (3, 3, 32, 40)).astype(np.int8)


def _reals() -> Array:
    return _RNG.standard_normal((3, 3, 32, 40)).astype(np.float32)


def _by_column() -> Encoding:
    return AxisScaleOffset(3, _RNG.uniform(0.01, 0.1, 40).astype(np.float32))


@pytest.mark.parametrize("by_tiles", [False, True])
@pytest.mark.parametrize("is_real", [False, True])
def test_updates(monkeypatch: pytest.MonkeyPatch, is_real: bool, by_tiles: bool) -> None:
    """Data and encodings are replaced; results are those of a new graph."""
    monkeypatch.setattr(Winograd, "is_faster", lambda *_: by_tiles)
    dtype = DType.FLOAT_32 if is_real else DType.SFIXED_POINT_8
    versions: list[tuple[Array, Encoding | None]] = (
        [(_reals(), None), (_reals(), None)]
        if is_real
        else [
            (_integers(), ScaleOffset(0.02)),
            (_integers(), ScaleOffset(0.03)),
            (_integers(), _by_column()),
        ]
    )
    backend = GpuBackend(OPS, GpuOptions())
    context = backend.open_context(None, None, WeightStore())
    request = PrepareRequest(config=GpuGraph())
    x = _RNG.standard_normal(_SHAPE).astype(np.float32)
    graph = _graph(versions[0][0], dtype, versions[0][1])
    prepared = context.prepare(check_ops(graph, OPS), request)
    for weights, encoding in versions:
        changed = _graph(weights, dtype, encoding)
        prepared.update([changed.tensor("w")])
        found = {"y": np.empty((1, 16, 16, 40), np.float32)}
        prepared.run({"x": x}, found, RunControl())
        real = weights if encoding is None else dequantize(weights, encoding)
        wanted = _direct(x, real)
        np.testing.assert_allclose(found["y"], wanted, 1e-4, 1e-4 * float(np.abs(wanted).max()))


def _direct(x: Array, weights: Array) -> Array:
    """Return the convolution with padding of 1, summed in float64."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    return np.asarray(np.einsum("nhwcyx,yxck->nhwk", views, weights.astype(np.float64)))
