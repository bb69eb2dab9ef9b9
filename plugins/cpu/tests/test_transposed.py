"""Transposed convolutions against their references, on whole numbers: exactly."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.ir import DType, Spec, Tensor, TensorKind
from dovetail_numpy.kernels import transposed
from dovetail_opset.build import add

small = st.integers(1, 3)


@st.composite
def spreads(draw, axes):
    """Params and sizes; scalars for one axis."""
    extents, size, params = [], [], {"stride": [], "pad_amount": [], "output_padding": []}
    dilations = []
    for _ in range(axes):
        extents.append(draw(st.integers(1, 6 if axes < 3 else 3)))
        size.append(draw(st.integers(1, 4 if axes < 3 else 3)))
        dilations.append(draw(st.integers(1, 2)) if axes == 3 else 1)
        stride = draw(small)
        extra = draw(st.integers(0, stride - 1))
        full = stride * (extents[-1] - 1) + (size[-1] - 1) * dilations[-1] + 1 + extra
        before = draw(st.integers(0, min(full - 1, 3)))
        params["stride"].append(stride)
        params["output_padding"].append(extra)
        params["pad_amount"].append((before, draw(st.integers(0, min(full - 1 - before, 3)))))
    if axes == 1:
        params = {name: values[0] for name, values in params.items()}
    if axes == 3:
        params["dilation"] = dilations
    return extents, size, params


@pytest.mark.parametrize("axes", [1, 2, 3])
@settings(max_examples=60)
@given(st.data(), small, st.integers(1, 3), small, small, st.booleans())
def test_spreads(check_op, whole, axes, data, batch, group, taken, made, has_bias):
    extents, size, params = data.draw(spreads(axes))
    x = whole(1, batch, *extents, group * taken)
    weight = whole(2, *size, group * taken, made)
    bias = whole(3, group * made) if has_bias else None
    check_op(f"TransposeConv{axes}d", x, weight, bias, static=(1, 2), group=group, **params)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("piece", [1, 60, 500])
def test_work_in_pieces(check_op, whole, monkeypatch, size, group, piece):
    monkeypatch.setattr(transposed, "PRODUCTS", piece)
    x, weight = whole(1, 2, 5, 4, 4), whole(2, size, size, 4, 3)
    params = {"stride": (2, 2), "pad_amount": [[0, 1], [1, 0]], "group": group}
    check_op("TransposeConv2d", x, weight, whole(3, 3 * group), static=(1, 2), **params)


@pytest.mark.parametrize("shape", [(1, 3, 3, 2), (0, 3, 3, 2)])
def test_what_is_left_to_the_reference(check_op, whole, shape):
    # filters that are an input, and an empty result
    static = () if shape[0] else (1,)
    params = {"stride": (2, 2), "pad_amount": [[0, 0], [0, 0]]}
    inputs = whole(1, *shape), whole(2, 2, 2, 2, 3)
    check_op("TransposeConv2d", *inputs, kernel=False, static=static, **params)


def test_an_activation_runs_along(op_graph, run_graph, evaluate, whole):
    inputs = [whole(1, 1, 4, 5, 3), whole(2, 3, 3, 3, 2), whole(3, 2)]
    params = {"stride": (2, 2), "pad_amount": [[1, 0], [0, 1]]}
    graph, feeds = op_graph("TransposeConv2d", inputs, static=(1, 2), **params)
    (out,) = graph.outputs
    out.kind = TensorKind.NATIVE
    last = Tensor("last", DType.FLOAT_32, out.shape, TensorKind.APP_READ)
    add(graph, "Relu", [out], name="relu", outputs=last, spec=Spec(out.dtype, out.shape))
    ran = run_graph(graph, feeds)
    assert [s.nodes for s in ran.prepared.steps] == [("op", "relu")]
    np.testing.assert_array_equal(ran.outputs["last"], evaluate(graph, feeds)["last"])
