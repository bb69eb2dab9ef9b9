"""Normalizations, softmax and reductions against the peer."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import UnsupportedOpError

F32, I64 = np.float32, np.int64


def data(rng, *shape):
    return rng.standard_normal(shape).astype(F32)


def statistics(rng, channels):
    return [data(rng, channels) for _ in range(3)] + [rng.uniform(0.1, 2, channels).astype(F32)]


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
@pytest.mark.parametrize("spatial", [(), (6,), (4, 5), (2, 3, 4)])
def test_batch_normalization(check, rng, opset, spatial) -> None:
    x = data(rng, 2, 3, *spatial)
    check("BatchNormalization", [x], known=statistics(rng, 3), opset=opset)
    check("BatchNormalization", [x], known=statistics(rng, 3), opset=opset, epsilon=0.1)


def test_batch_normalization_is_folded_in_double_precision(check, rng) -> None:
    known = [np.array([1e-3], F32), np.array([1], F32), np.array([1e3], F32), np.array([1e-4], F32)]
    graph = check("BatchNormalization", [data(rng, 2, 1, 3, 3) + F32(1e3)], known=known, rtol=1e-3)
    weight = 1e-3 / np.sqrt(np.float64(F32(1e-4)) + np.float64(F32(1e-5)))
    found = graph.tensor("the_node.bias").values()
    np.testing.assert_allclose(found, 1 - 1e3 * weight, rtol=1e-6)


def test_batch_normalization_in_training_is_refused(model, read, rng) -> None:
    node = helper.make_node("BatchNormalization", ["x", *"sbmv"], ["y"], training_mode=1)
    known = dict(zip("sbmv", statistics(rng, 3), strict=True))
    with pytest.raises(UnsupportedOpError, match="training mode"):
        read(model([node], {"x": data(rng, 2, 3, 4, 4)}, ["y"], known, opset=15))


@pytest.mark.parametrize("axis", [None, -1, 1, -2, 0])
def test_layer_normalization(check, rng, axis) -> None:
    x = data(rng, 2, 3, 4)
    over = x.shape[-1 if axis is None else axis :]
    given = {} if axis is None else {"axis": axis, "epsilon": 1e-3}
    check("LayerNormalization", [x], known=[data(rng, *over), data(rng, *over)], **given)
    check("LayerNormalization", [x], known=[data(rng, *over)], **given)


def test_layer_normalization_with_a_scale_that_broadcasts(check, rng) -> None:
    x = data(rng, 2, 3, 4)
    check("LayerNormalization", [x], known=[data(rng, 4), data(rng, 3, 1)], axis=1)


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("opset", [7, 11, 13])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 1, 1)])
def test_softmax(check, rng, op_type, opset, axis, shape) -> None:
    x = 3 * data(rng, *shape)
    check(op_type, [x], opset=opset, **({} if axis is None else {"axis": axis}))


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
def test_softmax_does_not_overflow(check, op_type) -> None:
    check(op_type, [np.array([[1000, 999, -1000]], F32)])


@pytest.mark.parametrize("op_type", ["ReduceMean", "ReduceMax", "ReduceSum"])
@pytest.mark.parametrize("opset", [7, 11, 12, 13, 18, 20])
@pytest.mark.parametrize("axes", [None, [0], [1, -1], [2, 0]])
@pytest.mark.parametrize("keep", [0, 1])
def test_reductions(check, rng, op_type, opset, axes, keep) -> None:
    x = data(rng, 2, 3, 4)
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
