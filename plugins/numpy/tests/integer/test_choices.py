"""Maxima, order and indices; interpolation; conversions: against NumPy and fractions."""

from fractions import Fraction

import numpy as np
import pytest

from dovetail.ir import DType, ScaleOffset, Spec, dequantize, quantize

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16 = DType.UFIXED_POINT_16
INT, UINT = DType.INT_32, DType.UINT_32


def test_maximum_pads_with_real_zero(node, run_node):
    x = np.int8([-7, -3, -90]).reshape(1, 1, 3, 1)
    grid = ScaleOffset(0.5, 5)  # zero is -5
    view = node(
        "PoolMax2d",
        [Spec(S8, x.shape, grid)],
        [Spec(S8, (1, 1, 4, 1), grid)],
        filter_size=[1, 2],
        stride=[1, 1],
        pad_amount=[[0, 0], [1, 1]],
    )
    assert run_node(view, x)[0].reshape(-1).tolist() == [-5, -3, -3, -5]


@pytest.mark.parametrize("offset", [-300, 40])
def test_zero_of_padding_may_be_outside_of_type(node, run_node, offset):
    x = np.uint8([10, 20]).reshape(1, 1, 2, 1)
    grid, target = ScaleOffset(1.0, offset), ScaleOffset(2.0, -128)
    view = node(
        "PoolMax2d",
        [Spec(U8, x.shape, grid)],
        [Spec(U8, (1, 1, 3, 1), target)],
        filter_size=[1, 2],
        stride=[1, 1],
        pad_amount=[[0, 0], [1, 1]],
    )
    real = [max(0, 10 + offset), 20 + offset, max(0, 20 + offset)]
    wanted = [min(max(round(Fraction(r, 2) + 128), 0), 255) for r in real]
    assert run_node(view, x)[0].reshape(-1).tolist() == wanted


@pytest.mark.parametrize(("op", "reduce"), [("ReduceMax", np.max), ("ReduceMin", np.min)])
def test_extremes_keep_stored_values(node, run_node, rng, op, reduce):
    x = rng.integers(-128, 128, (4, 6)).astype(np.int8)
    grid = ScaleOffset(0.3, 7)
    view = node(op, [Spec(S8, x.shape, grid)], [Spec(S8, (4,), grid)], axes=[1])
    np.testing.assert_array_equal(run_node(view, x)[0], reduce(x, axis=1))


def test_order_of_scale_zero_is_that_of_indices(node, run_node):
    x = np.uint8([[3, 9, 1]])
    view = node("Argmax", [Spec(U8, (1, 3), ScaleOffset(0.0))], [Spec(INT, (1,))], axis=1)
    assert run_node(view, x)[0].tolist() == [0]


@pytest.mark.parametrize("kind", [INT, UINT])
def test_best_elements(node, run_node, kind):
    x = np.uint16([[5, 40000, 5, 70]])
    outs = [Spec(U16, (1, 3), ScaleOffset(2.0)), Spec(kind, (1, 3))]
    view = node("TopK", [Spec(U16, (1, 4), ScaleOffset(1.0))], outs, k=3)
    values, indices = run_node(view, x)
    assert values.tolist() == [[20000, 35, 2]]  # 2.5 is a tie
    assert indices.tolist() == [[1, 3, 2]]
    view = node("Argmin", [Spec(U16, (1, 4), ScaleOffset(1.0))], [Spec(kind, (1,))], axis=1)
    assert run_node(view, x)[0].tolist() == [0]


def test_nonzero_is_about_real_zero(node, run_node):
    x = np.uint8([0, 3, 4])
    view = node("NonZero", [Spec(U8, (3,), ScaleOffset(0.5, -3))], [Spec(INT, (3, 1))])
    assert run_node(view, x)[0].tolist() == [[0], [2], [0]]


def doubled(x, axis):
    """Return four times the image of twice the size along an axis."""
    x = np.moveaxis(x, axis, 0)
    wide = np.concatenate([x[:1], x, x[-1:]])
    first, second = wide[:-1], wide[1:]
    both = np.stack([3 * first + second, first + 3 * second], axis=1)
    return np.moveaxis(both.reshape(-1, *x.shape[1:])[1:-1], 0, axis)


@pytest.mark.parametrize("op", ["Resize", "ResizeBilinear"])
def test_doubled_image_is_exact(node, run_node, rng, op):
    """Weights of quarters: fractions decide every tie."""
    x = rng.integers(0, 256, (1, 4, 4, 2)).astype(np.uint8)
    grid = ScaleOffset(0.07, -100)
    mode = {"interpolation_mode": 1} if op == "Resize" else {"half_pixel_centers": True}
    view = node(op, [Spec(U8, x.shape, grid)], [Spec(U8, (1, 8, 8, 2), grid)], **mode)
    sums = doubled(doubled(x.astype(int), 1), 2)
    wanted = [round(Fraction(int(s), 16)) for s in sums.reshape(-1)]
    np.testing.assert_array_equal(run_node(view, x)[0].reshape(-1), wanted)


def test_thirds_and_sixths_settle_ties(node, run_node):
    # positions at multiples of 1/6 between 0 and 3: (3 - t) / 3 of levels 0 and 3 has ties
    x = np.uint8([0, 3]).reshape(1, 1, 2, 1)
    grid = ScaleOffset(0.1, 0)
    view = node(
        "ResizeBilinear",
        [Spec(U8, x.shape, grid)],
        [Spec(U8, (1, 1, 7, 1), grid)],
        align_corners=True,
    )
    wanted = [round(Fraction(3 * t, 6)) for t in range(7)]
    assert run_node(view, x)[0].reshape(-1).tolist() == wanted == [0, 0, 1, 2, 2, 2, 3]


def test_nearest_copies(node, run_node):
    x = np.uint8([7, 9]).reshape(1, 1, 2, 1)
    grid = ScaleOffset(0.1, -300)
    for op in ("Resize", "ResizeNearestNeighbor"):
        view = node(op, [Spec(U8, x.shape, grid)], [Spec(U8, (1, 1, 4, 1), grid)])
        assert run_node(view, x)[0].reshape(-1).tolist() == [7, 7, 9, 9]


@pytest.mark.parametrize("mode", [0, 1])
def test_grid_sample(node, run_node, mode):
    x = np.uint8([10, 20]).reshape(1, 1, 2, 1)
    grid = Spec(U8, x.shape, ScaleOffset(0.5, -4))
    # u8 positions: -1, 0, 1 on the outer edges, and one outside
    places = np.uint8([[[[0, 128], [128, 128], [192, 128], [255, 128]]]])
    positions = Spec(U8, places.shape, ScaleOffset(2**-6, -128))
    out = Spec(U8, (1, 1, 4, 1), ScaleOffset(0.5, -4))
    view = node("GridSample", [grid, positions], [out], mode=mode)
    (y,) = run_node(view, x, places)
    reals = []
    for p in places.reshape(-1, 2)[:, 0].tolist():
        at = ((Fraction(p - 128, 64) + 1) * 2 - 1) / 2
        level = [0, 0, 6, 16, 0, 0]
        low = at.__floor__()
        if mode:
            reals.append(level[round(at) + 2])
        else:
            reals.append(level[low + 2] * (1 - at + low) + level[low + 3] * (at - low))
    assert y.reshape(-1).tolist() == [round(Fraction(r)) + 4 for r in reals]


def test_regions_of_interest(node, run_node):
    x = np.arange(16, dtype=np.uint8).reshape(1, 4, 4, 1)
    rois = np.uint8([[0, 0, 4, 4]])
    view = node(
        "RoiAlign",
        [
            Spec(U8, x.shape, ScaleOffset(0.5)),
            Spec(U8, (1, 4), ScaleOffset(1.0)),
            Spec(INT, (1,)),
        ],
        [Spec(U8, (1, 2, 2, 1), ScaleOffset(0.25))],
        img_size_ratio=[1.0, 1.0],
        num_samples_x=1,
        num_samples_y=1,
    )
    (y,) = run_node(view, x, rois, np.int32([0]))
    assert y.reshape(-1).tolist() == [10, 14, 26, 30]  # elements (1, 1), (1, 3), (3, 1), (3, 3)


TYPES = [
    (U8, ScaleOffset(0.3, -7), S8, ScaleOffset(0.2, 9)),
    (U16, ScaleOffset(0.3, -7), U8, ScaleOffset(20.0, -9)),
    (S8, ScaleOffset(0.3, -7), DType.SFIXED_POINT_16, ScaleOffset(0.002, 9)),
]


@pytest.mark.parametrize("types", TYPES)
def test_convert_is_that_of_core(node, run_node, types):
    dtype, grid, kind, target = types
    low, high = dtype.stored_range()
    x = np.arange(low, high + 1).astype(dtype.storage)
    view = node("Convert", [Spec(dtype, x.shape, grid)], [Spec(kind, x.shape, target)])
    wanted = quantize(dequantize(x, grid), target, kind)
    np.testing.assert_array_equal(run_node(view, x)[0], wanted)


def test_quantize_has_zero_point_outside_of_rounding(node, run_node):
    x = np.float32([0.5, 1.5, np.nan, np.inf, -np.inf])
    out = Spec(U8, (5,), ScaleOffset(1.0, -3))
    view = node("Quantize", [Spec(DType.FLOAT_32, (5,))], [out])
    assert run_node(view, x)[0].tolist() == [3, 5, 3, 255, 0]
    # inside, ties go to even stored integers instead
    half = node("Reshape", [Spec(U8, (2,), ScaleOffset(0.5))], [Spec(U8, (2,), out.encoding)])
    assert run_node(half, np.uint8([1, 3]))[0].tolist() == [4, 4]


@pytest.mark.parametrize("dtype", [DType.FLOAT_32, DType.FLOAT_16])
def test_dequantize(node, run_node, dtype):
    x = np.uint8([0, 3, 255])
    grid = ScaleOffset(0.1, -3)
    view = node("Dequantize", [Spec(U8, (3,), grid)], [Spec(dtype, (3,))])
    wanted = (np.float32([0, 3, 255]) - 3) * np.float32(0.1)
    np.testing.assert_array_equal(run_node(view, x)[0], wanted.astype(dtype.storage))


def test_cast_reads_stored_integers(node, run_node):
    x = np.uint16([300, 5])
    view = node("Cast", [Spec(U16, (2,), ScaleOffset(0.1))], [Spec(U8, (2,), ScaleOffset(3.0))])
    assert run_node(view, x)[0].tolist() == [44, 5]


def test_suppression_is_of_real_values(node, run_node):
    boxes = np.uint8([[[0, 0, 10, 10], [0, 0, 10, 9], [20, 20, 30, 30]]])
    scores = np.uint8([[[200, 250, 128]]])
    ins = [Spec(U8, boxes.shape, ScaleOffset(0.1)), Spec(U8, scores.shape, ScaleOffset(1 / 256))]
    outs = [Spec(INT, (3, 3)), Spec(UINT, (1,))]
    view = node(
        "NonMaxSuppression",
        ins,
        outs,
        iou_threshold=0.5,
        score_threshold=0.25,
        max_boxes_selected=3,
    )
    rows, count = run_node(view, boxes, scores)
    assert count.tolist() == [2]
    assert rows[:, 2].tolist() == [1, 2, 0]


def test_limited_suppression(node, run_node):
    boxes = np.uint8([[0] * 4 + [0, 0, 10, 10], [0] * 4 + [0, 0, 10, 9]])
    scores = np.uint8([[0, 200], [0, 250]])
    ins = [
        Spec(U8, boxes.shape, ScaleOffset(0.5)),
        Spec(U8, scores.shape, ScaleOffset(1 / 256)),
        Spec(INT, (2,)),
    ]
    outs = [Spec(U8, (2, 4), ScaleOffset(0.25)), Spec(U8, (2,), ScaleOffset(1 / 256))]
    outs += [Spec(INT, (2,)), Spec(INT, (2,))]
    view = node(
        "BoxWithNmsLimit",
        ins,
        outs,
        nms_kernel_method=0,
        nms_score_threshold=0.1,
        iou_threshold=0.5,
        sigma=1.0,
    )
    found, best, labels, _ = run_node(view, boxes, scores, np.int32([0, 0]))
    assert found.tolist() == [[0, 0, 20, 18], [0] * 4]
    assert best.tolist() == [250, 0]
    assert labels.tolist() == [1, 0]
