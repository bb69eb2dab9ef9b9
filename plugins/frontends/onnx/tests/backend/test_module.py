"""The backend itself: inputs that decide shapes, types, what it is given wrongly."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from dovetail.errors import BackendError, FrontendError, UnsupportedOpError
from dovetail.plugins import names
from dovetail_onnx import backend

pytestmark = pytest.mark.skipif(
    backend.BACKEND not in names("dovetail.backends"), reason="nothing runs the models"
)
X = np.arange(6, dtype=np.float32)
BFLOAT16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)


def reshaping():
    """Return a model that reshapes x to 'shape' plus 0, which only a run knows."""
    nodes = [
        helper.make_node("Add", ["shape", "zero"], ["to"]),
        helper.make_node("Reshape", ["x", "to"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "reshaping",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [6]),
            helper.make_tensor_value_info("shape", TensorProto.INT64, [2]),
            helper.make_tensor_value_info("zero", TensorProto.INT64, [1]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_inputs_that_decide_shapes_become_constants() -> None:
    prepared = backend.prepare(reshaping())
    zero = np.zeros(1, np.int64)
    for shape in ((2, 3), (3, 2), (2, 3)):
        (y,) = prepared.run([X, np.array(shape), zero])
        np.testing.assert_array_equal(y, X.reshape(shape))
    assert prepared.constant_inputs == ("shape", "zero")
    (y,) = prepared.run({"x": X, "shape": np.array([6, 1]), "zero": zero})
    assert y.shape == (6, 1)
    prepared.close()
    assert prepared.run([X, np.array([1, 6]), zero])[0].shape == (1, 6)


def test_a_value_that_is_wrong_says_so() -> None:
    prepared = backend.prepare(reshaping())
    with pytest.raises(FrontendError, match="cannot be reshaped"):
        prepared.run([X, np.array([4, 4]), np.zeros(1, np.int64)])


def test_a_wrong_number_of_inputs() -> None:
    prepared = backend.prepare(reshaping())
    with pytest.raises(BackendError, match="expected 3 inputs, got 1"):
        prepared.run([X])
    with pytest.raises(BackendError, match="missing input 'shape'"):
        prepared.run({"x": X})


def test_what_cannot_be_converted_is_refused_at_once() -> None:
    node = helper.make_node("Nonesuch", ["x"], ["y"], domain="com.none")
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, [6])
    graph = helper.make_graph([node], "g", [info], [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph)
    with pytest.raises(UnsupportedOpError, match=r"com\.none"):
        backend.prepare(model)
    assert not backend.is_compatible(model)
    assert backend.is_compatible(reshaping())
    assert not backend.is_compatible(reshaping(), "CUDA")


def test_devices() -> None:
    assert [backend.supports_device(name) for name in ("CPU", "CPU:0", "CUDA")] == [1, 1, 0]
    with pytest.raises(BackendError, match="device 'CUDA' not found"):
        backend.prepare(reshaping(), "CUDA")


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint8, BFLOAT16])
def test_types_are_the_model_s(dtype) -> None:
    node = helper.make_node("Add", ["x", "x"], ["y"])
    x = np.array([[1, 2, 3]], dtype)
    (y,) = backend.run_node(node, [x])
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.astype(np.float64), [[2, 4, 6]])


def test_a_node_of_another_version() -> None:
    node = helper.make_node("Squeeze", ["x"], ["y"], axes=[0])
    (y,) = backend.run_node(node, [np.ones((1, 3), np.float32)], opset_version=11)
    assert y.shape == (3,)
