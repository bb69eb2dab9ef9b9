"""Places of elements against the peer."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32, I64 = np.float32, np.int64
N = helper.make_node


def tied(rng, *shape, dtype=F32):
    """Few different numbers, so that many are equal."""
    return rng.integers(0, 4, shape).astype(dtype)


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("opset", [7, 11, 12, 13])
@pytest.mark.parametrize("axis", [None, 0, 1, 2])
@pytest.mark.parametrize("keep", [0, 1])
def test_extremes(check, rng, op_type, opset, axis, keep) -> None:
    given = {} if axis is None else {"axis": axis}
    check(op_type, [tied(rng, 3, 4, 5)], opset=opset, keepdims=keep, **given)
    if opset >= 12:
        given["select_last_index"] = 1
        check(op_type, [tied(rng, 3, 4, 5)], opset=opset, keepdims=keep, **given)


def test_extremes_of_integers(check, rng) -> None:
    check("ArgMax", [tied(rng, 3, 4, dtype=np.int32)], axis=-1)
    check("ArgMin", [tied(rng, 3, 4, dtype=np.int32)], axis=-1, select_last_index=1)


@pytest.mark.parametrize("opset", [7, 10, 11, 24])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_top_k_takes_the_first_of_equal_elements(check, rng, opset, axis, k) -> None:
    x = tied(rng, 3, 4, 5)
    given = {"opset": opset, "outputs": 2} | ({} if axis is None else {"axis": axis})
    if opset < 10:
        check("TopK", [x], k=k, **given)
        return
    check("TopK", [x], known=[np.array([k], I64)], **given)
    if opset >= 11:
        check("TopK", [x], known=[np.array([k], I64)], largest=0, **given)


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int64])
def test_top_k_of_other_types(check, rng, dtype) -> None:
    check("TopK", [tied(rng, 3, 5, dtype=dtype)], known=[np.array([5], I64)], outputs=2)


def test_top_k_of_nothing(check) -> None:
    check("TopK", [np.ones((2, 0), F32)], known=[np.array([0], I64)], outputs=2)
    check("TopK", [np.ones((2, 3), F32)], known=[np.array([0], I64)], outputs=2)


@pytest.mark.parametrize("wanted", ["values", "indices"])
@pytest.mark.parametrize("axis", [0, 1])
def test_top_k_of_which_one_output_is_used(agree, model, rng, wanted, axis) -> None:
    nodes = [N("TopK", ["x", "k"], ["values", "indices"], axis=axis)]
    nodes.append(N("Cast", [wanted], ["y"], to=helper.np_dtype_to_tensor_dtype(np.dtype("f4"))))
    known = {"k": np.array([2], I64)}
    x = tied(rng, 3, 4)
    agree(model(nodes, {"x": x}, ["y"], known), {"x": x})


def test_top_k_of_too_many_is_an_error(model, read) -> None:
    made = model([N("TopK", ["x", "k"], ["v", "i"])], {"x": np.ones((2, 3), F32)}, ["v"])
    made.graph.initializer.append(helper.make_tensor("k", 7, [1], [4]))
    with pytest.raises(FrontendError, match=r"k is 4, but axis 1 of \(2, 3\) has 3 elements"):
        read(made)


def test_non_zero_of_constants_is_known_at_import(read, run, model) -> None:
    known = {"c": np.array([[0, 3], [4, 0]], F32)}
    nodes = [N("NonZero", ["c"], ["n"]), N("Add", ["n", "x"], ["y"])]
    graph = read(model(nodes, {"x": np.zeros((2, 2), I64)}, ["y"], known))
    assert [n.op_type for n in graph.nodes] == ["ElementWiseAdd"]
    (found,) = run(graph, {"x": np.zeros((2, 2), I64)}).values()
    np.testing.assert_array_equal(found, [[0, 1], [1, 0]])


def test_non_zero_of_what_a_run_gives_is_refused(read, model) -> None:
    with pytest.raises(UnsupportedOpError, match="shape of its output depends on the data"):
        read(model([N("NonZero", ["x"], ["y"])], {"x": np.zeros((2, 2), F32)}, ["y"]))
