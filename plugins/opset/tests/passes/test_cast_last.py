"""Bools that are gathered: the numbers are gathered, and then cast."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, Graph, Spec, Tensor, TensorKind, find_faults
from dovetail_opset.build import add, static
from dovetail_opset.passes import CastLast

Evaluate = Callable[..., Any]
BOOL = DType.BOOL_8
MASK = np.array([[3, 0, -1, 0]])


def network(dtype: DType, gather: str, *, is_read: bool = False) -> Graph:
    graph = Graph("net")
    mask = graph.add_tensor(Tensor("mask", dtype, (1, 4), TensorKind.APP_WRITE))
    flags = add(graph, "Cast", [mask], name="flags", spec=Spec(BOOL, (1, 4)))
    if is_read:
        flags.kind = TensorKind.APP_READ
    turned = add(graph, "Transpose", [flags], name="turned", perm=[1, 0])
    flat = add(graph, "Reshape", [turned], name="flat", spec=Spec(BOOL, (4,)))
    at = np.array([[2, 0], [1, 3]], np.int32)
    if gather == "Gather":
        got = add(graph, gather, [flat, static(graph, "at", at)], name="got", axis=0)
    else:
        got = add(graph, gather, [flat, static(graph, "at", at[..., None])], name="got")
    add(graph, "ElementWiseNot", [got], name="y").kind = TensorKind.APP_READ
    return graph


@pytest.mark.parametrize("dtype", [DType.INT_32, DType.UINT_8, DType.FLOAT_32])
@pytest.mark.parametrize("gather", ["Gather", "GatherNd"])
def test_numbers_are_gathered(evaluate: Evaluate, dtype: DType, gather: str) -> None:
    graph = network(dtype, gather)
    feed = {"mask": np.abs(MASK).astype(dtype.storage)}
    before = evaluate(graph, feed)["y"]
    graph.tensor("got").source_perm = (1, 0)
    assert CastLast().run(graph)
    assert not CastLast().run(graph)
    assert not find_faults(graph)
    ops = [node.op_type for node in graph.nodes]
    assert ops == ["Transpose", "Reshape", gather, "Cast", "ElementWiseNot"]
    numbers = graph.node("got").outputs[0]
    assert (numbers.dtype, numbers.source, numbers.source_perm) == (dtype, "got", (1, 0))
    assert graph.tensor("got").dtype is BOOL
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)


def test_what_stays() -> None:
    for graph in (network(DType.INT_64, "Gather"), network(DType.INT_32, "Gather", is_read=True)):
        assert not CastLast().run(graph)


@pytest.mark.parametrize("is_input", [False, True])
def test_bools_of_other_origin_stay(is_input: bool) -> None:
    graph = Graph("net")
    dtype = BOOL if is_input else DType.INT_32
    flags = graph.add_tensor(Tensor("mask", dtype, (4,), TensorKind.APP_WRITE))
    if not is_input:
        flags = add(graph, "ElementWiseEqual", [flags, flags], name="flags")
    at = static(graph, "at", np.array([2, 0], np.int32))
    add(graph, "Gather", [flags, at], name="got", axis=0).kind = TensorKind.APP_READ
    assert not CastLast().run(graph)
