"""64-bit integers in 32 bits: the same values, and only where these fit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.ir import DType, Graph, Spec, Tensor, TensorKind, find_faults
from dovetail_opset.build import add, add_all, static
from dovetail_opset.passes import NarrowIntegers, RemoveIdentities

Evaluate = Callable[..., Any]
WIDE, NARROW = DType.INT_64, DType.INT_32
LOWEST, HIGHEST = NARROW.stored_range()


@pytest.fixture
def graph() -> Graph:
    graph = Graph("g")
    graph.add_tensor(Tensor("x", NARROW, (2, 3), TensorKind.APP_WRITE))
    return graph


def wide(graph: Graph, name: str = "x") -> Tensor:
    x = graph.tensor(name)
    return add(graph, "Cast", [x], name=f"{name}.wide", spec=Spec(WIDE, x.shape))


def constant(graph: Graph, value: int) -> Tensor:
    return static(graph, "c", np.array(value, np.int64), WIDE)


def finish(graph: Graph, x: Tensor, dtype: DType = NARROW) -> None:
    y = Tensor("y", dtype, x.shape, TensorKind.APP_READ)
    add(graph, "Cast", [x], name="end", outputs=y, spec=Spec(dtype, x.shape))


def types(graph: Graph) -> set[DType]:
    return {tensor.dtype for tensor in graph.tensors.values()}


def test_limits_of_32_bits_are_removed(graph: Graph) -> None:
    x = add(graph, "ElementWiseMaximum", [wide(graph), constant(graph, LOWEST)], name="low")
    x = add(graph, "ElementWiseMinimum", [x, constant(graph, HIGHEST)], name="high")
    finish(graph, add(graph, "Reshape", [x], name="flat", spec=Spec(WIDE, (6,))))
    assert NarrowIntegers().run(graph)
    assert not NarrowIntegers().run(graph)
    RemoveIdentities().run(graph)
    assert [node.op_type for node in graph.nodes] == ["Reshape"]
    assert not find_faults(graph)


def test_sums_that_may_not_fit_stay_wide(graph: Graph) -> None:
    x = wide(graph)
    finish(graph, add(graph, "ElementWiseAdd", [x, x], name="sum"), DType.FLOAT_32)
    assert not NarrowIntegers().run(graph)


def test_counts_of_bools_are_narrow(graph: Graph, evaluate: Evaluate) -> None:
    is_one = add(graph, "ElementWiseEqual", [wide(graph), constant(graph, 1)], name="is")
    ones = add(graph, "Cast", [is_one], name="ones", spec=Spec(WIDE, is_one.shape))
    finish(graph, add(graph, "ReduceSum", [ones], name="count", axes=[1]))
    feed = {"x": np.array([[1, 1, 0], [0, 5, 1]], np.int32)}
    before = evaluate(graph, feed)["y"]
    assert NarrowIntegers().run(graph)
    assert WIDE not in types(graph)
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)


@pytest.mark.parametrize("before", [NARROW, WIDE])
def test_positions_of_tokens_are_narrow(graph: Graph, evaluate: Evaluate, before: DType) -> None:
    """As in RoBERTa: 1 and the number of tokens so far that are no padding."""
    pads = static(graph, "pad", np.array(1, np.int32))
    is_pad = add(graph, "ElementWiseEqual", [graph.tensor("x"), pads], name="is")
    ones = add(graph, "ElementWiseNot", [is_pad], name="not")
    ones = add(graph, "Cast", [ones], name="ones", spec=Spec(before, ones.shape))
    count = add(graph, "CumulativeSum", [ones], name="count", axis=1)
    count = add(graph, "ElementWiseMultiply", [count, ones], name="masked")
    count = add(graph, "Cast", [count], name="wide", spec=Spec(WIDE, count.shape))
    count = add(graph, "ElementWiseAdd", [count, constant(graph, 1)], name="sum")
    finish(graph, add(graph, "ElementWiseMaximum", [count, constant(graph, LOWEST)], name="low"))
    feed = {"x": np.array([[7, 1, 0], [1, 5, 1]], np.int32)}
    wanted = evaluate(graph, feed)["y"]
    assert NarrowIntegers().run(graph)
    assert WIDE not in types(graph)
    assert "low" not in {node.name for node in graph.nodes}
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], wanted)


@pytest.mark.parametrize("reduction", [0, 1])
@pytest.mark.parametrize("op_type", ["ScatterElements", "ScatterNd"])
def test_replaced_tokens_are_narrow_and_sums_are_not(
    graph: Graph, evaluate: Evaluate, op_type: str, reduction: int
) -> None:
    """As where a model shifts its tokens: the first one is another."""
    is_by_element = op_type == "ScatterElements"
    indices = np.array([[0], [1]] if is_by_element else [[0, 2], [1, 1]], np.int32)
    updates = static(graph, "new", np.array([7, -9]).reshape((2, 1) if is_by_element else 2), WIDE)
    axis = {"axis": 1} if is_by_element else {}
    ins = [wide(graph), static(graph, "indices", indices), updates]
    finish(graph, add(graph, op_type, ins, name="shifted", reduction=reduction, **axis))
    feed = {"x": np.array([[1, -1, 0], [0, 5, 1]], np.int32)}
    before = evaluate(graph, feed)["y"]
    assert NarrowIntegers().run(graph) is (reduction == 0)
    assert not find_faults(graph)
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)


def test_values_of_a_topk_are_no_positions(graph: Graph) -> None:
    values, positions = add_all(
        graph, "TopK", [graph.tensor("x")], name="best", outputs=["values", "at"], k=1
    )
    shape = values.shape
    both = [
        add(graph, "Cast", [t], name=f"{t.name}.wide", spec=Spec(WIDE, shape))
        for t in (values, positions)
    ]
    sums = [add(graph, "ElementWiseAdd", [t, t], name=f"{t.name}.sum") for t in both]
    for i, tensor in enumerate(sums):
        y = Tensor(f"y{i}", DType.FLOAT_32, shape, TensorKind.APP_READ)
        add(graph, "Cast", [tensor], name=f"end{i}", outputs=y)
    assert NarrowIntegers().run(graph)
    assert [t.dtype for t in sums] == [WIDE, NARROW]


def test_what_the_application_reads_stays_wide(graph: Graph) -> None:
    y = Tensor("y", WIDE, (6,), TensorKind.APP_READ)
    add(graph, "Reshape", [wide(graph)], name="flat", outputs=y)
    assert not NarrowIntegers().run(graph)


def test_a_constant_that_others_read_wide_is_copied(graph: Graph, evaluate: Evaluate) -> None:
    graph.add_tensor(Tensor("z", WIDE, (2, 3), TensorKind.APP_WRITE))
    five = constant(graph, 5)
    near = add(graph, "ElementWiseMinimum", [wide(graph), five], name="near")
    finish(graph, near)
    far = Tensor("far", WIDE, (2, 3), TensorKind.APP_READ)
    add(graph, "ElementWiseMinimum", [graph.tensor("z"), five], name="all", outputs=far)
    feed = {"x": np.array([[1, 9, -3]] * 2, np.int32), "z": np.full((2, 3), 1 << 40)}
    before = evaluate(graph, feed)
    assert NarrowIntegers().run(graph)
    assert not find_faults(graph)
    assert (graph.tensor("near").dtype, five.dtype) == (NARROW, WIDE)
    after = evaluate(graph, feed)
    for name in ("y", "far"):
        np.testing.assert_array_equal(after[name], before[name])


@given(data=st.data())
def test_values_are_the_same(evaluate: Evaluate, data: st.DataObject) -> None:
    graph = Graph("g")
    graph.add_tensor(Tensor("x", DType.INT_16, (2, 3), TensorKind.APP_WRITE))
    made = [wide(graph)]
    binary = ["Add", "Subtract", "Multiply", "Maximum", "Minimum"]
    for i in range(data.draw(st.integers(1, 6))):
        op = data.draw(st.sampled_from(binary))
        number = st.builds(constant, st.just(graph), st.integers(-(1 << 18), 1 << 18))
        pair = [data.draw(st.sampled_from(made)), data.draw(number | st.sampled_from(made))]
        made.append(add(graph, f"ElementWise{op}", pair, name=f"n{i}"))
    finish(graph, made[-1], DType.FLOAT_32)
    feed = {"x": np.array([[-32768, 32767, 0], [5, -1, 77]], np.int16)}
    before = evaluate(graph, feed)["y"]
    NarrowIntegers().run(graph)
    assert not find_faults(graph)
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)


ENDS = st.sampled_from([LOWEST, -(1 << 16), -3, 0, 5, (1 << 15) - 1, 1 << 16, HIGHEST])


@pytest.mark.parametrize("op_type", ["Add", "Subtract", "Multiply", "Maximum", "Minimum"])
@given(ends=st.tuples(ENDS, ENDS, ENDS, ENDS))
def test_results_are_narrow_if_their_extremes_fit(
    evaluate: Evaluate, op_type: str, ends: tuple[int, int, int, int]
) -> None:
    ranges = sorted(ends[:2]), sorted(ends[2:])
    graph, clipped = Graph("g"), []
    for name, (low, high) in zip("xz", ranges, strict=True):
        graph.add_tensor(Tensor(name, NARROW, (2, 2), TensorKind.APP_WRITE))
        above = [wide(graph, name), constant(graph, low)]
        above = [add(graph, "ElementWiseMaximum", above, name=f"{name}.low"), constant(graph, high)]
        clipped.append(add(graph, "ElementWiseMinimum", above, name=f"{name}.high"))
    y = add(graph, f"ElementWise{op_type}", clipped, name="op")
    finish(graph, y, DType.FLOAT_64)
    # of these ops, the extremes are results of ends
    first, second = (np.array(each, np.int32) for each in ranges)
    feed = {"x": np.repeat(first, 2).reshape(2, 2), "z": np.array([second, second])}
    results = evaluate(graph, feed)["y"]
    NarrowIntegers().run(graph)
    fits = results.min() >= LOWEST and results.max() <= HIGHEST
    assert y.dtype is (NARROW if fits else WIDE)
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], results)
