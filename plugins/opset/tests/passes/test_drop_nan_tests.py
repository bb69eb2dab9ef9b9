"""Selections that replace NaN are left out where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.ir import DType, Graph, ScaleOffset, Spec, Tensor, TensorKind, find_faults
from dovetail_opset.build import add, static
from dovetail_opset.passes import DropNanTests

U8 = DType.UFIXED_POINT_8
GRID = ScaleOffset(1 / 256, 0)


def network(test: str, dtype: DType = U8, grid: ScaleOffset = GRID) -> Graph:
    """y = relu(where(x is NaN, 0, x)), on other grids than x."""
    graph, encoding = Graph("net"), GRID if dtype is U8 else None
    data = graph.add_tensor(Tensor("x", dtype, (2, 3), TensorKind.APP_WRITE, encoding=encoding))
    x = add(graph, "Relu", [data], name="before", spec=data.spec)
    operands = [x, data] if test == "of two" else [x] if test == "IsNan" else [x, x]
    op_type = "ElementWiseNotEqual" if test == "of two" else test
    is_nan = add(graph, op_type, operands, name="is_nan")
    zero = static(graph, "zero", np.zeros((), dtype.storage), dtype, encoding=encoding)
    spec = Spec(dtype, (2, 3), None if encoding is None else grid)
    kept = add(graph, "ElementWiseSelect", [is_nan, zero, x], name="kept", spec=spec)
    kept.encoding = spec.encoding
    add(graph, "Tanh", [kept], name="y", spec=spec).kind = TensorKind.APP_READ
    return graph


@pytest.mark.parametrize("test", ["IsNan", "ElementWiseNotEqual"])
@pytest.mark.parametrize("grid", [GRID, ScaleOffset(0.01, -3)])
def test_fixed_point_numbers(test: str, grid: ScaleOffset) -> None:
    graph = network(test, grid=grid)
    assert DropNanTests().run(graph)
    assert not DropNanTests().run(graph)
    assert not find_faults(graph)
    assert [node.op_type for node in graph.nodes] == ["Relu", "Tanh"]
    assert graph.node("y").inputs == graph.node("before").outputs


def test_a_test_with_other_readers_stays() -> None:
    graph = network("IsNan")
    add(graph, "ElementWiseNot", [graph.tensor("is_nan")], name="z").kind = TensorKind.APP_READ
    assert DropNanTests().run(graph)
    assert "IsNan" in [node.op_type for node in graph.nodes]


@pytest.mark.parametrize("test", ["IsNan", "ElementWiseNotEqual"])
def test_floats_may_be_nan(test: str) -> None:
    assert not DropNanTests().run(network(test, DType.FLOAT_32))


@pytest.mark.parametrize("test", ["of two", "ElementWiseEqual"])
def test_other_comparisons_stay(test: str) -> None:
    assert not DropNanTests().run(network(test))


def test_what_moves_on_needs_its_grid() -> None:
    graph = network("IsNan", grid=ScaleOffset(0.01, -3))
    kept = graph.tensor("kept")
    moved = add(graph, "Transpose", [kept], name="moved", perm=[1, 0])
    moved.kind = TensorKind.APP_READ
    assert not DropNanTests().run(graph)
