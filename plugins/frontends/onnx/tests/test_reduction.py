"""Reductions and running sums against the peer."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import UnsupportedOpError

F32, I64 = np.float32, np.int64
LOGARITHMS = ("ReduceLogSum", "ReduceLogSumExp")
REDUCTIONS = (
    *("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceSumSquare"),
    *("ReduceL1", "ReduceL2", *LOGARITHMS),
)


def data(rng, *shape):
    return rng.standard_normal(shape).astype(F32)


@pytest.mark.parametrize("op_type", REDUCTIONS)
@pytest.mark.parametrize("opset", [7, 11, 12, 13, 18, 20])
@pytest.mark.parametrize("axes", [None, [0], [1, -1], [2, 0]])
@pytest.mark.parametrize("keep", [0, 1])
def test_reductions(check, rng, op_type, opset, axes, keep) -> None:
    x = data(rng, 2, 3, 4)
    x = np.abs(x) if op_type == "ReduceLogSum" else x
    as_input = opset >= (13 if op_type == "ReduceSum" else 18)
    if axes is not None and opset < 11:
        axes = [axis % 3 for axis in axes]  # negative ones came with version 11
    if axes is None:
        check(op_type, [x], opset=opset, keepdims=keep)
    elif as_input:
        check(op_type, [x], known=[np.array(axes, I64)], opset=opset, keepdims=keep)
    else:
        check(op_type, [x], opset=opset, axes=axes, keepdims=keep)


@pytest.mark.parametrize("noop", [0, 1])
def test_reduction_over_no_axes(check, rng, noop) -> None:
    x, none = data(rng, 2, 3), np.array([], I64)
    check("ReduceSum", [x], known=[none], noop_with_empty_axes=noop)


@pytest.mark.parametrize("op_type", REDUCTIONS)
def test_over_no_axes_only_the_reduction_is_left_out(check, rng, op_type) -> None:
    x, none = np.abs(data(rng, 2, 3)) + 1, np.array([], I64)
    # older releases of the peer reduced nothing and did nothing else either: see the schema
    check(op_type, [x], known=[none], noop_with_empty_axes=1, opset=20)


@pytest.mark.parametrize("op_type", REDUCTIONS)
def test_of_a_scalar(check, op_type) -> None:
    check(op_type, [np.array(2.5, F32)], keepdims=0)


@pytest.mark.parametrize("keep", [0, 1])
def test_log_sum_exp_of_what_overflows(check, keep) -> None:
    x = np.array([[1000, 999], [-1000, -1001], [np.inf, 0], [-np.inf, -np.inf]], F32)
    check("ReduceLogSumExp", [x], axes=[1], keepdims=keep)


@pytest.mark.parametrize("op_type", ["ReduceMin", "ReduceMax"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int8, np.uint8, np.bool_])
@pytest.mark.parametrize("keep", [0, 1])
def test_the_extremes_of_nothing_are_the_ends_of_the_type(
    read, run, model, op_type, dtype, keep
) -> None:
    node = helper.make_node(op_type, ["x", "a"], ["y"], keepdims=keep)
    x = np.zeros((2, 0), dtype)
    graph = read(model([node], {"x": x}, ["y"], {"a": np.array([1], I64)}, opset=20))
    (found,) = run(graph, {"x": x}).values()
    reduce, ends = (np.min, 1) if op_type == "ReduceMin" else (np.max, 0)
    if dtype is np.bool_:
        bounds = (False, True)
    elif np.issubdtype(dtype, np.floating):
        bounds = (-np.inf, np.inf)
    else:
        bounds = (np.iinfo(dtype).min, np.iinfo(dtype).max)
    wanted = reduce(x, axis=1, keepdims=bool(keep), initial=bounds[ends])
    np.testing.assert_array_equal(found, wanted, strict=True)


@pytest.mark.parametrize("op_type", ["ReduceL2", *LOGARITHMS])
def test_roots_and_logarithms_of_integers_are_refused(read, model, op_type) -> None:
    node = helper.make_node(op_type, ["x"], ["y"])
    with pytest.raises(
        UnsupportedOpError, match="unsupported root or logarithm of integers, INT_32"
    ):
        read(model([node], {"x": np.ones((2, 3), np.int32)}, ["y"]))


# the peer has no kernel for ReduceL1 of int64
@pytest.mark.parametrize(
    ("op_type", "dtype"),
    [
        *((name, np.int32) for name in ("ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL1")),
        *((name, np.int64) for name in ("ReduceMin", "ReduceProd", "ReduceSumSquare")),
    ],
)
def test_of_integers(check, rng, op_type, dtype) -> None:
    check(op_type, [rng.integers(-5, 6, (2, 3, 4)).astype(dtype)], axes=[0, 2])


@pytest.mark.parametrize("opset", [11, 14])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_cumulative_sum(check, rng, opset, exclusive, reverse, axis) -> None:
    params = {"opset": opset, "exclusive": exclusive, "reverse": reverse}
    check("CumSum", [data(rng, 3, 2, 5)], known=[np.array(axis, np.int32)], **params)
    check("CumSum", [rng.integers(0, 9, (3, 4, 2))], known=[np.array([axis], I64)], **params)
