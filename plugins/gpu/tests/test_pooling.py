"""Pooling on a device, against `cpu`."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from opencl_driver import examples
from small_nets import model_of

import dovetail as dt
from dovetail.ir import DType, Graph, Tensor, TensorKind
from dovetail_opset.build import add, static

small = st.integers(1, 4)


def windows(draw, shape):
    def each(values):
        return [draw(values) for _ in range(2)]

    size, stride, pads = each(small), each(small), each(st.tuples(small, small))
    # oneDNN, the reference here, averages no window that lies in the padding alone
    pads = [tuple(min(n, f) - 1 for n in pair) for pair, f in zip(pads, size, strict=True)]
    for n, f, pair in zip(shape, size, pads, strict=True):
        assume(f <= n + sum(pair))
    return {"filter_size": size, "stride": stride, "pad_amount": pads}


@examples(60)
@given(
    st.data(),
    st.sampled_from(("PoolMax2d", "PoolAvg2d", "L2Pool2d")),
    st.tuples(small, st.integers(1, 9), st.integers(1, 9), st.sampled_from((1, 3, 8, 19))),
    st.booleans(),
    st.booleans(),
)
def test_windows(check_op, data, op_type, shape, ceil, is_half):
    params = windows(data.draw, shape[1:3])
    if op_type != "L2Pool2d":
        params["rounding_mode"] = int(ceil)
    if op_type == "PoolAvg2d":
        params["count_pad_for_edges"] = data.draw(st.booleans())
    x = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    # below 0 everywhere, the padding shows
    check_op(op_type, x - 2, is_half=is_half, **params)


@pytest.mark.parametrize("op_type", ["PoolMax2d", "PoolAvg2d", "L2Pool2d"])
def test_not_finite(check_op, op_type):
    x = np.ones((1, 4, 12, 9), np.float32)
    x[0, 0, 0] = np.nan
    x[0, 1, 5], x[0, 2, 10] = np.inf, -np.inf
    pads = ((1, 1), (1, 1))
    check_op(op_type, x, filter_size=(2, 2), stride=(1, 1), pad_amount=pads)


@pytest.mark.parametrize("channels", [16, 11])
def test_fused(same_as_cpu, channels):
    graph = Graph("net")
    shape = (1, 6, 6, channels)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, shape, TensorKind.APP_WRITE))
    bias = static(graph, "b", np.arange(channels, dtype=np.float32))
    params = {"filter_size": (2, 2), "stride": (2, 2), "pad_amount": ((0, 0), (0, 0))}
    y = add(graph, "PoolAvg2d", [x], name="pool", **params)
    y = add(graph, "ElementWiseAdd", [y, bias], name="add")
    y = add(graph, "Relu", [y], name="relu")
    y.kind = TensorKind.APP_READ
    feeds = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    same_as_cpu(graph, feeds)
    model = model_of(graph)
    with dt.Session(model, backend="gpu") as session:
        assert session.run(feeds)
