"""Matrix products on a device, compared with those of `cpu`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opencl_driver import examples

from dovetail.ir import Array, DType, Graph, Tensor, TensorKind
from dovetail_opset.build import add, static

Same = Callable[..., None]
_RNG = np.random.default_rng(12)
_BATCHES = [((), ()), ((2,), ()), ((2, 3), (2, 3)), ((3, 1), (2,)), ((1,), (4,)), ((0,), (0,))]


def _real(*shape: int) -> Array:
    return _RNG.standard_normal(shape).astype(np.float32)


@examples(30)
@given(
    st.sampled_from(_BATCHES),
    st.sampled_from([1, 4, 7]),
    st.sampled_from([0, 1, 5, 32]),
    st.sampled_from([1, 13, 40]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_matmul(
    same_as_cpu: Same,
    batches: tuple[tuple[int, ...], tuple[int, ...]],
    rows: int,
    depth: int,
    columns: int,
    first: bool,
    second: bool,
    is_static: bool,
    bias: bool,
) -> None:
    graph = Graph("net")
    left = (*batches[0], *((depth, rows) if first else (rows, depth)))
    right = (*batches[1], *((columns, depth) if second else (depth, columns)))
    feeds = {"x": _real(*left)}
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, left, TensorKind.APP_WRITE))
    if is_static:
        w = static(graph, "w", _real(*right))
    else:
        w = graph.add_tensor(Tensor("w", DType.FLOAT_32, right, TensorKind.APP_WRITE))
        feeds["w"] = _real(*right)
    inputs = [x, w, static(graph, "b", _real(columns))] if bias else [x, w]
    params: dict[str, Any] = {"transpose_in0": first, "transpose_in1": second}
    y = add(graph, "MatMul", inputs, name="product", **params)
    y.kind = TensorKind.APP_READ
    same_as_cpu(graph, feeds)


@pytest.mark.parametrize("shape", [(1, 24), (5, 24), (2, 3, 8), (24,), (0, 24)])
@pytest.mark.parametrize("dtype", [DType.FLOAT_32, DType.FLOAT_16])
def test_fully_connected(same_as_cpu: Same, shape: tuple[int, ...], dtype: DType) -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", dtype, shape, TensorKind.APP_WRITE))
    w = static(graph, "w", _real(37, 24).astype(dtype.storage))
    b = static(graph, "b", _real(37).astype(dtype.storage))
    y = add(graph, "FullyConnected", [x, w, b], name="dense")
    y = add(graph, "Gelu", [y], name="gelu")
    y.kind = TensorKind.APP_READ
    same_as_cpu(
        graph,
        {"x": _real(*shape).astype(dtype.storage)},
        1e-4 if dtype is DType.FLOAT_32 else 2e-2,
    )


def test_special_numbers_stay_in_their_rows(same_as_cpu: Same) -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (9, 16), TensorKind.APP_WRITE))
    y = add(graph, "MatMul", [x, static(graph, "w", _real(16, 20))], name="product")
    y.kind = TensorKind.APP_READ
    given = _real(9, 16)
    given[2, 3], given[4, 5], given[6, 7] = np.nan, np.inf, -np.inf
    same_as_cpu(graph, {"x": given})
