"""Gathers of constant indices: slices where the steps are equal, else as they were."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import AxisScaleOffset, DType, Graph, ScaleOffset, Tensor, TensorKind, find_faults
from dovetail_opset.build import add, static
from dovetail_opset.passes import SliceGathers

Evaluate = Callable[..., Any]


def network(indices: Any, axis: int, dtype: DType = DType.FLOAT_32, **how: Any) -> Graph:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", dtype, (2, 5, 3), TensorKind.APP_WRITE, **how))
    at = static(graph, "at", np.array(indices, np.int32))
    shape = (*x.shape[:axis], *at.shape, *x.shape[axis + 1 :])
    y = Tensor("y", dtype, shape, TensorKind.APP_READ, **how)
    add(graph, "Gather", [x, at], name="pick", outputs=y, axis=axis)
    return graph


@pytest.mark.parametrize(
    ("indices", "axis"),
    [(0, 0), (4, 1), (-1, 1), (2, 2), ([3], 1), ([1, 2, 3], 1), ([0, 2, 4], 1), ([-3, -1], 1)],
)
def test_slices_have_the_same_elements(evaluate: Evaluate, indices: Any, axis: int) -> None:
    graph = network(indices, axis)
    feed = {"x": np.arange(30, dtype=np.float32).reshape(2, 5, 3)}
    before = evaluate(graph, feed)["y"]
    assert SliceGathers().run(graph)
    assert not find_faults(graph)
    assert [(n.name, n.op_type) for n in graph.nodes] == [("pick", "StridedSlice")]
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)


@pytest.mark.parametrize("indices", [[2, 1], [0, 1, 3], [1, 1], [], [[0, 1]], [0, -5], 7])
def test_what_is_no_slice_stays(indices: Any) -> None:
    assert not SliceGathers().run(network(np.array(indices, np.int32), 1))


@pytest.mark.parametrize("by_axis", [False, True])
def test_one_encoding_is_kept(by_axis: bool) -> None:
    grid = AxisScaleOffset(2, np.ones(3, np.float32)) if by_axis else ScaleOffset(0.5)
    graph = network([1, 2], 1, DType.UFIXED_POINT_8, encoding=grid)
    assert SliceGathers().run(graph) is not by_axis


def test_updateable_indices_stay() -> None:
    graph = network(1, 1)
    graph.tensor("at").kind = TensorKind.UPDATEABLE_STATIC
    assert not SliceGathers().run(graph)
