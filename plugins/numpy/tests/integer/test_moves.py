"""Moves: copies where encodings are equal, each element requantized where they differ."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.ir import AxisScaleOffset, DType, ScaleOffset, Spec
from dovetail.ops import Domain
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.moves import MOVES
from dovetail_opset import PACKAGE

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16, S4 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_4

FINE, COARSE = ScaleOffset(0.1, -10), ScaleOffset(0.4, -3)


def requantized(stored, source, target, dtype):
    """Return the nearest integers of another grid, by fractions; ties to even."""
    low, high = dtype.stored_range(target.bitwidth)
    found = []
    for q in np.ravel(stored).tolist():
        real = (q + source.offset) * Fraction(source.scale)
        found.append(min(max(round(real / Fraction(target.scale) - target.offset), low), high))
    return np.array(found, dtype.storage).reshape(np.shape(stored))


def test_all_ops_that_move_have_a_definition():
    moving = {n for n in PACKAGE.schemas if PACKAGE.schemas[n].domain is Domain.MOVE}
    assert moving <= set(MOVES) <= set(DEFINITIONS)


ENCODINGS = st.builds(ScaleOffset, st.floats(2**-12, 2**6, width=32), st.integers(-200, 60))
TYPES = st.sampled_from([U8, S8, U16, S4])


@given(st.data(), TYPES, TYPES, ENCODINGS, ENCODINGS)
@settings(max_examples=200, deadline=None)
def test_requantizing_is_nearest_integer(node, run_node, data, dtype, kind, source, target):
    low, high = dtype.stored_range()
    numbers = data.draw(st.lists(st.integers(low, high), min_size=4, max_size=4))
    x = np.array(numbers, dtype.storage)
    view = node("Reshape", [Spec(dtype, (4,), source)], [Spec(kind, (2, 2), target)])
    (y,) = run_node(view, x)
    if (dtype, source) == (kind, target):
        np.testing.assert_array_equal(y.reshape(-1), x)
    # the quotient in float64 is off by 2**-53 of its size, which decides no tie that is not exact
    np.testing.assert_array_equal(y.reshape(-1), requantized(x, source, target, kind))


def test_concat_requantizes_each_input(node, run_node):
    a, b = np.uint8([[0, 10, 255]]), np.uint8([[0, 3, 255]])
    ins = [Spec(U8, (1, 3), FINE), Spec(U8, (1, 3), COARSE)]
    view = node("Concat", ins, [Spec(U8, (2, 3), COARSE)], axis=0)
    (y,) = run_node(view, a, b)
    np.testing.assert_array_equal(y[:1], requantized(a, FINE, COARSE, U8))
    np.testing.assert_array_equal(y[1:], b)


@pytest.mark.parametrize("target", [FINE, COARSE])
def test_padding_is_on_grid_of_result(node, run_node, target):
    x = np.uint8([20, 30])
    specs = [Spec(U8, (2,), FINE)], [Spec(U8, (4,), target)]
    view = node("Pad", *specs, scheme=0, pad_amount=[[1, 1]], pad_constant_value=1.0)
    (y,) = run_node(view, x)
    one = round(1 / target.scale) - target.offset
    inner = requantized(x, FINE, target, U8).tolist()
    assert y.tolist() == [one, *inner, one]


def test_zeros_of_windows_and_batches_are_zero_points(node, run_node):
    x = np.uint8([[[[9], [9]], [[9], [9]]]])
    grid = [Spec(U8, x.shape, FINE)]
    patches = node(
        "ExtractPatches",
        grid,
        [Spec(U8, (1, 1, 1, 9), COARSE)],
        size=[3, 3],
        stride=[2, 2],
        rate=[1, 1],
        padding=1,
    )
    nine = requantized(np.uint8([9]), FINE, COARSE, U8).item()
    assert sorted(run_node(patches, x)[0].reshape(-1).tolist()) == sorted([nine] * 4 + [3] * 5)
    batches = node(
        "SpaceToBatch",
        grid,
        [Spec(U8, (4, 2, 1, 1), FINE)],
        block_size=[2, 2],
        pad_amount=[[0, 2], [0, 0]],
    )
    found = run_node(batches, x)[0].reshape(-1).tolist()
    assert found == [9, 10] * 4


def test_pieces_have_grids_of_their_own(node, run_node):
    x = np.uint8([1, 20, 130])
    outs = [Spec(U8, (1,), FINE), Spec(S8, (2,), COARSE)]
    view = node("Split", [Spec(U8, (3,), FINE)], outs, axis=0, split_index=[1])
    a, b = run_node(view, x)
    assert a.tolist() == [1]
    np.testing.assert_array_equal(b, requantized(x[1:], FINE, COARSE, S8))


def test_several_scales_move_with_their_values(node, run_node):
    x = np.int8([[1, -2, 3], [40, 50, -60]])
    grid = AxisScaleOffset(0, np.float32([0.5, 0.25]))
    view = node(
        "Transpose",
        [Spec(S8, (2, 3), grid)],
        [Spec(S8, (3, 2), grid.transposed((1, 0)))],
        perm=[1, 0],
    )
    np.testing.assert_array_equal(run_node(view, x)[0], x.T)
    one = ScaleOffset(0.5)
    view = node("Transpose", [Spec(S8, (2, 3), grid)], [Spec(S8, (3, 2), one)], perm=[1, 0])
    np.testing.assert_array_equal(run_node(view, x)[0], [[1, 20], [-2, 25], [3, -30]])


def test_select_reads_condition_as_real_value(node, run_node):
    condition = np.uint8([4, 5, 4])  # 5 is zero
    a, b = np.uint8([100, 100, 100]), np.uint8([7, 7, 7])
    ins = [
        Spec(U8, (3,), ScaleOffset(2.0, -5)),
        Spec(U8, (3,), FINE),
        Spec(U8, (3,), COARSE),
    ]
    (y,) = run_node(node("ElementWiseSelect", ins, [Spec(U8, (3,), COARSE)]), condition, a, b)
    moved = requantized(a, FINE, COARSE, U8)
    assert y.tolist() == [moved[0], 7, moved[2]]


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_scatter(node, run_node, reduction):
    data, updates = np.uint8([10, 13, 16]), np.uint8([5, 8])
    indices = np.int32([[2], [0]])
    ins = [
        Spec(U8, (3,), FINE),
        Spec(DType.INT_32, (2, 1)),
        Spec(U8, (2,), COARSE),
    ]
    view = node("ScatterNd", ins, [Spec(U8, (3,), FINE)], reduction=reduction)
    (y,) = run_node(view, data, indices, updates)
    reals = (data - 10.0) * np.float32(0.1)
    added = (updates - 3.0) * np.float32(0.4)
    for i, real in ((2, added[0]), (0, added[1])):
        reals[i] = [real, reals[i] + real, reals[i] * real][reduction]
    np.testing.assert_array_equal(y, np.clip(np.rint(reals / np.float32(0.1)) + 10, 0, 255))


def test_gather_of_another_type(node, run_node):
    x = np.int8([-5, 0, 100])
    view = node(
        "Gather",
        [Spec(S8, (3,), ScaleOffset(0.5)), Spec(DType.INT_32, (4,))],
        [Spec(U8, (4,), ScaleOffset(0.5, -128))],
        axis=0,
    )
    assert run_node(view, x, np.int32([2, 0, -2, 1]))[0].tolist() == [228, 123, 128, 128]


@pytest.mark.parametrize("target", [FINE, COARSE])
def test_empty_tensors(node, run_node, target):
    view = node("Concat", [Spec(U8, (0, 2), FINE)] * 2, [Spec(U8, (0, 4), target)], axis=1)
    x = np.zeros((0, 2), np.uint8)
    assert run_node(view, x, x)[0].shape == (0, 4)


def test_narrow_bitwidth_limits_result(node, run_node):
    x = np.int8([-128, 3, 100])
    target = ScaleOffset(1.0, 0, 4)
    view = node("Reshape", [Spec(S8, (3,), ScaleOffset(1.0))], [Spec(S8, (3,), target)])
    assert run_node(view, x)[0].tolist() == [-8, 3, 7]
