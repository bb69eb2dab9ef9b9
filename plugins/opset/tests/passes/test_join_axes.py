"""Moves, slices, gathers and repetitions of many axes as those of few."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.ir import DType, Graph, Spec, Tensor, TensorKind, find_faults
from dovetail_opset.build import add, static
from dovetail_opset.passes import FoldConstants, JoinAxes, RemoveIdentities
from dovetail_opset.passes.join_axes import joined, steps_of

Evaluate = Callable[..., Any]
F32 = DType.FLOAT_32


def output(graph: Graph, tensor: Tensor) -> None:
    y = Tensor("y", F32, tensor.shape, TensorKind.APP_READ)
    add(graph, "Relu", [tensor], name="out", outputs=y)


def test_windows_of_an_image_have_five_axes(evaluate: Evaluate) -> None:
    graph = Graph("g")
    x = graph.add_tensor(Tensor("x", F32, (1, 4, 6, 5), TensorKind.APP_WRITE))
    cut = add(graph, "Reshape", [x], name="cut", spec=Spec(F32, (1, 2, 2, 3, 2, 5)))
    moved = add(graph, "Transpose", [cut], name="windows", perm=[0, 1, 3, 2, 4, 5])
    flat = add(graph, "Reshape", [moved], name="flat", spec=Spec(F32, (6, 4, 5)))
    output(graph, flat)
    feed = {"x": np.arange(120, dtype=np.float32).reshape(x.shape)}
    before = evaluate(graph, feed)["y"]
    assert JoinAxes().run(graph)
    assert not JoinAxes().run(graph)
    RemoveIdentities().run(graph)
    assert [node.op_type for node in graph.nodes] == ["Reshape", "Transpose", "Reshape", "Relu"]
    small = graph.node("windows.moved")
    assert small.outputs[0].shape == (2, 3, 2, 10)
    assert not find_faults(graph)
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)


@given(st.data())
def test_transposes_with_joined_axes_move_the_same_data(data: st.DataObject) -> None:
    rank = data.draw(st.integers(6, 8))
    shape = tuple(data.draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank)))
    perm = tuple(data.draw(st.permutations(range(rank))))
    small, moves = joined(shape, perm)
    values = np.arange(int(np.prod(shape)))
    wanted = values.reshape(shape).transpose(perm)
    found = values.reshape(small).transpose(moves)
    np.testing.assert_array_equal(found.reshape(-1), wanted.reshape(-1))
    assert not any(b == a + 1 for a, b in pairwise(moves)), "neighbors that stay are one axis"


@given(st.data())
def test_a_transpose_of_many_axes_is_one_of_several_with_few(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 9))
    shape = tuple(data.draw(st.lists(st.integers(1, 3), min_size=count, max_size=count)))
    perm = tuple(data.draw(st.permutations(range(count))))
    values = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    found = values
    steps = list(steps_of(shape, perm))
    for small, moves in steps:
        assert len(small) <= 5
        found = found.reshape(small).transpose(moves)
    assert len(steps) <= max(1, count - 4)
    np.testing.assert_array_equal(found.reshape(-1), values.transpose(perm).reshape(-1))


def test_windows_of_a_volume_are_moved_in_two_steps(evaluate: Evaluate) -> None:
    graph = Graph("g")
    x = graph.add_tensor(Tensor("x", F32, (1, 4, 6, 4, 5), TensorKind.APP_WRITE))
    cut = add(graph, "Reshape", [x], name="cut", spec=Spec(F32, (1, 2, 2, 3, 2, 2, 2, 5)))
    perm = [0, 1, 3, 5, 2, 4, 6, 7]
    moved = add(graph, "Transpose", [cut], name="windows", perm=perm)
    output(graph, add(graph, "Reshape", [moved], name="flat", spec=Spec(F32, (12, 8, 5))))
    feed = {"x": np.arange(480, dtype=np.float32).reshape(x.shape)}
    before = evaluate(graph, feed)["y"]
    assert JoinAxes().run(graph)
    assert not JoinAxes().run(graph)
    RemoveIdentities().run(graph)
    moves = ["Reshape", "Transpose"] * 2
    assert [node.op_type for node in graph.nodes] == [*moves, "Reshape", "Relu"]
    assert all(len(tensor.shape) <= 5 for node in graph.nodes for tensor in node.outputs)
    assert not find_faults(graph)
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)


@pytest.mark.parametrize(
    ("ranges", "shrink", "small"),
    [
        ([(0, 2, 1), (0, 1, 1), (0, 3, 1), (1, 4, 2), (0, 2, 1), (0, 5, 1)], 0, (6, 2, 10)),
        ([(0, 2, 1), (0, 1, 1), (2, -1, -1), (0, 4, 1), (1, 2, 1), (0, 5, 1)], 16, (2, 3, 4, 1, 5)),
    ],
)
def test_a_slice_of_few_axes(
    evaluate: Evaluate, ranges: list[tuple[int, int, int]], shrink: int, small: tuple[int, ...]
) -> None:
    graph = Graph("g")
    x = graph.add_tensor(Tensor("x", F32, (2, 1, 3, 4, 2, 5), TensorKind.APP_WRITE))
    part = add(graph, "StridedSlice", [x], name="part", ranges=ranges, shrink_axes=shrink)
    output(graph, part)
    feed = {"x": np.arange(240, dtype=np.float32).reshape(x.shape)}
    before = evaluate(graph, feed)["y"]
    assert JoinAxes().run(graph)
    assert not JoinAxes().run(graph)
    assert graph.node("part.part").outputs[0].shape == small
    assert not find_faults(graph)
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)


@pytest.mark.parametrize("new_axes", [0b1, 0b100000])
def test_a_slice_that_adds_axes_stays(new_axes: int) -> None:
    graph = Graph("g")
    x = graph.add_tensor(Tensor("x", F32, (2, 1, 3, 4, 2, 5), TensorKind.APP_WRITE))
    ranges = [(0, n, 1) for n in (2, 1, 3, 4, 2, 5, 1)]
    ranges[4] = (1, 2, 1)
    part = add(graph, "StridedSlice", [x], name="s", ranges=ranges, new_axes_mask=new_axes)
    part.kind = TensorKind.APP_READ
    assert not JoinAxes().run(graph)


def test_axes_without_elements_stay() -> None:
    graph = Graph("g")
    x = graph.add_tensor(Tensor("x", F32, (2, 1, 3, 0, 2, 5), TensorKind.APP_WRITE))
    ranges = [(0, n, 1) for n in (2, 1, 2, 0, 2, 5)]
    add(graph, "StridedSlice", [x], name="s", ranges=ranges).kind = TensorKind.APP_READ
    assert not JoinAxes().run(graph)


def test_an_unfolded_image_is_read_by_one_axis_of_indices(evaluate: Evaluate) -> None:
    graph = Graph("g")
    x = graph.add_tensor(Tensor("x", F32, (1, 2, 1, 1, 9), TensorKind.APP_WRITE))
    indices = static(graph, "places", np.add.outer(np.arange(3), np.arange(7)).astype(np.int32))
    read = add(graph, "Gather", [x, indices], name="unfold", axis=4)
    assert read.shape == (1, 2, 1, 1, 3, 7)
    output(graph, add(graph, "Reshape", [read], name="flat", spec=Spec(F32, (1, 6, 1, 7))))
    feed = {"x": np.arange(18, dtype=np.float32).reshape(x.shape)}
    before = evaluate(graph, feed)["y"]
    assert JoinAxes().run(graph)
    assert not JoinAxes().run(graph)
    RemoveIdentities().run(graph)
    FoldConstants().run(graph)
    assert [node.op_type for node in graph.nodes] == ["Gather", "Reshape", "Relu"]
    assert not find_faults(graph)
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)


def test_elements_are_read_by_rows_of_indices(evaluate: Evaluate) -> None:
    """As PyTorch exports pooling to a given size: windows of two axes."""
    graph = Graph("g")
    x = graph.add_tensor(Tensor("x", F32, (5, 6, 1, 3), TensorKind.APP_WRITE))
    rows, columns = np.add.outer([0, 2], [0, 1, 2]), np.add.outer([0, 3], [0, 1, 2])
    indices = np.stack(np.broadcast_arrays(rows[..., None, None], columns), -1).astype(np.int32)
    read = add(graph, "GatherNd", [x, static(graph, "indices", indices)], name="windows")
    assert read.shape == (2, 3, 2, 3, 1, 3)
    output(graph, add(graph, "ReduceMean", [read], name="means", axes=[1, 3]))
    feed = {"x": np.arange(90, dtype=np.float32).reshape(x.shape)}
    before = evaluate(graph, feed)["y"]
    assert JoinAxes().run(graph)
    assert not JoinAxes().run(graph)
    RemoveIdentities().run(graph)
    FoldConstants().run(graph)
    ops = [node.op_type for node in graph.nodes]
    assert ops == ["GatherNd", "Reshape", "ReduceMean", "Reshape", "Relu"]
    assert all(len(t.shape) <= 5 for t in graph.tensors.values())
    assert not find_faults(graph)
    np.testing.assert_allclose(evaluate(graph, feed)["y"], before, rtol=1e-6)


def test_keys_of_groups_of_heads_are_repeated_on_four_axes(evaluate: Evaluate) -> None:
    graph = Graph("g")
    x = graph.add_tensor(Tensor("x", F32, (1, 2, 1, 3, 4), TensorKind.APP_WRITE))
    wide = add(graph, "Tile", [x], name="keys", multiples=[1, 1, 5, 1, 1])
    output(graph, add(graph, "Reshape", [wide], name="flat", spec=Spec(F32, (1, 10, 3, 4))))
    feed = {"x": np.arange(24, dtype=np.float32).reshape(x.shape)}
    before = evaluate(graph, feed)["y"]
    assert JoinAxes().run(graph)
    assert not JoinAxes().run(graph)
    assert graph.node("keys.tiled").outputs[0].shape == (2, 5, 12)
    assert not find_faults(graph)
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)
