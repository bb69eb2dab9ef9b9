"""Gathering by index against the peer; Gather itself is in test_slicing.py."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32, I64 = np.float32, np.int64
N = helper.make_node


def data(*shape, dtype=F32):
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


def ints(*values):
    return np.array(values, I64)


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", [np.int32, I64])
def test_gather_elements(check, opset, axis, dtype) -> None:
    indices = np.array([[0, 2, -1], [1, 1, -3]], dtype)
    for known in (True, False):
        inputs = [data(3, 3)] if known else [data(3, 3), indices]
        check("GatherElements", inputs, known=[indices] * known, opset=opset, axis=axis)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shape", [(1, 512), (1, 5), (40, 40)])
def test_gather_elements_at_import(check, axis, shape) -> None:
    indices = np.array([[0, -1, 0]] if shape[0] == 1 and axis == 0 else [[0, 2, -1]], I64)
    graph = check("GatherElements", [], known=[data(*shape), indices], axis=axis)
    assert not any(node.op_type == "GatherElements" for node in graph.nodes)


@pytest.mark.parametrize("opset", [11, 12, 13])
@pytest.mark.parametrize("indices", [[[0, 1], [1, -2]], [[[1]], [[-2]]], [[1, 0, 2]]])
def test_gather_nd(check, opset, indices) -> None:
    x, rows = data(2, 2, 3), np.array(indices, I64)
    check("GatherND", [x, rows], opset=opset)
    check("GatherND", [x], known=[rows], opset=opset)


@pytest.mark.parametrize("opset", [12, 13])
def test_gather_nd_of_a_batch(check, opset) -> None:
    rows = np.array([[[1]], [[-3]]], I64)
    check("GatherND", [data(2, 3, 4), rows], opset=opset, batch_dims=1)
    check("GatherND", [data(2, 3, 4)], known=[rows], opset=opset, batch_dims=1)


@pytest.mark.parametrize("opset", [9, 11, 28])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("keep", [[False, True], [True, True, True], [False]])
def test_compress(check, opset, axis, keep) -> None:
    condition = np.array(keep)
    attributes = {} if axis is None else {"axis": axis}
    check("Compress", [data(3, 4)], known=[condition], opset=opset, **attributes)


def test_compress_by_the_data_is_refused(model, read) -> None:
    node = N("Compress", ["x", "c"], ["y"], axis=0)
    with pytest.raises(
        UnsupportedOpError,
        match="condition 'c' is computed from the model's inputs; it must be known when",
    ):
        read(model([node], {"x": data(3), "c": np.ones(3, np.bool_)}, ["y"]))


@pytest.mark.parametrize("opset", [10, 28])
@pytest.mark.parametrize("time", [0, 1])
@pytest.mark.parametrize("rest", [(), (2,), (0,)])
def test_reverse_sequence(check, opset, time, rest) -> None:
    shape = (4, 3) if time == 0 else (3, 4)
    axes = {"time_axis": time, "batch_axis": 1 - time}
    check("ReverseSequence", [data(*shape, *rest)], known=[ints(4, 1, 3)], opset=opset, **axes)
    # the whole sequences: one op along the axis
    whole = check("ReverseSequence", [data(*shape, *rest)], known=[ints(4, 4, 4)], **axes)
    assert [node.op_type for node in whole.nodes] == ["Gather"]


def test_lengths_from_the_data_are_refused(model, read) -> None:
    node = N("ReverseSequence", ["x", "n"], ["y"])
    with pytest.raises(
        UnsupportedOpError,
        match="sequence_lens 'n' is computed from the model's inputs; it must be known",
    ):
        read(model([node], {"x": data(3, 2), "n": ints(1, 2)}, ["y"]))


@pytest.mark.parametrize(
    ("node", "known", "said"),
    [
        (
            N("GatherElements", ["x", "k"], ["y"], name="n"),
            [[3, 0]],
            "index 3 is out of range for 3 elements",
        ),
        (
            N("GatherND", ["x", "k"], ["y"], name="n"),
            [[0, 4], [1, -5]],
            "index 4 is out of range for 4 elements",
        ),
        (N("GatherND", ["x", "k"], ["y"], name="n"), [[0, 1, 2]], "rows of 3 indices are too long"),
        (
            N("GatherND", ["x", "k"], ["y"], name="n", batch_dims=2),
            [[0]],
            r"batch_dims 2 do not match data \(3, 4\) and indices \(1, 1\)",
        ),
        (
            N("ReverseSequence", ["x", "k"], ["y"], name="n"),
            [1, 4, 1, 1],
            r"sequence_lens \[1, 4, 1, 1\] do not match \(3, 4\)",
        ),
        (N("ReverseSequence", ["x", "k"], ["y"], name="n", time_axis=1), [1, 1, 1], "must be 0"),
    ],
)
def test_what_the_model_must_not_say(model, read, node, known, said) -> None:
    with pytest.raises(FrontendError, match=said) as caught:
        read(model([node], {"x": data(3, 4)}, ["y"], {"k": np.array(known, I64)}))
    assert "node 'n'" in caught.value.problems[0].where
