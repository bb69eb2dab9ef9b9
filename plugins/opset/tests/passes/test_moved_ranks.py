"""Ops that add or drop dimensions between transposes: these go, or the op stays as it is."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import (
    AxisScaleOffset,
    DType,
    Graph,
    ScaleOffset,
    Spec,
    Tensor,
    TensorKind,
    find_faults,
)
from dovetail_opset.build import add, add_all
from dovetail_opset.passes import ChannelsLast

Evaluate = Callable[..., Any]
U8, F32 = DType.UFIXED_POINT_8, DType.FLOAT_32
FIRST = (0, 3, 1, 2)
SHAPE = (2, 3, 5, 4)  # channels-last; the ops read (2, 4, 3, 5)
PLAIN = ScaleOffset(0.25, -100)
BY_HEIGHT = AxisScaleOffset(1, np.array([0.25, 0.5, 0.375], np.float32))
BY_CHANNEL = AxisScaleOffset(3, np.array([0.25, 0.5, 0.375, 1], np.float32))


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("per_axis", [False, True])
def test_unpacked_slices_are_in_their_order(evaluate: Evaluate, axis: int, per_axis: bool) -> None:
    graph = Graph("g")
    x = Tensor("x", U8, SHAPE, TensorKind.APP_WRITE, encoding=BY_HEIGHT if per_axis else PLAIN)
    graph.add_tensor(x)
    first = add(graph, "Transpose", [x], name="first", perm=FIRST)
    shape = tuple(n for i, n in enumerate(first.shape) if i != axis)
    names = [f"y{i}" for i in range(first.shape[axis])]
    outs = [Tensor(n, U8, shape, TensorKind.APP_READ, encoding=PLAIN) for n in names]
    add_all(graph, "UnPack", [first], name="op", outputs=outs, axis=axis)
    feed = {"x": np.random.default_rng(5).integers(0, 256, SHAPE).astype(np.uint8)}
    before = evaluate(graph, feed)
    assert ChannelsLast().run(graph)
    assert not find_faults(graph)
    # of a slice of space the channels are still to be brought to the front
    assert [n.op_type for n in graph.nodes].count("Transpose") == (0 if axis == 1 else len(outs))
    for name in names:
        np.testing.assert_array_equal(evaluate(graph, feed)[name], before[name])


@pytest.mark.parametrize("axis", [2, 3, 4])
def test_packing_makes_a_dimension_of_space(evaluate: Evaluate, axis: int) -> None:
    graph = Graph("g")
    firsts = []
    for name in ("a", "b"):
        x = Tensor(name, U8, SHAPE, TensorKind.APP_WRITE, encoding=BY_CHANNEL)
        graph.add_tensor(x)
        firsts.append(add(graph, "Transpose", [x], name=f"{name}.first", perm=FIRST))
    first = (2, 4, 3, 5)
    spec = Spec(U8, (*first[:axis], 2, *first[axis:]), BY_CHANNEL.transposed(FIRST))
    y = add(graph, "Pack", firsts, name="op", spec=spec, axis=axis)
    last = add(graph, "Transpose", [y], name="last", perm=(0, 2, 3, 4, 1))
    last.kind = TensorKind.APP_READ
    rng = np.random.default_rng(5)
    feed = {n: rng.integers(0, 256, SHAPE).astype(np.uint8) for n in ("a", "b")}
    before = evaluate(graph, feed)["last"]
    assert ChannelsLast().run(graph)
    assert not find_faults(graph)
    assert [n.op_type for n in graph.nodes] == ["Pack"]
    np.testing.assert_array_equal(evaluate(graph, feed)["last"], before)


@pytest.mark.parametrize(
    ("op_type", "params"),
    [("Pack", {"axis": 0}), ("Pack", {"axis": 1}), ("UnPack", {"axis": 0}), ("TopK", {"k": 2})],
)
def test_what_would_need_more_transposes_stays(op_type: str, params: dict[str, int]) -> None:
    graph = Graph("g")
    x = graph.add_tensor(Tensor("x", F32, SHAPE, TensorKind.APP_WRITE))
    first = add(graph, "Transpose", [x], name="first", perm=FIRST)
    inputs = [first, first] if op_type == "Pack" else [first]
    outputs = {"Pack": ["y"], "UnPack": ["y", "z"], "TopK": ["y", "i"]}[op_type]
    for made in add_all(graph, op_type, inputs, name="op", outputs=outputs, **params):
        made.kind = TensorKind.APP_READ
    assert not ChannelsLast().run(graph)
    assert [n.op_type for n in graph.nodes] == ["Transpose", op_type]


def test_a_slice_may_drop_channels(evaluate: Evaluate) -> None:
    graph = Graph("g")
    x = graph.add_tensor(Tensor("x", F32, SHAPE, TensorKind.APP_WRITE))
    first = add(graph, "Transpose", [x], name="first", perm=FIRST)
    ranges = [(0, 2, 1), (3, 4, 1), (1, 3, 1), (0, 5, 2)]
    y = add(graph, "StridedSlice", [first], name="op", ranges=ranges, shrink_axes=0b10)
    y.kind = TensorKind.APP_READ
    feed = {"x": np.random.default_rng(5).standard_normal(SHAPE).astype(np.float32)}
    assert ChannelsLast().run(graph)
    assert [n.op_type for n in graph.nodes] == ["StridedSlice"]
    np.testing.assert_array_equal(evaluate(graph, feed)["op"], feed["x"][:, 1:3, ::2, 3])
