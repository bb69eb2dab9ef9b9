"""Products on processors by registers of eight and of sixteen numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from small_nets import real

from dovetail.ir import AxisScaleOffset, DType, Encoding, Graph, Tensor, TensorKind
from dovetail_gpu.driver import choose_device
from dovetail_gpu.kernels import _choices
from dovetail_gpu.kernels._tiles import Tile
from dovetail_opset.build import add, static

_FLOAT, _HALF = DType.FLOAT_32, DType.FLOAT_16


@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize(
    ("dtype", "bits"),
    [
        (_FLOAT, 0),
        (_HALF, 0),
        (DType.SFIXED_POINT_8, 4),
        (DType.SFIXED_POINT_8, 8),
        (DType.SFIXED_POINT_16, 16),
    ],
)
def test_tiles(
    same_as_cpu: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    is_wide: bool,
    dtype: DType,
    bits: int,
) -> None:
    if not choose_device(None).is_cpu:
        pytest.skip("other devices than processors use groups of work items")
    monkeypatch.setattr(_choices, "_of_items", lambda _: [Tile(4, 4, is_wide=is_wide)])
    graph, columns = Graph("net"), 45  # whole registers, whole vectors and a rest
    kind = _HALF if dtype is _HALF else _FLOAT
    x = graph.add_tensor(Tensor("x", kind, (1, 5, 6, 9), TensorKind.APP_WRITE))
    encoding: Encoding | None = None
    weights = real(3, 3, 9, columns)
    if bits:
        most = (1 << (bits - 1)) - 1
        scales = np.linspace(0.5, 2, columns, dtype=np.float32) / most
        encoding = AxisScaleOffset(3, scales, None, bits if bits == 4 else None)
        weights = np.round(np.clip(weights, -1, 1) * most)
    w = static(graph, "w", weights.astype(dtype.storage), dtype, encoding=encoding)
    ones = np.ones(2, np.uint32)
    params = {"stride": ones, "pad_amount": np.ones((2, 2), np.uint32)}
    y = add(graph, "Conv2d", [x, w], name="product", **params)
    add(graph, "Relu6", [y], name="relu").kind = TensorKind.APP_READ
    feeds = {"x": real(1, 5, 6, 9).astype(kind.storage)}
    same_as_cpu(graph, feeds, 2e-2 if kind is _HALF else 1e-4)
