"""Blocks, groups, stacks and repeats: any type, bit by bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.ir import AxisScaleOffset, DType, Graph, Tensor, TensorKind
from dovetail_opset.build import add

DTYPES = [np.float32, np.float16, np.int8, np.int64, np.uint16, np.bool_]
dtypes = st.sampled_from(DTYPES)
extents = st.integers(1, 4)
shapes = st.lists(extents, max_size=4).map(tuple)


def elements(seed, dtype, *shape):
    return np.random.default_rng(seed).integers(0, 99, shape).astype(dtype)


@settings(max_examples=15)
@given(st.tuples(extents, extents, extents, extents), st.tuples(extents, extents), dtypes)
@pytest.mark.parametrize("mode", [0, 1])
def test_depth_and_space(check_op, mode, shape, block, dtype):
    n, h, w, c = shape
    rows, columns = block
    deep = elements(1, dtype, n, h, w, c * rows * columns)
    check_op("DepthToSpace", deep, block_size=block, mode=mode)
    wide = elements(1, dtype, n, h * rows, w * columns, c)
    check_op("SpaceToDepth", wide, block_size=block, mode=mode)


@settings(max_examples=15)
@given(shapes, st.integers(1, 7), st.integers(1, 7), st.integers(0, 4), dtypes)
def test_channel_shuffle(check_op, shape, groups, each, at, dtype):
    axis = min(at, len(shape))
    x = elements(1, dtype, *shape[:axis], groups * each, *shape[axis:])
    check_op("ChannelShuffle", x, num_groups=groups, axis=axis)


@settings(max_examples=15)
@given(shapes, st.data(), dtypes)
def test_tile(check_op, shape, data, dtype):
    multiples = [data.draw(st.integers(1, 3)) for _ in shape]
    check_op("Tile", elements(1, dtype, *shape), multiples=multiples)


@settings(max_examples=15)
@given(shapes, st.integers(1, 3), st.integers(0, 4), dtypes)
def test_pack_and_unpack(check_op, shape, count, at, dtype):
    axis = min(at, len(shape))
    parts = [elements(i, dtype, *shape) for i in range(count)]
    check_op("Pack", *parts, static=(1,) if count > 1 else (), axis=axis)
    check_op("UnPack", np.stack(parts, axis), axis=axis)


def test_empty_tensors_are_left_to_the_reference(check_op):
    check_op("Tile", np.ones((2, 3), np.float32), kernel=False, multiples=[0, 1])
    check_op("ChannelShuffle", np.ones((0, 4), np.float32), kernel=False, num_groups=2)


def test_scales_by_axis_do_not_move_with_stored_elements(run_graph, evaluate):
    graph = Graph("scales")
    code = AxisScaleOffset(0, np.array([0.5, 0.25], np.float32))
    u8 = DType.UFIXED_POINT_8
    x = graph.add_tensor(Tensor("x", u8, (2, 3), TensorKind.APP_WRITE, encoding=code))
    y = Tensor("y", u8, (2, 3), TensorKind.APP_READ, encoding=code)
    add(graph, "ChannelShuffle", [x], name="y", outputs=y, num_groups=2, axis=0)
    z = Tensor("z", u8, (2, 3), TensorKind.APP_READ, encoding=code)
    turned = graph.add_tensor(Tensor.static("turned", np.array([1, 0], np.int32)))
    add(graph, "Gather", [x, turned], name="z", outputs=z, axis=0)
    feeds = {"x": np.array([[4, 5, 6], [8, 10, 12]], np.uint8)}
    ran = run_graph(graph, feeds)
    want = evaluate(graph, feeds)
    for name in "yz":
        np.testing.assert_array_equal(ran.outputs[name], want[name])
    np.testing.assert_array_equal(
        ran.outputs["z"], [[4, 5, 6], [8, 10, 12]][::-1] / np.array([[2], [0.5]])
    )
