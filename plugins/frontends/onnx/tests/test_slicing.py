"""Slice, Gather and Pad against the peer."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32, I64 = np.float32, np.int64
FAR = 2**63 - 1


def data(*shape, dtype=F32):
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


def ints(*values):
    return np.array(values, I64)


def test_slice_by_attributes(check) -> None:
    check("Slice", [data(5, 6)], opset=9, starts=[1, -3], ends=[4, FAR], axes=[0, 1])
    check("Slice", [data(5, 6)], opset=7, starts=[0, 1], ends=[2, 100])


@pytest.mark.parametrize("opset", [10, 11, 13])
@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([1], [4], [0], [1]),
        ([-2], [FAR], [1], [1]),
        ([0, 1], [5, 6], [0, 1], [2, 3]),
        ([-1], [-FAR], [0], [-1]),
        ([4], [0], [1], [-2]),
        ([100], [-100], [1], [-1]),
        ([3], [1], [0], [1]),
        ([0], [FAR], [0], [1]),
    ],
)
def test_slice_by_inputs(check, opset, starts, ends, axes, steps) -> None:
    known = [ints(*v) for v in (starts, ends, axes, steps)]
    check("Slice", [data(5, 6)], known=known, opset=opset)


def test_slice_with_defaults_and_axes_from_the_end(check) -> None:
    check("Slice", [data(5, 6)], known=[ints(1, 2), ints(3, 4)])
    check("Slice", [data(5, 6)], known=[ints(1), ints(3), ints(-1)])


@pytest.mark.parametrize("opset", [7, 11, 13])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [np.int32, I64])
def test_gather(check, opset, axis, dtype) -> None:
    indices = np.array([[0, 2], [1, 1]], dtype)
    check("Gather", [data(3, 4)], known=[indices], opset=opset, axis=axis)
    check("Gather", [data(3, 4), indices], opset=opset, axis=axis)


def test_gather_of_one_element_and_from_the_end(check) -> None:
    check("Gather", [data(3, 4)], known=[np.array(-1, I64)], axis=1)
    check("Gather", [data(3, 4), np.array(2, I64)])
    check("Gather", [data(3, 4), ints(-1, 0)])


def test_an_embedding_reads_a_table(agree, model) -> None:
    node = helper.make_node("Gather", ["table", "i"], ["y"])
    indices = ints(1, 0, 3)
    graph = agree(model([node], {"i": indices}, ["y"], {"table": data(4, 3)}), {"i": indices})
    np.testing.assert_array_equal(graph.tensor("table").values(), data(4, 3))


def test_gather_beyond_the_end_is_refused(model, read) -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"], name="take")
    with pytest.raises(FrontendError, match="index 3 is out of range for 3 elements") as caught:
        read(model([node], {"x": data(3, 4)}, ["y"], {"i": ints(0, 3)}))
    assert caught.value.problems[0].where == "Gather node 'take'"


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad_by_attributes(check, mode) -> None:
    check("Pad", [data(3, 4)], opset=7, mode=mode, pads=[1, 0, 2, 1], value=1.5)


@pytest.mark.parametrize("opset", [11, 13, 18, 19, 21, 23, 24, 25])
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad_by_inputs(check, opset, mode) -> None:
    known = [ints(1, 0, 2, 1)]
    check("Pad", [data(3, 4)], known=known, opset=opset, mode=mode)
    if mode == "constant":
        check("Pad", [data(3, 4)], known=[*known, np.array(-2, F32)], opset=opset)


def test_pad_of_some_axes_and_of_integers(check) -> None:
    check("Pad", [data(3, 4)], known=[ints(1, 2), None, ints(-1)], opset=18)
    check("Pad", [data(3, 4, dtype=np.int32)], known=[ints(0, 1, 1, 0), np.array(7, np.int32)])


@pytest.mark.parametrize("pads", [(-1, 0, 0, -2), (-1, 1, 2, -1), (0, 0, 0, 0)])
def test_pad_may_cut(check, pads) -> None:
    check("Pad", [data(3, 4)], known=[ints(*pads)])


def test_what_pad_cannot_do_is_refused(model, read) -> None:
    mirror = helper.make_node("Pad", ["x", "p"], ["y"], mode="mirror")
    amounts = helper.make_node("Pad", ["x", "q"], ["z"])
    given = {"x": data(3, 4), "q": ints(1, 1, 1, 1)}
    with pytest.raises(UnsupportedOpError) as caught:
        read(model([mirror, amounts], given, ["y", "z"], {"p": ints(1, 1, 1, 1)}, opset=19))
    first, second = caught.value.problems
    assert (
        "unsupported mode 'mirror'; expected one of constant, reflect, edge, wrap" in first.message
    )
    assert "pads 'q' is computed from the model's inputs" in second.message
