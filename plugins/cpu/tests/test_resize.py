"""Resizing against the references: exactly, since both add the same products in one order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.ir import DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail_numpy.kernels import resize
from dovetail_opset.build import add

extent = st.integers(1, 9)
spatial = st.lists(st.tuples(extent, extent), min_size=1, max_size=3)


def image(seed, shape, dtype=np.float32):
    values = np.random.default_rng(seed).uniform(-9, 99, shape)
    return values.astype(dtype)


def shapes_of(axes, batch, channels):
    old, new = zip(*axes, strict=True)
    return (batch, *old, channels), (batch, *new, channels)


def spec_of(x, shape):
    return [Spec(DType.of(x.dtype), shape)]


@settings(max_examples=80)
@given(
    spatial,
    st.integers(1, 2),
    st.sampled_from([1, 3, 40]),
    st.integers(0, 3),
    st.sampled_from([1, 2]),
    st.booleans(),
)
def test_weighted(check_op, axes, batch, channels, places, mode, exclude):
    old, new = shapes_of(axes, batch, channels)
    x = image(1, old)
    params = {"transformation_mode": places, "exclude_outside": exclude}
    check_op("Resize", x, specs=spec_of(x, new), interpolation_mode=mode, **params)


@settings(max_examples=60)
@given(
    spatial,
    st.integers(1, 2),
    st.sampled_from([1, 3, 8]),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from([np.float32, np.int8, np.bool_, np.float16]),
)
def test_nearest(check_op, axes, batch, channels, places, rounding, dtype):
    old, new = shapes_of(axes, batch, channels)
    x = image(2, old, dtype)
    params = {"transformation_mode": places, "nearest_mode": rounding}
    check_op("Resize", x, specs=spec_of(x, new), interpolation_mode=0, **params)


@pytest.mark.parametrize("factors", [(2, 2), (3, 1), (1, 4), (5, 3)])
@pytest.mark.parametrize("channels", [1, 7])
def test_whole_factors_repeat(check_op, factors, channels):
    x = image(3, (2, 3, 4, channels))
    new = (2, 3 * factors[0], 4 * factors[1], channels)
    out = check_op("ResizeNearestNeighbor", x, specs=spec_of(x, new))
    want = x.repeat(factors[0], axis=1).repeat(factors[1], axis=2)
    # inside the arena the op is between two negations
    np.testing.assert_array_equal(out["y0"], want)


@pytest.mark.parametrize("flags", [{}, {"align_corners": True}, {"half_pixel_centers": True}])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("size", [(9, 4), (2, 13), (5, 7), (5, 20)])
def test_bilinear(check_op, flags, antialias, size):
    x = image(4, (2, 5, 7, 3))
    specs = spec_of(x, (2, *size, 3))
    check_op("ResizeBilinear", x, specs=specs, antialias=antialias, **flags)


@pytest.mark.parametrize("block", [1, 10, 50, 200])
@pytest.mark.parametrize("channels", [2, 40])
def test_in_pieces(check_op, monkeypatch, block, channels):
    monkeypatch.setattr(resize, "BLOCK", block)
    monkeypatch.setattr(resize, "block_size", lambda total: block)
    x = image(5, (3, 4, 5, channels))
    specs = spec_of(x, (3, 7, 8, channels))
    check_op("ResizeBilinear", x, specs=specs, half_pixel_centers=True)


def test_what_is_left_to_the_reference(check_op):
    x = image(6, (1, 4, 4, 2), np.int32)
    specs = spec_of(x, (1, 6, 6, 2))
    check_op("ResizeBilinear", x, specs=specs, kernel=False)
    empty = np.zeros((0, 4, 4, 2), np.float32)
    check_op("ResizeBilinear", empty, specs=spec_of(empty, (0, 6, 6, 2)), kernel=False)


def test_another_encoding_is_no_mere_move(run_graph, evaluate):
    graph = Graph("encodings")
    made = Tensor(
        "x", DType.UFIXED_POINT_8, (1, 3, 2, 1), TensorKind.APP_WRITE, encoding=ScaleOffset(0.5)
    )
    x = graph.add_tensor(made)
    for name, scale in (("same", 0.5), ("other", 0.25)):
        spec = Spec(DType.UFIXED_POINT_8, (1, 6, 2, 1), ScaleOffset(scale))
        add(graph, "ResizeNearestNeighbor", [x], name=name, spec=spec).kind = TensorKind.APP_READ
    feeds = {"x": image(7, (1, 3, 2, 1), np.uint8)}
    ran = run_graph(graph, feeds)
    assert not ran.on_integers  # by kernels
    wanted = evaluate(graph, feeds)
    for name, found in ran.outputs.items():
        np.testing.assert_array_equal(found, wanted[name])
