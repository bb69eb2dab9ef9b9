"""Resizing on a device, against `cpu`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opencl_driver import examples

from dovetail.ir import DType, Spec

sizes = st.integers(1, 9)
channels = st.sampled_from((1, 3, 8, 19))


def real(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def resized(check_op, op_type, x, shape, is_half=False, **params):
    dtype = DType.FLOAT_16 if is_half else DType.FLOAT_32
    check_op(op_type, x, is_half=is_half, specs=[Spec(dtype, shape)], **params)


@examples(50)
@given(
    st.sampled_from(("ResizeBilinear", "ResizeNearestNeighbor")),
    st.tuples(sizes, sizes),
    st.tuples(sizes, sizes),
    channels,
    st.sampled_from(({}, {"align_corners": True}, {"half_pixel_centers": True})),
    st.booleans(),
)
def test_images(check_op, op_type, old, new, depth, params, is_half):
    resized(check_op, op_type, real(2, *old, depth), (2, *new, depth), is_half, **params)


@examples(50)
@given(
    st.data(),
    st.integers(1, 3),
    channels,
    st.integers(0, 2),
    st.integers(0, 3),
    st.integers(0, 3),
    st.booleans(),
)
def test_resize(check_op, data, rank, depth, interpolation, nearest, mode, excludes):
    old, new = (data.draw(st.lists(sizes, min_size=rank, max_size=rank)) for _ in range(2))
    params = {
        "interpolation_mode": interpolation,
        "nearest_mode": nearest,
        "transformation_mode": mode,
        "exclude_outside": excludes,
    }
    resized(check_op, "Resize", real(2, *old, depth), (2, *new, depth), **params)


@pytest.mark.parametrize("shape", [(1, 0, 5, 3), (1, 4, 0, 3)])
def test_no_elements(check_op, shape):
    resized(check_op, "ResizeBilinear", real(1, 4, 5, 3), shape)


def test_antialias(check_op):
    resized(check_op, "ResizeBilinear", real(1, 9, 8, 3), (1, 4, 3, 3), antialias=True)
