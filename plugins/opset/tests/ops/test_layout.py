"""Moves: every element is where its indices say, in its type and with its encoding."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_inputs import numbered

from dovetail.errors import GraphError, OpError
from dovetail.ir import (
    Array,
    AxisScaleOffset,
    DType,
    Graph,
    Scalar,
    ScaleOffset,
    Shape,
    Spec,
    Tensor,
    TensorKind,
)
from dovetail.ops import OpRegistry, check_ops
from dovetail_opset import PACKAGE
from dovetail_opset.build import add, static
from dovetail_opset.ops.slicing import PadScheme

Run = Callable[..., Any]
shapes = st.lists(st.integers(0, 3), max_size=4).map(tuple)


@given(shapes, st.randoms())
def test_transpose(run_op: Run, shape: Shape, random: Any) -> None:
    x, perm = numbered(shape), random.sample(range(len(shape)), len(shape))
    y = run_op("Transpose", x, perm=perm)
    assert y.shape == tuple(shape[p] for p in perm)
    for place, value in np.ndenumerate(y):
        source = [0] * len(shape)
        for to, axis in enumerate(perm):
            source[axis] = place[to]
        assert value == x[tuple(source)]


@given(shapes, st.integers(0, 3))
def test_reshape_expand_squeeze(run_op: Run, shape: Shape, at: int) -> None:
    x, at = numbered(shape, np.int32), min(at, len(shape))
    wider = (*shape[:at], 1, *shape[at:])
    expanded = run_op("ExpandDims", x, axis=at)
    assert (expanded.shape, expanded.dtype) == (wider, np.int32)
    back = run_op("Squeeze", expanded, axes=[at])
    np.testing.assert_array_equal(back, x)
    flat = run_op("Reshape", x, specs=(Spec(DType.INT_32, (x.size,)),))
    assert flat.tolist() == list(range(x.size))


def test_expand_and_squeeze_without_their_params(run_op: Run) -> None:
    x = numbered((1, 2, 1, 3))
    assert run_op("Squeeze", x).shape == (2, 3)
    declared = Spec(DType.FLOAT_32, (2, 1, 3))
    assert run_op("Squeeze", x, specs=(declared,)).shape == (2, 1, 3)
    assert run_op("ExpandDims", x, axis=0, axes=[0, 3]).shape == (1, 1, 2, 1, 1, 3)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=4), st.integers(0, 2))
def test_concat_and_split_are_inverse(run_op: Run, extents: list[int], axis: int) -> None:
    def piece(i: int, extent: int) -> Array:
        shape = [2, 3, 2]
        shape[axis] = extent
        return numbered(tuple(shape)) + 100 * i

    pieces = [piece(i, n) for i, n in enumerate(extents)]
    whole = run_op("Concat", *pieces, axis=axis)
    begins = [sum(extents[:i]) for i in range(len(extents))]
    for i, begin in enumerate(begins):
        for place, value in np.ndenumerate(pieces[i]):
            moved = list(place)
            moved[axis] += begin
            assert whole[tuple(moved)] == value
    parts = run_op("Split", whole, axis=axis, split_index=begins[1:])
    for part, want in zip(parts, pieces, strict=True):
        np.testing.assert_array_equal(part, want)


def test_axis_of_concat_is_the_last_one(run_op: Run) -> None:
    assert run_op("Concat", numbered((2, 3)), numbered((2, 1))).shape == (2, 4)


def test_encodings_move_with_their_axes() -> None:
    graph = Graph("g")
    scales = np.array([0.5, 0.25, 2], np.float32)
    stored = numbered((3, 4), np.uint8)
    x = static(graph, "x", stored, DType.UFIXED_POINT_8, encoding=AxisScaleOffset(0, scales))
    turned = add(graph, "Transpose", [x], name="t", perm=[1, 0])
    assert turned.encoding == AxisScaleOffset(1, scales)
    spec = Spec(DType.UFIXED_POINT_8, (12,))
    assert add(graph, "Reshape", [x], name="ok", spec=spec).encoding is None  # as declared
    wider = add(graph, "ExpandDims", [x], name="e", axis=0)
    assert wider.encoding == AxisScaleOffset(1, scales)


def test_stored_integers_move_untouched(evaluate: Callable[..., Any]) -> None:
    # With one encoding throughout no value is looked at: not even what rounds elsewhere.
    graph = Graph("g")
    code = ScaleOffset(1e-3, -3)
    x = Tensor("x", DType.UFIXED_POINT_8, (2, 2), TensorKind.APP_WRITE, encoding=code)
    graph.add_tensor(x)
    add(graph, "Concat", [x, x], name="c", axis=0)
    stored = np.array([[0, 255], [1, 254]], np.uint8)
    np.testing.assert_array_equal(
        evaluate(graph, {"x": stored})["c"], np.concatenate([stored, stored])
    )


def test_concat_of_two_encodings_goes_through_real_values(evaluate: Callable[..., Any]) -> None:
    graph = Graph("g")
    fine, coarse = ScaleOffset(0.5), ScaleOffset(1.0)
    inputs = [
        graph.add_tensor(Tensor(n, DType.UFIXED_POINT_8, (2,), TensorKind.APP_WRITE, encoding=e))
        for n, e in (("a", fine), ("b", coarse))
    ]
    spec = Spec(DType.UFIXED_POINT_8, (4,), coarse)
    add(graph, "Concat", inputs, name="c", spec=spec)
    feeds = {"a": np.array([4, 6], np.uint8), "b": np.array([4, 6], np.uint8)}
    np.testing.assert_array_equal(evaluate(graph, feeds)["c"], [2, 3, 4, 6])


PAD_MODES = {
    PadScheme.MIRROR_SYMMETRIC: lambda i, n: (
        (i % (2 * n)) if i % (2 * n) < n else 2 * n - 1 - i % (2 * n)
    ),
    PadScheme.MIRROR_REFLECT: lambda i, n: abs(i) if i < n else 2 * (n - 1) - i,
    PadScheme.EDGE: lambda i, n: min(max(i, 0), n - 1),
}


@pytest.mark.parametrize("scheme", PadScheme)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(0, 3)), max_size=3))
def test_pad(scheme: PadScheme, run_op: Run, axes: list[tuple[int, int, int]]) -> None:
    x = numbered(tuple(n for n, _, _ in axes))
    most = {PadScheme.MIRROR_SYMMETRIC: 0, PadScheme.MIRROR_REFLECT: 1}.get(scheme, -9)
    pads = [(min(b, n - most), min(a, n - most)) for n, b, a in axes]
    amount = np.array(pads).reshape(-1, 2)
    y = run_op("Pad", x, scheme=scheme, pad_amount=amount, pad_constant_value=-7.0)
    for place, value in np.ndenumerate(y):
        at = [p - before for p, (before, _) in zip(place, pads, strict=True)]
        if scheme is PadScheme.CONSTANT:
            inside = all(0 <= i < n for i, n in zip(at, x.shape, strict=True))
            assert value == (x[tuple(at)] if inside else -7)
        else:
            source = [PAD_MODES[scheme](i, n) for i, n in zip(at, x.shape, strict=True)]
            assert value == x[tuple(source)]


@pytest.mark.parametrize(("value", "stored"), [(None, 10), (7, 7), (1.0, 12)])
def test_pad_constant_of_fixed_point(
    evaluate: Callable[..., Any], value: float | None, stored: int
) -> None:
    # An integer is a stored value, a float a real one; left out it is the real 0.
    graph, code = Graph("g"), ScaleOffset(0.5, -10)
    x = Tensor("x", DType.UFIXED_POINT_8, (1,), TensorKind.APP_WRITE, encoding=code)
    graph.add_tensor(x)
    kind = PadScheme.CONSTANT
    add(graph, "Pad", [x], name="p", scheme=kind, pad_amount=[[1, 0]])
    node = graph.node("p")
    if value is not None:
        dtype = {int: DType.INT_32, float: DType.FLOAT_32}[type(value)]
        node.params["pad_constant_value"] = Scalar(dtype, value)
    np.testing.assert_array_equal(
        evaluate(graph, {"x": np.array([200], np.uint8)})["p"], [stored, 200]
    )


def test_pad_constant_of_bfloat16_is_a_number_and_not_bits(evaluate: Callable[..., Any]) -> None:
    graph = Graph("g")
    x = Tensor("x", DType.BFLOAT_16, (1,), TensorKind.APP_WRITE)
    graph.add_tensor(x)
    add(graph, "Pad", [x], name="p", scheme=0, pad_amount=[[1, 0]], pad_constant_value=1.0)
    stored = np.array([0x4000], np.uint16)
    np.testing.assert_array_equal(evaluate(graph, {"x": stored})["p"], [0x3F80, 0x4000])


def test_pad_refuses_a_stored_value_under_two_encodings() -> None:
    graph = Graph("g")
    u8, code = DType.UFIXED_POINT_8, ScaleOffset(0.5, -10)
    x = Tensor("x", u8, (1,), TensorKind.APP_WRITE, encoding=code)
    graph.add_tensor(x)
    add(graph, "Pad", [x], name="p", scheme=0, pad_amount=[[1, 0]])
    pad = graph.node("p")
    pad.params["pad_constant_value"] = Scalar(DType.INT_32, 7)
    check_ops(graph, OpRegistry.of(PACKAGE))
    pad.outputs[0].encoding = ScaleOffset(0.25)
    with pytest.raises(GraphError, match="pad_constant_value 7 means different real"):
        check_ops(graph, OpRegistry.of(PACKAGE))
    pad.params["pad_constant_value"] = Scalar(DType.FLOAT_32, 3.5)
    check_ops(graph, OpRegistry.of(PACKAGE))
    x.encoding = AxisScaleOffset(0, np.ones(1, np.float32))
    with pytest.raises(GraphError, match="no single stored value"):
        check_ops(graph, OpRegistry.of(PACKAGE))


bounds = st.tuples(st.integers(0, 5), st.integers(0, 6), st.integers(1, 3))


@given(st.lists(bounds, min_size=1, max_size=3), st.integers(0, 7), st.integers(0, 7), st.data())
def test_strided_slice(
    run_op: Run, rows: list[tuple[int, int, int]], begins: int, ends: int, data: Any
) -> None:
    x = numbered((4,) * len(rows))
    down = [data.draw(st.booleans()) for _ in rows]
    ranges = [(b, e - 1, -s) if d else (b, e, s) for (b, e, s), d in zip(rows, down, strict=True)]
    y = run_op("StridedSlice", x, ranges=ranges, begin_mask=begins, end_mask=ends)
    picked = []
    for i, (b, e, s) in enumerate(ranges):
        first = (3 if s < 0 else 0) if begins >> i & 1 else (min(b, 3) if s < 0 else b)
        last = (-1 if s < 0 else 4) if ends >> i & 1 else (e if s < 0 else min(e, 4))
        picked.append(list(range(first, last, s)))
    np.testing.assert_array_equal(y, x[np.ix_(*picked)])


def test_strided_slice_adds_and_drops_axes(run_op: Run) -> None:
    x = numbered((2, 3))
    ranges = [(1, 2, 1), (9, 9, 9), (0, 3, 2)]
    y = run_op("StridedSlice", x, ranges=ranges, shrink_axes=0b001, new_axes_mask=0b010)
    np.testing.assert_array_equal(y, [[3, 5]])
    backwards = run_op("StridedSlice", x, ranges=[(0, 2, 1), (2, -1, -1)])
    np.testing.assert_array_equal(backwards, [[2, 1, 0], [5, 4, 3]])


@given(shapes.filter(bool), shapes, st.data())
def test_gather(run_op: Run, shape: Shape, indices: Shape, data: Any) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = numbered(shape)
    count, extent = int(np.prod(indices)), shape[axis]
    if extent == 0:
        indices, count = (0,), 0
    each = st.integers(-extent, max(extent - 1, 0))
    values = data.draw(st.lists(each, min_size=count, max_size=count))
    chosen = np.array(values, np.int32).reshape(indices)
    y = run_op("Gather", x, chosen, axis=axis)
    assert y.shape == shape[:axis] + indices + shape[axis + 1 :]
    for place, value in np.ndenumerate(y):
        index = chosen[place[axis : axis + len(indices)]]
        own = (*place[:axis], index, *place[axis + len(indices) :])
        assert value == x[own]


REFUSED: list[tuple[str, list[Shape], dict[str, Any], str]] = [
    (
        "Transpose",
        [(2, 3)],
        {"perm": [0, 0]},
        "perm (0, 0) is not a permutation of the axes of (2, 3)",
    ),
    (
        "Reshape",
        [(2, 3)],
        {"specs": (Spec(DType.FLOAT_32, (4,)),)},
        "6 elements (2, 3) do not fill (4,)",
    ),
    ("Reshape", [(2, 3)], {}, "must declare the new shape"),
    ("Concat", [(2, 3), (3, 3)], {"axis": 1}, "in[1] (3, 3) differs from in[0] (2, 3)"),
    ("Concat", [(2, 3)], {}, "two or more tensors, but got 1"),
    ("Split", [(6,)], {"axis": 0, "split_index": [4, 2]}, "(4, 2) does not ascend from 0 to 6"),
    ("Split", [(6,)], {"axis": 0, "split_index": [4], "outputs": ["a"]}, "defines 2 pieces for 1"),
    ("Squeeze", [(1, 2)], {"axes": [1]}, "axes (1,) of (1, 2) are not all of size 1"),
    ("ExpandDims", [(2,)], {"axis": 2}, "axes: 2 is not an axis of a tensor of rank 2"),
    (
        "Pad",
        [(2,)],
        {"scheme": 2, "pad_amount": [(2, 0)]},
        "MIRROR_REFLECT cannot add (2, 0) to the 2",
    ),
    ("Pad", [(2,)], {"scheme": 1, "pad_amount": [(0, 3)]}, "cannot add (0, 3)"),
    ("Pad", [(2,)], {"scheme": 0, "pad_amount": [(0, 3)] * 2}, "has 2 rows for in[0] (2,)"),
    ("StridedSlice", [(2,)], {"ranges": [(0, 1, 0)]}, "has the stride 0"),
    ("StridedSlice", [(2,)], {"ranges": [(-1, 1, 1)]}, "begins before element 0"),
    ("StridedSlice", [(2,)], {"ranges": [(0, -1, 1)]}, "ends before element 0"),
    ("StridedSlice", [(2,)], {"ranges": [(2, 3, 1)], "shrink_axes": 1}, "takes element 2 of 2"),
    ("Gather", [(2,), (1,)], {"axis": 0}, "indices must be integers, but in[1] is FLOAT_32"),
]


@pytest.mark.parametrize(("name", "given_shapes", "params", "said"), REFUSED)
def test_refusals(
    run_op: Run, name: str, given_shapes: list[Shape], params: dict[str, Any], said: str
) -> None:
    with pytest.raises(OpError) as caught:
        run_op(name, *(numbered(s) for s in given_shapes), **params)
    assert said in str(caught.value)


def test_gather_refuses_an_index_out_of_range(run_op: Run) -> None:
    with pytest.raises(OpError, match="index -3 is out of range on axis 0, which has size 2"):
        run_op("Gather", numbered((2, 2)), np.array([0, -3], np.int32), axis=0)
