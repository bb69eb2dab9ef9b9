"""Convolutions against their references, on whole numbers: sums are exact in every order."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dovetail_numpy.kernels import _depthwise, convolution

small = st.integers(1, 3)
pad = st.integers(0, 3)


@st.composite
def windows(draw, axes):
    """Params of a window, and sizes that fit it; scalars for one axis."""

    def each(values):
        return [draw(values) for _ in range(axes)]

    most = 4 if axes < 3 else 3
    size, dilation = each(st.integers(1, most)), each(st.integers(1, 2))
    pads, stride = each(st.tuples(pad, pad)), each(small)
    extents = each(st.integers(1, 9 if axes < 3 else 5))
    for extent, f, d, pair in zip(extents, size, dilation, pads, strict=True):
        assume((f - 1) * d + 1 <= extent + sum(pair))
    params = {"stride": stride, "pad_amount": pads, "dilation": dilation}
    if axes == 1:
        params = {name: values[0] for name, values in params.items()}
    return extents, size, params


@pytest.mark.parametrize("axes", [1, 2, 3])
@settings(max_examples=60)
@given(st.data(), small, st.integers(1, 3), st.integers(1, 4), small, st.booleans())
def test_convolution(check_op, whole, axes, data, batch, group, taken, made, has_bias):
    extents, size, params = data.draw(windows(axes))
    x = whole(1, batch, *extents, group * taken)
    weight = whole(2, *size, taken, group * made)
    bias = whole(3, group * made) if has_bias else None
    check_op(f"Conv{axes}d", x, weight, bias, static=(1, 2), group=group, **params)


@pytest.mark.parametrize("axes", [1, 2])
@settings(max_examples=50)
@given(st.data(), small, st.integers(1, 5), small, st.booleans())
def test_depthwise(check_op, whole, axes, data, batch, channels, multiple, has_bias):
    extents, size, params = data.draw(windows(axes))
    x = whole(1, batch, *extents, channels)
    weight = whole(2, *size, 1, channels * multiple)
    bias = whole(3, channels * multiple) if has_bias else None
    check_op(f"DepthWiseConv{axes}d", x, weight, bias, static=(1, 2), **params)


@pytest.mark.parametrize("piece", [1, 40, 1000])
@pytest.mark.parametrize(
    ("op_type", "size", "group"),
    [("Conv2d", 1, 1), ("Conv2d", 3, 1), ("Conv2d", 3, 2), ("DepthWiseConv2d", 3, 6)],
)
def test_work_in_pieces(check_op, whole, monkeypatch, op_type, size, group, piece):
    for module, name in (
        (convolution, "PIECE"),
        (convolution, "UNROLLED"),
        (_depthwise, "_BLOCK"),
    ):
        monkeypatch.setattr(module, name, piece)
    x, weight = whole(1, 2, 9, 8, 6), whole(2, size, size, 6 // group, 12)
    params = {} if op_type.startswith("Depth") else {"group": group}
    pads = [[size // 2, size // 2]] * 2
    check_op(
        op_type, x, weight, whole(3, 12), static=(1, 2), stride=(1, 1), pad_amount=pads, **params
    )


@pytest.mark.parametrize("piece", [1, 60, 400])
def test_volumes_in_pieces(check_op, whole, monkeypatch, piece):
    monkeypatch.setattr(convolution, "PIECE", piece)
    monkeypatch.setattr(convolution, "UNROLLED", 50 * piece)
    x, weight = whole(1, 2, 5, 4, 3, 4), whole(2, 3, 2, 2, 2, 6)
    params = {"stride": (1, 1, 1), "pad_amount": [[1, 1], [0, 1], [1, 0]], "group": 2}
    check_op("Conv3d", x, weight, whole(3, 6), static=(1, 2), **params)


def test_filters_and_bias_that_come_with_each_run(check_op, whole):
    inputs = whole(1, 1, 6, 5, 4), whole(2, 3, 3, 4, 5), whole(3, 5)
    check_op("Conv2d", *inputs, stride=(1, 2), pad_amount=[[1, 1], [0, 2]])


def test_depthwise_filters_that_come_with_each_run_are_left_to_the_reference(check_op, whole):
    inputs = whole(1, 1, 6, 5, 4), whole(2, 3, 3, 1, 4), whole(3, 4)
    check_op("DepthWiseConv2d", *inputs, kernel=False, stride=(1, 1), pad_amount=[[1, 1], [1, 1]])


@pytest.mark.parametrize("shape", [(0, 4, 4, 2), (0, 9, 4, 1)])
def test_empty_tensors_are_left_to_the_reference(check_op, shape):
    x, weight = np.zeros(shape, np.float32), np.ones((3, 3, shape[3], 3), np.float32)
    out = check_op(
        "Conv2d", x, weight, kernel=False, static=(1,), stride=(1, 1), pad_amount=[[0, 0]] * 2
    )
    assert out["y0"].shape == (0, shape[1] - 2, 2, 3)


def test_one_packed_form_serves_both_graphs_of_a_context(op_graph, whole):
    from dovetail.container import WeightStore
    from dovetail.ops import OpRegistry
    from dovetail.testing import prepare
    from dovetail_cpu import CpuBackend, CpuOptions, EngineChoice
    from dovetail_opset import PACKAGE

    weights, ops = WeightStore(), OpRegistry.of(PACKAGE)
    backend = CpuBackend(ops, CpuOptions(engine=EngineChoice.NUMPY))
    inputs = [whole(1, 1, 6, 5, 4), whole(2, 3, 3, 1, 4)]
    for _ in range(2):
        graph, _ = op_graph(
            "DepthWiseConv2d", inputs, static=(1,), stride=(1, 1), pad_amount=[[1, 1], [1, 1]]
        )
        prepare(backend, graph, ops, weights=weights)
    (packed,) = weights.forms
    assert packed.data.shape == (9, 5 * 4)  # each tap's weights for all five columns
