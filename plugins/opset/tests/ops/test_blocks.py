"""Blocks of space, batch and channels: every element where the block's arithmetic says."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_inputs import numbered

from dovetail.errors import OpError
from dovetail.ir import DType, Graph, ScaleOffset, Shape, Spec, Tensor, TensorKind
from dovetail_opset.build import add
from dovetail_opset.ops.blocks import BlockMode

Run = Callable[..., Any]
extents = st.integers(0, 3)
sizes = st.tuples(st.integers(1, 3), st.integers(1, 3))
borders = st.tuples(*[st.tuples(st.integers(0, 2), st.integers(0, 2))] * 2)


def depth_at(mode: BlockMode, row: int, column: int, c: int, block: Shape, channels: int) -> int:
    if mode is BlockMode.DCR:
        return (row * block[1] + column) * channels + c
    return (c * block[0] + row) * block[1] + column


@pytest.mark.parametrize("mode", BlockMode)
@given(sizes, extents, extents, extents, extents)
def test_depth_to_space_and_back(
    run_op: Run, mode: BlockMode, block: Shape, n: int, h: int, w: int, c: int
) -> None:
    deep = numbered((n, h, w, c * block[0] * block[1]))
    wide = run_op("DepthToSpace", deep, block_size=block, mode=mode)
    assert wide.shape == (n, h * block[0], w * block[1], c)
    for (i, y, x, k), value in np.ndenumerate(wide):
        place = depth_at(mode, y % block[0], x % block[1], k, block, c)
        assert value == deep[i, y // block[0], x // block[1], place]
    back = run_op("SpaceToDepth", wide, block_size=block, mode=mode)
    np.testing.assert_array_equal(back, deep)


def test_the_mode_is_dcr_if_left_out(run_op: Run) -> None:
    deep = np.arange(8).reshape(1, 1, 1, 8)
    wide = run_op("DepthToSpace", deep, block_size=(2, 2))
    np.testing.assert_array_equal(wide[0, :, :, 0], [[0, 2], [4, 6]])
    crd = run_op("DepthToSpace", deep, block_size=(2, 2), mode=BlockMode.CRD)
    np.testing.assert_array_equal(crd[0, :, :, 0], [[0, 1], [2, 3]])
    np.testing.assert_array_equal(run_op("SpaceToDepth", wide, block_size=(2, 2)), deep)


@given(sizes, extents, st.integers(1, 3), st.integers(1, 3), extents, borders)
def test_batch_to_space(
    run_op: Run, block: Shape, n: int, h: int, w: int, c: int, crops: Any
) -> None:
    x = numbered((block[0] * block[1] * n, h, w, c), np.int32)
    left = [k * b - sum(pair) for k, b, pair in zip((h, w), block, crops, strict=True)]
    if min(left) < 0:
        with pytest.raises(OpError, match="are larger than the space"):
            run_op("BatchToSpace", x, block_size=block, crops=crops)
        return
    y = run_op("BatchToSpace", x, block_size=block, crops=crops)
    assert y.shape == (n, *left, c)
    for (i, row, column, k), value in np.ndenumerate(y):
        row, column = row + crops[0][0], column + crops[1][0]
        place = (row % block[0] * block[1] + column % block[1]) * n + i
        assert value == x[place, row // block[0], column // block[1], k]


@given(sizes, extents, extents, extents, extents, borders)
def test_space_to_batch(
    run_op: Run, block: Shape, n: int, h: int, w: int, c: int, pads: Any
) -> None:
    # after what is drawn, as much more padding as divides into blocks
    rows = [(b, a + -(k + a + b) % s) for k, s, (b, a) in zip((h, w), block, pads, strict=True)]
    x = numbered((n, h, w, c)) + 1
    y = run_op("SpaceToBatch", x, block_size=block, pad_amount=rows)
    padded = [k + sum(pair) for k, pair in zip((h, w), rows, strict=True)]
    assert y.shape == (n * block[0] * block[1], padded[0] // block[0], padded[1] // block[1], c)
    for (place, i, j, k), value in np.ndenumerate(y):
        at, image = divmod(place, n)
        row = i * block[0] + at // block[1] - rows[0][0]
        column = j * block[1] + at % block[1] - rows[1][0]
        inside = 0 <= row < h and 0 <= column < w
        assert value == (x[image, row, column, k] if inside else 0)
    back = run_op("BatchToSpace", y, block_size=block, crops=rows)
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize(("to", "want"), [(None, [10, 200]), (ScaleOffset(1.0, -20), [20, 115])])
def test_space_to_batch_pads_with_the_zero_point(
    evaluate: Callable[..., Any], to: ScaleOffset | None, want: list[int]
) -> None:
    graph, code, u8 = Graph("g"), ScaleOffset(0.5, -10), DType.UFIXED_POINT_8
    x = Tensor("x", u8, (1, 1, 1, 1), TensorKind.APP_WRITE, encoding=code)
    graph.add_tensor(x)
    spec = None if to is None else Spec(u8, (2, 1, 1, 1), to)
    params = {"block_size": (1, 2), "pad_amount": [(0, 0), (1, 0)]}
    y = add(graph, "SpaceToBatch", [x], name="y", spec=spec, **params)
    assert y.encoding == (to or code)
    stored = evaluate(graph, {"x": np.full((1, 1, 1, 1), 200, np.uint8)})["y"]
    np.testing.assert_array_equal(stored.reshape(-1), want)


@given(st.lists(extents, max_size=2), st.lists(extents, max_size=2), sizes)
def test_channel_shuffle(run_op: Run, before: list[int], after: list[int], groups: Shape) -> None:
    g, each = groups
    x = numbered((*before, g * each, *after))
    y = run_op("ChannelShuffle", x, num_groups=g, axis=len(before))
    assert y.shape == x.shape
    for place, value in np.ndenumerate(y):
        source = list(place)
        position, group = divmod(place[len(before)], g)
        source[len(before)] = group * each + position
        assert value == x[tuple(source)]
    np.testing.assert_array_equal(run_op("ChannelShuffle", y, num_groups=each, axis=len(before)), x)


def test_channels_are_last_if_no_axis_is_given(run_op: Run) -> None:
    x = np.array([[0, 1, 2, 3, 4, 5]], np.int64)
    np.testing.assert_array_equal(run_op("ChannelShuffle", x, num_groups=2), [[0, 3, 1, 4, 2, 5]])


@pytest.mark.parametrize("dtype", [np.bool_, np.float16, np.uint8, np.float64])
def test_any_type_moves(run_op: Run, dtype: type) -> None:
    x = np.random.default_rng(1).integers(0, 2, (4, 2, 2, 4)).astype(dtype)
    for name in ("DepthToSpace", "SpaceToDepth", "BatchToSpace", "SpaceToBatch"):
        y = run_op(name, x, block_size=(2, 2))
        assert y.dtype == dtype
        assert y.astype(float).sum() == x.astype(float).sum()


REFUSED: list[tuple[str, Shape, dict[str, Any], str]] = [
    ("DepthToSpace", (2, 3, 4), {"block_size": (1, 1)}, "in[0] must have rank 4"),
    ("DepthToSpace", (1, 2, 2, 4), {"block_size": (0, 1)}, "block_size (0, 1) must be 1 or more"),
    (
        "DepthToSpace",
        (1, 2, 2, 6),
        {"block_size": (2, 2)},
        "the depth (6,) does not divide into blocks of (2, 2)",
    ),
    (
        "SpaceToDepth",
        (1, 2, 3, 6),
        {"block_size": (1, 2)},
        "the space (2, 3) does not divide into blocks of (1, 2)",
    ),
    ("BatchToSpace", (3, 2, 2, 1), {"block_size": (1, 2)}, "the batch (3,) does not divide"),
    (
        "SpaceToBatch",
        (3, 2, 2, 1),
        {"block_size": (2, 2), "pad_amount": [(0, 1), (0, 0)]},
        "the padded space (3, 2) does not divide",
    ),
    ("ChannelShuffle", (2, 6), {"num_groups": 4}, "num_groups 4 does not divide the 6 elements"),
    ("ChannelShuffle", (2, 6), {"num_groups": 0}, "num_groups 0 does not divide"),
    ("ChannelShuffle", (2, 6), {"num_groups": 2, "axis": 2}, "axis 2 is not an axis"),
    ("ChannelShuffle", (), {"num_groups": 1}, "axis -1 is not an axis of a tensor of rank 0"),
]


@pytest.mark.parametrize(("name", "shape", "params", "said"), REFUSED)
def test_refusals(run_op: Run, name: str, shape: Shape, params: dict[str, Any], said: str) -> None:
    with pytest.raises(OpError) as caught:
        run_op(name, numbered(shape), **params)
    assert said in str(caught.value)
