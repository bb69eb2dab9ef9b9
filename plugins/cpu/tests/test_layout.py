"""Ops that move elements: any type, bit by bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import BackendError
from dovetail.ir import DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail_opset.build import add

DTYPES = [np.float32, np.float16, np.int8, np.int64, np.uint16, np.bool_]
dtypes = st.sampled_from(DTYPES)
shapes = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


def elements(seed, dtype, *shape):
    return np.random.default_rng(seed).integers(0, 99, shape).astype(dtype)


def spec(x, *shape):
    return [Spec(DType.of(np.dtype(x.dtype)), shape)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_reshape(check_op, dtype):
    x = elements(1, dtype, 2, 3, 4)
    check_op("Reshape", x, specs=spec(x, 6, 4))
    check_op("ExpandDims", x, axis=0, axes=np.array([1, 3], np.uint32))
    check_op("Squeeze", x[:, :1], specs=spec(x, 2, 4))


def test_a_view_between_two_nodes_costs_nothing(run_graph, evaluate, whole):
    graph = Graph("views")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (4, 6), TensorKind.APP_WRITE))
    a = add(graph, "ElementWiseNeg", [x], name="a")
    b = add(graph, "Reshape", [a], name="b", spec=Spec(DType.FLOAT_32, (2, 12)))
    c = add(graph, "ExpandDims", [b], name="c", axis=1)
    d = add(graph, "ElementWiseAbs", [c], name="d")
    e = add(graph, "ElementWiseAdd", [d, c], name="e")
    e.kind = TensorKind.APP_READ
    feeds = {"x": whole(1, 4, 6)}
    ran = run_graph(graph, feeds)
    np.testing.assert_array_equal(ran.outputs["e"], evaluate(graph, feeds)["e"])
    # `a` with its views is one piece, `d` another: not four
    assert ran.prepared.arena.nbytes == 2 * 128


def test_views_of_the_inputs_follow_new_buffers(prepare, whole):
    from dovetail.runtime.contract import RunControl

    graph = Graph("views")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (4, 6), TensorKind.APP_WRITE))
    b = add(graph, "Reshape", [x], name="b", spec=Spec(DType.FLOAT_32, (2, 12)))
    e = add(graph, "ElementWiseAbs", [b], name="e")
    e.kind = TensorKind.APP_READ
    prepared = prepare(graph)
    for seed in range(3):
        feed, out = whole(seed, 4, 6), np.empty((2, 12), np.float32)
        prepared.run({"x": feed}, {"e": out}, RunControl())
        np.testing.assert_array_equal(out, np.abs(feed).reshape(2, 12))


@settings(max_examples=30)
@given(shapes, st.data(), dtypes)
def test_transpose(check_op, shape, data, dtype):
    perm = data.draw(st.permutations(range(len(shape))))
    check_op("Transpose", elements(1, dtype, *shape), perm=np.array(perm, np.uint32))


@settings(max_examples=40)
@given(shapes, st.data(), dtypes, st.lists(st.integers(1, 4), min_size=2, max_size=4))
def test_concat_and_split(check_op, shape, data, dtype, extents):
    axis = data.draw(st.integers(0, len(shape) - 1))
    parts = [
        elements(i, dtype, *shape[:axis], n, *shape[axis + 1 :]) for i, n in enumerate(extents)
    ]
    check_op("Concat", *parts, static=(1,), axis=axis)
    bounds = np.cumsum(extents)[:-1].astype(np.uint32)
    check_op("Split", np.concatenate(parts, axis), axis=axis, split_index=bounds)


def test_concat_of_a_tensor_with_itself(run_graph, whole):
    graph = Graph("twice")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE))
    t = add(graph, "ElementWiseNeg", [x], name="t")
    y = add(graph, "Concat", [t, t], name="y", axis=0)
    y.kind = TensorKind.APP_READ
    feed = whole(1, 2, 3)
    out = run_graph(graph, {"x": feed}).outputs["y"]
    np.testing.assert_array_equal(out, np.concatenate([-feed, -feed]))


@settings(max_examples=40)
@given(shapes, st.data(), st.sampled_from([np.float32, np.int8, np.int64]))
def test_pad(check_op, shape, data, dtype):
    pairs = [[data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))] for _ in shape]
    params = {"pad_amount": pairs, "pad_constant_value": data.draw(st.sampled_from([0.0, 3.0]))}
    check_op("Pad", elements(1, dtype, *shape), scheme=0, **params)


@settings(max_examples=40)
@given(shapes, st.data(), st.sampled_from([np.float32, np.uint8]), st.sampled_from([1, 2, 3]))
def test_pad_with_copies(check_op, shape, data, dtype, scheme):
    most = [{1: size, 2: max(size - 1, 0), 3: 5 * bool(size)}[scheme] for size in shape]
    pairs = [[data.draw(st.integers(0, n)), data.draw(st.integers(0, n))] for n in most]
    check_op("Pad", elements(1, dtype, *shape), scheme=scheme, pad_amount=pairs)


def test_a_bfloat16_constant_is_a_number_and_not_bits(run_graph):
    graph = Graph("pad")
    x = graph.add_tensor(Tensor("x", DType.BFLOAT_16, (1,), TensorKind.APP_WRITE))
    y = add(graph, "Pad", [x], name="y", scheme=0, pad_amount=[[1, 0]], pad_constant_value=1.0)
    y.kind = TensorKind.APP_READ
    found = run_graph(graph, {"x": np.array([0x4000], np.uint16)}).outputs["y"]
    np.testing.assert_array_equal(found, [0x3F80, 0x4000])


@pytest.mark.parametrize("dtype", DTYPES)
def test_strided_slice(check_op, dtype):
    x = elements(1, dtype, 6, 7, 3)
    ranges = np.array([[1, 6, 2], [5, 1, -2], [1, 2, 1]], np.int32)
    check_op("StridedSlice", x, ranges=ranges)
    check_op("StridedSlice", x, ranges=ranges, shrink_axes=0b100, begin_mask=0b001)


PIECES = {
    "rows": ((6, 7, 3), [[2, 5, 1], [0, 7, 1], [0, 3, 1]], {}),
    "one row": ((6, 7, 3), [[5, 6, 1], [0, 7, 1], [0, 3, 1]], {"shrink_axes": 0b001}),
    "part of a row": ((6, 7, 3), [[4, 5, 1], [1, 4, 1], [0, 3, 1]], {"shrink_axes": 0b001}),
    "after an axis of size 1": ((1, 7, 3), [[0, 1, 1], [3, 6, 1], [0, 3, 1]], {}),
    "one element": ((6, 7), [[5, 6, 1], [6, 7, 1]], {}),
    "a number": ((6, 7), [[5, 6, 1], [6, 7, 1]], {"shrink_axes": 0b11}),
    "a new axis": ((6, 7), [[0, 0, 1], [3, 5, 1], [0, 7, 1]], {"new_axes_mask": 0b001}),
    "a step within a row": ((1, 7), [[0, 1, 1], [0, 7, 2]], {}),
    "backwards": ((6, 7), [[5, 2, -1], [0, 7, 1]], {}),
    "all but one column": ((6, 7), [[0, 6, 1], [1, 7, 1]], {}),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", PIECES)
def test_slices_in_one_piece_and_others(check_op, dtype, case):
    shape, ranges, params = PIECES[case]
    check_op("StridedSlice", elements(1, dtype, *shape), ranges=np.array(ranges), **params)


@pytest.mark.parametrize(
    ("rows", "taken", "is_view"),
    [(64, 1, True), (1 << 16, 1, False), (1 << 16, 1 << 15, True)],
)
def test_a_small_part_of_a_great_tensor_is_copied(run_graph, rows, taken, is_view):
    """A view would keep the whole tensor in memory while the part is read."""
    graph = Graph("part")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (rows, 4), TensorKind.APP_WRITE))
    t = add(graph, "ElementWiseNeg", [x], name="t")
    ranges = [[rows - taken, rows, 1], [0, 4, 1]]
    part = add(graph, "StridedSlice", [t], name="part", ranges=ranges)
    y = add(graph, "ElementWiseNeg", [part], name="y")
    y.kind = TensorKind.APP_READ
    feed = elements(1, np.float32, rows, 4)
    ran = run_graph(graph, {"x": feed})
    np.testing.assert_array_equal(ran.outputs["y"], feed[-taken:])
    (step,) = [s for s in ran.prepared.steps if s.nodes == ("part",)]
    assert (step.writes[0].alias_of is not None) is is_view


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64, np.uint8])
def test_gather(check_op, dtype, index_dtype):
    data = elements(1, dtype, 4, 5, 3)
    indices = np.array([[0, 4], [2, 2]], index_dtype)
    for static in ((), (1,)):
        check_op("Gather", data, indices, static=static, axis=1)


# Few elements are gathered by another call of NumPy than many.
@pytest.mark.parametrize("width", [3, 5000])
def test_gather_counts_from_the_end(check_op, width):
    check_op("Gather", elements(1, np.float32, 4, width), np.array([-1, -4, 3], np.int32), axis=0)


@pytest.mark.parametrize("width", [3, 5000])
@pytest.mark.parametrize("index", [4, -5, 2**32, 2**32 + 1, -(2**32) - 1, -(2**63)])
def test_gather_out_of_range_names_the_node(run_graph, op_graph, index, width):
    data = elements(1, np.float32, 4, width)
    graph, feeds = op_graph("Gather", [data, np.array([0, index])], axis=0)
    with pytest.raises(BackendError, match=f"index {index} is out of range on axis 0") as caught:
        run_graph(graph, feeds)
    assert "'op'" in caught.value.where


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_cast(check_op, source, target):
    x = elements(1, source, 3, 4)
    check_op("Cast", x, specs=[Spec(DType.of(np.dtype(target)), (3, 4))])


def test_a_cast_of_integers_keeps_the_low_bits(check_op):
    x = np.array([2**32 + 1, -(2**32) - 1, 2**31, -1], np.int64)
    out = check_op("Cast", x, specs=[Spec(DType.INT_32, (4,))])
    np.testing.assert_array_equal(out["op"], [1, -1, -(2**31), -1])


def test_floats_beyond_integers_become_their_limits(check_op):
    x = np.float32([np.nan, np.inf, -np.inf, 1e30, -1e30, 2.9])
    check_op("Cast", x, specs=[Spec(DType.INT_32, (6,))])


@pytest.mark.parametrize("target", [DType.UINT_8, DType.INT_8, DType.INT_32, DType.INT_64])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, -1e30, 2.9, -2.9, 255.5, -129])
def test_a_single_float_becomes_an_integer_in_the_same_way(check_op, value, target):
    check_op("Cast", np.float32([[value]]), specs=[Spec(target, (1, 1))])


def test_cast_to_four_bits_is_left_to_the_reference(check_op):
    x = np.array([-20, -3, 0, 7, 90], np.int8)
    target = Spec(DType.SFIXED_POINT_4, (5,), ScaleOffset(1.0))
    check_op("Cast", x, kernel=False, specs=[target])


def test_another_encoding_is_no_mere_move(run_graph, evaluate):
    """Concat of two encodings must convert the first."""
    graph = Graph("encodings")
    # thirds: no value is halfway between two, where simulation and definition differ
    fine, coarse = ScaleOffset(0.1, -10), ScaleOffset(0.3, -3)
    tensors = [
        graph.add_tensor(
            Tensor(name, DType.UFIXED_POINT_8, (2, 3), TensorKind.APP_WRITE, encoding=encoding)
        )
        for name, encoding in (("a", fine), ("b", coarse))
    ]
    spec = Spec(DType.UFIXED_POINT_8, (4, 3), coarse)
    add(graph, "Concat", tensors, name="y", axis=0, spec=spec).kind = TensorKind.APP_READ
    feeds = {name: elements(i, np.uint8, 2, 3) for i, name in enumerate("ab")}
    ran = run_graph(graph, feeds)
    np.testing.assert_array_equal(ran.outputs["y"], evaluate(graph, feeds)["y"])
    np.testing.assert_array_equal(ran.outputs["y"][2:], feeds["b"])
