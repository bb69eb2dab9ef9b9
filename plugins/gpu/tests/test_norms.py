"""Norms on a device, against `cpu`."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opencl_driver import examples, many_programs
from small_nets import real

from dovetail.ir import DType, Graph, Tensor, TensorKind
from dovetail_opset.build import add, static

VARIANTS = [{"lanes": 1}, {"lanes": 64}, {"is_half": True}]
shapes = st.lists(st.sampled_from((1, 2, 3, 8, 11)), min_size=2, max_size=4)


@examples(50)
@given(st.data(), st.sampled_from(("LayerNorm", "RmsNorm")), shapes, st.sampled_from(VARIANTS))
def test_over_axes(check_op, data, op_type, shape, variant):
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    sizes = [shape[a] for a in axes]
    # few programs: each takes a while to compile
    has_factors = variant != {"lanes": 1} or data.draw(st.booleans())
    gamma, beta = (real(*sizes, seed=i) if has_factors else None for i in (2, 3))
    check_op(op_type, real(*shape), gamma, beta, **variant, axes=axes, epsilon=0.01)


@examples(40)
@given(st.data(), shapes, st.sampled_from(VARIANTS))
def test_l2_norm(check_op, data, shape, variant):
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    check_op("L2Norm", real(*shape), **variant, axes=axes)


@examples(50)
@given(
    shapes,
    st.integers(0, 1),
    st.integers(0, 2),
    st.booleans(),
    st.sampled_from(VARIANTS),
)
def test_instance_norm(check_op, shape, mode, region, scales, variant):
    gamma, beta = real(shape[-1], seed=2), real(shape[-1], seed=3) if scales else None
    params = {"mode": mode, "region": region, "normalize_variance": scales, "epsilon": 0.01}
    check_op("InstanceNorm", real(*shape), gamma, beta, **variant, **params)


@examples(30)
@given(
    st.lists(st.sampled_from((1, 2, 5)), min_size=1, max_size=3),
    st.sampled_from((1, 2, 3)),
    st.sampled_from((1, 8, 11)),
    st.booleans(),
    st.sampled_from(VARIANTS),
)
def test_group_norm(check_op, shape, groups, each, has_factors, variant):
    channels = groups * each
    has_factors = has_factors or variant != {"lanes": 1}
    gamma, beta = (real(channels, seed=i) if has_factors else None for i in (2, 3))
    check_op("GroupNorm", real(*shape, channels), gamma, beta, **variant, group=groups, epsilon=0.1)


@pytest.mark.parametrize("lanes", [1, pytest.param(64, marks=many_programs)])
def test_not_finite(check_op, lanes):
    x = real(5, 19)
    x[0, 3], x[1, 18], x[2, 0], x[3] = np.nan, np.inf, -np.inf, 0
    with np.errstate(invalid="ignore"):
        check_op("LayerNorm", x, lanes=lanes, axes=[1], epsilon=0.1)
        check_op("RmsNorm", x, lanes=lanes, axes=[1], epsilon=0.1)
        for axis in (0, 1):
            check_op("L2Norm", x, lanes=lanes, axis=axis)


def test_no_elements(check_op):
    check_op("LayerNorm", np.zeros((3, 0), np.float32), axes=[1])
    check_op("RmsNorm", np.zeros((0, 3), np.float32), axes=[1])


@pytest.mark.parametrize("axes", [[2], [1]])
def test_operands_of_fused_nodes_are_not_factors(same_as_cpu, axes):
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 3, 8), TensorKind.APP_WRITE))
    other = graph.add_tensor(Tensor("other", DType.FLOAT_32, (2, 3, 8), TensorKind.APP_WRITE))
    y = add(graph, "L2Norm", [x], name="norm", axes=axes)
    y = add(graph, "ElementWiseAdd", [y, other], name="sum")
    add(graph, "ElementWiseMultiply", [y, x], name="y").kind = TensorKind.APP_READ
    same_as_cpu(graph, {"x": real(2, 3, 8), "other": real(2, 3, 8, seed=2)})


@pytest.mark.parametrize("shape", [(4, 16), (4, 11), (2, 3, 16)])
def test_fused(same_as_cpu, shape):
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, shape, TensorKind.APP_WRITE))
    axes = list(range(1, len(shape)))
    y = add(graph, "LayerNorm", [x], name="norm", axes=axes, epsilon=0.01)
    y = add(graph, "ElementWiseAdd", [y, static(graph, "b", real(shape[-1]))], name="add")
    y = add(graph, "Relu", [y], name="relu")
    y = add(graph, "ElementWiseAdd", [y, x], name="residual")
    y.kind = TensorKind.APP_READ
    same_as_cpu(graph, {"x": real(*shape, seed=math.prod(shape))})


@examples(40)
@given(
    st.sampled_from(((3, 19), (2, 5, 8), (1, 4, 5, 16), (2, 3, 6, 3))),
    st.integers(0, 1),
    st.integers(0, 7),
    st.sampled_from((0.75, 0.6)),
    st.booleans(),
)
def test_lrn(check_op, shape, region, radius, beta, is_half):
    if len(shape) == 2 and region:
        return
    params = {"alpha": 0.1, "beta": beta, "bias": 2.0, "radius": radius, "region": region}
    check_op("Lrn", real(*shape), is_half=is_half, **params)
