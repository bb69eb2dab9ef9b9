"""Ops that move elements: views and copies, for every width, and both forms of transposes."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opencl_driver import examples
from small_nets import numbered

from dovetail.ir import DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail_gpu import boxes
from dovetail_gpu.kernels import movement
from dovetail_opset.build import add, add_all

TYPES = (np.float32, np.float16, np.int64, np.uint8, np.bool_)  # all widths
_EXAMPLES = examples(25)
Check = Callable[..., None]


@st.composite
def transposes(draw: st.DrawFn) -> tuple[tuple[int, ...], list[int]]:
    """Return a shape with zero, one and more elements, and an order of its axes."""
    rank = draw(st.integers(0, 5))
    sizes = st.sampled_from((0, 1, 2, 3, 4, 5, 8, 9, 17))
    shape = draw(st.lists(sizes, min_size=rank, max_size=rank))
    return tuple(shape), draw(st.permutations(range(rank)))


@_EXAMPLES
@given(transposes(), st.sampled_from(TYPES))
def test_transpose(check_op: Check, case: tuple[tuple[int, ...], list[int]], dtype: type) -> None:
    shape, perm = case
    check_op("Transpose", numbered(shape, dtype), perm=np.array(perm, np.uint32))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ((1, 4, 4, 2, 58), (0, 1, 2, 4, 3)),
        ((5, 3, 21), (0, 2, 1)),
        ((5, 4, 21), (0, 2, 1)),
        ((77, 70), (1, 0)),
        ((3, 40, 33, 5), (3, 0, 2, 1)),
        ((2, 12, 3, 64), (0, 2, 1, 3)),
        ((2, 2, 2, 2, 2, 2, 2, 3), (7, 5, 3, 1, 6, 4, 2, 0)),
    ],
)
def test_transposes_of_networks(
    check_op: Check, shape: tuple[int, ...], perm: tuple[int, ...], dtype: type
) -> None:
    check_op("Transpose", numbered(shape, dtype), perm=np.array(perm, np.uint32))


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
@pytest.mark.parametrize("shape", [(3, 40, 33, 5), (2, 1, 64, 7), (1, 2, 3, 70), (1, 0, 3, 4)])
def test_moves_for_gpus(check_op: Check, shape: tuple[int, ...], dtype: type) -> None:
    x, block = numbered(shape, dtype), np.array((1, 1), np.uint32)
    pads = np.array([(1, 0), (0, 2)], np.uint32)
    with mock.patch.object(boxes, "for_processor", return_value=False):
        for perm in ((0, 1, 3, 2), (3, 0, 2, 1), (0, 2, 1, 3)):
            check_op("Transpose", x, perm=np.array(perm, np.uint32))
        check_op("Concat", x, x, axis=3)
        check_op("Tile", x, multiples=np.array((1, 2, 1, 3), np.uint32))
        check_op("SpaceToBatch", x, block_size=block, pad_amount=pads)


@_EXAMPLES
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=4),
    st.lists(st.integers(0, 9), min_size=1, max_size=3),
    st.data(),
)
def test_concat_and_split(
    check_op: Check, shape: list[int], more: list[int], data: st.DataObject
) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    parts = [numbered((*shape[:axis], n, *shape[axis + 1 :])) + n for n in (shape[axis], *more)]
    check_op("Concat", *parts, axis=axis)
    whole = np.concatenate(parts, axis)
    begins = np.cumsum([p.shape[axis] for p in parts])[:-1].astype(np.uint32)
    check_op("Split", whole, axis=axis, split_index=begins, specs=(None,) * len(parts))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", TYPES)
def test_pack_and_unpack(check_op: Check, axis: int, dtype: type) -> None:
    x = numbered((3, 5, 4), dtype)
    count = x.shape[axis]
    check_op("UnPack", x, axis=axis, specs=(None,) * count)
    check_op("Pack", x, x[::-1].copy(), x, axis=axis)


@st.composite
def slices(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[int, int, int]], dict[str, int]]:
    """Return a shape, rows of ranges, and masks."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    rows = []
    for size in shape:
        begin = draw(st.integers(0, size - 1))
        step = draw(st.sampled_from((1, 2, 3, -1, -2)))
        rows.append((begin, draw(st.integers(0 if step > 0 else -1, size)), step))
    bits = st.integers(0, (1 << len(shape)) - 1)
    names = ("begin_mask", "end_mask", "shrink_axes")
    return shape, rows, {name: draw(bits) for name in names}


@_EXAMPLES
@given(slices(), st.sampled_from(TYPES))
def test_strided_slice(
    check_op: Check,
    case: tuple[tuple[int, ...], list[tuple[int, int, int]], dict[str, int]],
    dtype: type,
) -> None:
    shape, rows, masks = case
    check_op("StridedSlice", numbered(shape, dtype), ranges=np.array(rows, np.int32), **masks)


def test_strided_slice_with_a_new_axis(check_op: Check) -> None:
    ranges = np.array([(0, 1, 1), (1, 5, 2), (0, 3, 1)], np.int32)
    check_op("StridedSlice", numbered((6, 3)), ranges=ranges, new_axes_mask=1)


@_EXAMPLES
@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3)), min_size=1, max_size=4),
    st.sampled_from(TYPES),
)
def test_tile(check_op: Check, axes: list[tuple[int, int]], dtype: type) -> None:
    shape, multiples = zip(*axes, strict=True)
    check_op("Tile", numbered(shape, dtype), multiples=np.array(multiples, np.uint32))


@_EXAMPLES
@given(
    st.lists(
        st.tuples(st.integers(1, 7), st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=4
    ),
    st.sampled_from(("CONSTANT", "MIRROR_SYMMETRIC", "MIRROR_REFLECT", "EDGE")),
    st.sampled_from(TYPES),
)
def test_pad(check_op: Check, axes: list[tuple[int, int, int]], scheme: str, dtype: type) -> None:
    most = {"MIRROR_SYMMETRIC": 0, "MIRROR_REFLECT": 1}.get(scheme)
    pairs = [
        [pad if most is None else min(pad, size - most) for pad in (before, after)]
        for size, before, after in axes
    ]
    number = ("CONSTANT", "MIRROR_SYMMETRIC", "MIRROR_REFLECT", "EDGE").index(scheme)
    x = numbered(tuple(size for size, _, _ in axes), dtype)
    value = {} if number or dtype is np.bool_ else {"pad_constant_value": np.array(7, dtype).item()}
    check_op("Pad", x, scheme=number, pad_amount=np.array(pairs, np.uint32), **value)


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("is_half", [False, True])
def test_depth_and_space(check_op: Check, mode: int, *, is_half: bool) -> None:
    x, block = numbered((2, 6, 9, 12)), np.array((2, 3), np.uint32)
    check_op("DepthToSpace", x, is_half=is_half, block_size=block, mode=mode)
    check_op("SpaceToDepth", x, is_half=is_half, block_size=block, mode=mode)


@pytest.mark.parametrize("pads", [((0, 0), (0, 0)), ((1, 2), (2, 0))])
@pytest.mark.parametrize("is_half", [False, True])
def test_batch_and_space(check_op: Check, pads: tuple[tuple[int, int], ...], is_half: bool) -> None:
    block, amounts = np.array((3, 2), np.uint32), np.array(pads, np.uint32)
    check_op(
        "SpaceToBatch",
        numbered((2, 6, 4, 5)),
        is_half=is_half,
        block_size=block,
        pad_amount=amounts,
    )
    check_op(
        "BatchToSpace", numbered((12, 3, 4, 5)), is_half=is_half, block_size=block, crops=amounts
    )


@pytest.mark.parametrize("groups", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("axis", [0, 2])
def test_channel_shuffle(check_op: Check, groups: int, axis: int) -> None:
    check_op("ChannelShuffle", numbered((12, 5, 24)), num_groups=groups, axis=axis)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_argb_to_rgb(check_op: Check, order: int, reverse: bool) -> None:
    check_op("ArgbToRgb", numbered((2, 3, 5, 4)), input_order=order, reverse_output=reverse)


@pytest.mark.parametrize("op_type", ["Nv12ToRgb", "Nv21ToRgb"])
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("is_half", [False, True])
def test_planar_to_rgb(check_op: Check, op_type: str, order: int, is_half: bool) -> None:
    x = np.random.default_rng(0).uniform(0, 255, (2, 6 * 4 * 3 // 2)).astype(np.float32)
    kind = DType.FLOAT_16 if is_half else DType.FLOAT_32
    specs = (Spec(kind, (2, 6, 4, 3)),)
    check_op(op_type, x, is_half=is_half, specs=specs, output_order=order)


def test_a_view_of_a_view_is_an_output(same_as_cpu: Check) -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (6, 4), TensorKind.APP_WRITE))
    params = {"axis": 0, "split_index": np.array((2,), np.uint32)}
    _, last = add_all(graph, "Split", [x], name="split", specs=(None, None), **params)
    spec = Spec(DType.FLOAT_32, (2, 8))
    (flat,) = add_all(graph, "Reshape", [last], name="flat", specs=(spec,))
    last.kind = flat.kind = TensorKind.APP_READ
    same_as_cpu(graph, {"x": numbered((6, 4))})


def test_stored_constant_of_a_pad_is_dequantized(same_as_cpu: Check) -> None:
    graph = Graph("net")
    encoding = ScaleOffset(0.5, -4)
    kind = DType.UFIXED_POINT_8
    x = graph.add_tensor(Tensor("x", kind, (3, 4), TensorKind.APP_WRITE, encoding=encoding))
    params = {"scheme": 0, "pad_amount": np.array([(1, 2), (0, 3)], np.uint32)}
    spec = Spec(kind, (6, 7), encoding)
    (y,) = add_all(graph, "Pad", [x], name="pad", specs=(spec,), pad_constant_value=9, **params)
    y.kind = TensorKind.APP_READ
    same_as_cpu(graph, {"x": numbered((3, 4), np.uint8)})


def test_a_view_of_a_view_is_not_copied(same_as_cpu: Callable[..., None]) -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (20, 1, 32), TensorKind.APP_WRITE))
    moved = add(graph, "Relu", [x], name="moved")
    rows = np.array([[19, 20, 1], [0, 1, 1], [0, 32, 1]], np.int32)
    last = add(graph, "StridedSlice", [moved], name="last", ranges=rows)
    row = add(graph, "Reshape", [last], name="row", spec=Spec(DType.FLOAT_32, (1, 32)))
    y = add(graph, "Relu", [row], name="y")
    y.kind = TensorKind.APP_READ
    with mock.patch.object(movement, "copied") as copied:
        same_as_cpu(graph, {"x": numbered((20, 1, 32)) - 600})
    copied.assert_not_called()
