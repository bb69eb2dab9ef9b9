"""Convolutions on a device, compared with those of `cpu`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from opencl_driver import examples

from dovetail.ir import Array, DType, Graph, Tensor, TensorKind
from dovetail_opset.build import add, static

Same = Callable[..., None]
_RNG = np.random.default_rng(11)


def _real(*shape: int, dtype: DType = DType.FLOAT_32) -> Array:
    return _RNG.standard_normal(shape).astype(dtype.storage)


def _network(
    op: str,
    shape: tuple[int, ...],
    weight: tuple[int, ...],
    made: int,
    *,
    bias: bool = True,
    dtype: DType = DType.FLOAT_32,
    **params: Any,
) -> tuple[Graph, Tensor]:
    """Return a graph of one node with static weights, and the node's result."""
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", dtype, shape, TensorKind.APP_WRITE))
    inputs = [x, static(graph, "w", _real(*weight, dtype=dtype))]
    if bias:
        inputs.append(static(graph, "b", _real(made, dtype=dtype)))
    arrays: dict[str, Any] = {
        k: v if k == "group" else np.array(v, np.uint32) for k, v in params.items()
    }
    return graph, add(graph, op, inputs, name="conv", **arrays)


def _compare(same: Same, graph: Graph, y: Tensor, x: Array, rtol: float = 1e-4) -> None:
    y.kind = TensorKind.APP_READ
    same(graph, {"x": x}, rtol)


_SIZES = st.tuples(st.integers(1, 9), st.integers(1, 9))
_SMALL = st.tuples(st.integers(1, 3), st.integers(1, 3))
_PADS = st.tuples(*(st.tuples(st.integers(0, 2), st.integers(0, 2)),) * 2)


def _fits(size: tuple[int, int], taps: tuple[int, int], pads: Any, step: tuple[int, int]) -> bool:
    return all(
        n + sum(p) >= (f - 1) * d + 1 for n, f, p, d in zip(size, taps, pads, step, strict=True)
    )


@examples(30)
@given(
    st.integers(0, 2),
    _SIZES,
    st.sampled_from([(1, 3, 5), (1, 8, 16), (1, 40, 24), (2, 3, 9), (3, 2, 8), (1, 33, 50)]),
    _SMALL,
    _SMALL,
    _SMALL,
    _PADS,
    st.booleans(),
)
def test_geometries(
    same_as_cpu: Same,
    batch: int,
    size: tuple[int, int],
    channels: tuple[int, int, int],
    taps: tuple[int, int],
    stride: tuple[int, int],
    step: tuple[int, int],
    pads: Any,
    bias: bool,
) -> None:
    assume(_fits(size, taps, pads, step))
    groups, taken, made = channels
    graph, y = _network(
        "Conv2d",
        (batch, *size, taken * groups),
        (*taps, taken, made * groups),
        made * groups,
        bias=bias,
        stride=stride,
        pad_amount=pads,
        dilation=step,
        group=groups,
    )
    _compare(same_as_cpu, graph, y, _real(batch, *size, taken * groups))


@examples(15)
@given(
    st.integers(0, 2),
    _SIZES,
    st.sampled_from([(3, 1), (8, 1), (19, 1), (4, 2), (16, 1)]),
    st.sampled_from([((3, 3), (1, 1)), ((3, 3), (2, 2)), ((2, 5), (1, 1))]),
    _PADS,
    st.integers(1, 2),
)
def test_depthwise_geometries(
    same_as_cpu: Same,
    batch: int,
    size: tuple[int, int],
    channels: tuple[int, int],
    window: tuple[tuple[int, int], tuple[int, int]],
    pads: Any,
    step: int,
) -> None:
    taps, stride = window
    assume(_fits(size, taps, pads, (step, 1)))
    count, multiplier = channels
    graph, y = _network(
        "DepthWiseConv2d",
        (batch, *size, count),
        (*taps, 1, count * multiplier),
        count * multiplier,
        stride=stride,
        pad_amount=pads,
        dilation=(step, 1),
    )
    _compare(same_as_cpu, graph, y, _real(batch, *size, count))


@examples(15)
@given(
    st.integers(0, 2),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.sampled_from([(1, 3, 5), (1, 8, 16), (2, 3, 9)]),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    _SMALL,
    st.tuples(*(st.tuples(st.integers(0, 1), st.integers(0, 1)),) * 2),
    st.booleans(),
)
def test_transposed_geometries(
    same_as_cpu: Same,
    batch: int,
    size: tuple[int, int],
    channels: tuple[int, int, int],
    taps: tuple[int, int],
    stride: tuple[int, int],
    pads: Any,
    more: bool,
) -> None:
    full = [(n - 1) * s + f - sum(p) for n, s, f, p in zip(size, stride, taps, pads, strict=True)]
    assume(min(full) >= 0)
    groups, taken, made = channels
    extra = [int(more and s > 1) for s in stride]
    graph, y = _network(
        "TransposeConv2d",
        (batch, *size, taken * groups),
        (*taps, taken * groups, made),
        made * groups,
        stride=stride,
        pad_amount=pads,
        output_padding=extra,
        group=groups,
    )
    _compare(same_as_cpu, graph, y, _real(batch, *size, taken * groups))


def _plain(channels: int, made: int, dtype: DType = DType.FLOAT_32) -> tuple[Graph, Tensor, Array]:
    graph, y = _network(
        "Conv2d",
        (1, 7, 6, channels),
        (3, 3, channels, made),
        made,
        dtype=dtype,
        stride=(1, 1),
        pad_amount=((1, 1), (1, 1)),
    )
    return graph, y, _real(1, 7, 6, channels, dtype=dtype)


@pytest.mark.parametrize("made", [16, 13])
def test_stages(same_as_cpu: Same, made: int) -> None:
    """A residual, numbers by channel, a gate and a clip run with the convolution."""
    graph, y, x = _plain(made, made)
    y = add(graph, "ElementWiseAdd", [y, graph.tensors["x"]], name="residual")
    y = add(graph, "ElementWiseMultiply", [y, static(graph, "s", _real(made))], name="scale")
    gate = add(graph, "Sigmoid", [y], name="gate")
    y = add(graph, "ElementWiseMultiply", [y, gate], name="swish")
    y = add(graph, "ReluMinMax", [y], name="clip", min_value=-0.1, max_value=1.5)
    _compare(same_as_cpu, graph, y, x)


@pytest.mark.parametrize("op", ["DepthWiseConv2d", "TransposeConv2d"])
def test_stages_of_others(same_as_cpu: Same, op: str) -> None:
    weight = (3, 3, 1, 12) if op.startswith("Depth") else (3, 3, 12, 12)
    graph, y = _network(op, (1, 5, 6, 12), weight, 12, stride=(1, 1), pad_amount=((1, 1), (1, 1)))
    y = add(graph, "Relu", [y], name="relu")
    y = add(graph, "ElementWiseAdd", [y, graph.tensors["x"]], name="residual")
    _compare(same_as_cpu, graph, y, _real(1, 5, 6, 12))


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_special_numbers_reach_their_windows_alone(same_as_cpu: Same, special: float) -> None:
    graph, y, x = _plain(8, 16)
    x[0, 3, 3, 2] = special
    _compare(same_as_cpu, graph, y, x)


@pytest.mark.parametrize("op", ["Conv2d", "DepthWiseConv2d", "TransposeConv2d"])
def test_half_precision(same_as_cpu: Same, op: str) -> None:
    weight = (3, 3, 1, 12) if op.startswith("Depth") else (3, 3, 12, 12)
    graph, y = _network(
        op,
        (1, 6, 5, 12),
        weight,
        12,
        dtype=DType.FLOAT_16,
        stride=(1, 1),
        pad_amount=((1, 1), (1, 1)),
    )
    _compare(same_as_cpu, graph, y, _real(1, 6, 5, 12, dtype=DType.FLOAT_16), 2e-2)


def test_a_clip_keeps_nan(same_as_cpu: Same) -> None:
    graph, y, x = _plain(8, 16)
    y = add(graph, "Relu6", [y], name="relu")
    x[0, 3, 3, 2] = np.nan
    _compare(same_as_cpu, graph, y, x)


def test_weights_from_outside(same_as_cpu: Same) -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 5, 6, 6), TensorKind.APP_WRITE))
    w = graph.add_tensor(Tensor("w", DType.FLOAT_32, (3, 2, 3, 10), TensorKind.APP_WRITE))
    params: dict[str, Any] = {
        "stride": np.array([1, 2], np.uint32),
        "pad_amount": np.array([[1, 0], [0, 1]], np.uint32),
        "group": 2,
    }
    y = add(graph, "Conv2d", [x, w], name="conv", **params)
    y.kind = TensorKind.APP_READ
    same_as_cpu(graph, {"x": _real(1, 5, 6, 6), "w": _real(3, 2, 3, 10)})


def test_long_lines_are_padded_in_pieces(check_op: Callable[..., None]) -> None:
    params = {"stride": np.uint32(1), "pad_amount": np.array([2, 1], np.uint32)}
    check_op("Conv1d", _real(1, 2000, 3), _real(5, 3, 7), static=(1,), **params)
