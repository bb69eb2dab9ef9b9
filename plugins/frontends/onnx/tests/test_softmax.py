"""Softmax and its relatives against the peer."""

from __future__ import annotations

import numpy as np
import pytest

F32 = np.float32
each_op = pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])


def data(rng, *shape):
    return rng.standard_normal(shape).astype(F32)


@each_op
@pytest.mark.parametrize("opset", [7, 11, 13])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 1, 1)])
def test_softmax(check, rng, op_type, opset, axis, shape) -> None:
    x = 3 * data(rng, *shape)
    check(op_type, [x], opset=opset, **({} if axis is None else {"axis": axis}))


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
def test_softmax_does_not_overflow(check, op_type) -> None:
    check(op_type, [np.array([[1000, 999, -1000]], F32)])


@each_op
@pytest.mark.parametrize("opset", [11, 13])
def test_of_equal_elements_the_first_counts(check, op_type, opset) -> None:
    check(op_type, [np.array([[2, 1, 2], [0, 0, 0]], F32)], axis=1, opset=opset)


def test_log_softmax_is_one_op(check, rng) -> None:
    graph = check("LogSoftmax", [data(rng, 2, 3)])
    assert [n.op_type for n in graph.nodes] == ["LogSoftmax"]
