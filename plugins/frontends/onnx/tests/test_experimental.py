"""Experimental operators of opset 7 to 9 against ONNX Runtime, which still runs most of them."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from dovetail.errors import FrontendError

X = np.linspace(-3, 3, 2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)


@pytest.fixture
def one(model):
    """Create a model of one node."""

    def make(op_type, opset=7, inputs=("x",), **attributes):
        node = helper.make_node(op_type, inputs, ["y"], name="the_node", **attributes)
        made = model([node], {"x": X} if inputs else {}, ["y"], opset=opset)
        made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
        return made

    return make


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("Affine", {}),
        ("Affine", {"alpha": 2.5, "beta": -1.0}),
        ("Crop", {"border": [1, 0, 2, 1]}),
        ("Crop", {"border": [1, 2, 0, 0], "scale": [2, 3]}),
        ("ImageScaler", {"bias": [1.0, -2.0, 3.0]}),
        ("ImageScaler", {"bias": [1.0, -2.0, 3.0], "scale": 0.25}),
        ("ParametricSoftplus", {"alpha": 0.5, "beta": 2.0}),
        ("ScaledTanh", {"alpha": 1.7159, "beta": 0.6667}),
        ("ThresholdedRelu", {}),
        ("ThresholdedRelu", {"alpha": 0.5}),
    ],
)
@pytest.mark.parametrize("opset", [7, 9])
def test_it_gives_what_onnx_runtime_gives(read, evaluate, one, op_type, attributes, opset) -> None:
    made = one(op_type, opset, **attributes)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (wanted,) = session.run(None, {"x": X})
    found = evaluate(read(made), {"x": X})["y"]
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    # a few operations on float32, each rounded
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_a_given_tensor(read, evaluate, one) -> None:
    """ONNX Runtime has the schema but no kernel: by definition, the values in a shape."""
    values = np.arange(6, dtype=np.float32)
    for inputs, attributes in (((), {"shape": [2, 3]}), ((), {"shape": [2], "extra_shape": [3]})):
        made = one("GivenTensorFill", inputs=inputs, values=values.tolist(), **attributes)
        np.testing.assert_array_equal(evaluate(read(made), {})["y"], values.reshape(2, 3))
    made = one("GivenTensorFill", values=X.reshape(-1).tolist())
    np.testing.assert_array_equal(evaluate(read(made), {"x": X})["y"], X)


@pytest.mark.parametrize(
    ("op_type", "attributes", "said"),
    [
        ("Crop", {}, "border () and scale None do not match"),
        ("Crop", {"border": [0, 0, 5, 0]}, "leave nothing of shape (2, 3, 4, 5)"),
        ("Crop", {"border": [0, 3, 0, 0], "scale": [2, 2]}, "leave nothing of shape"),
        ("Crop", {"border": [-1, 0, 0, 0]}, "leave nothing of shape"),
        ("ImageScaler", {"bias": [1.0]}, "1 biases for an input of shape (2, 3, 4, 5)"),
        ("ScaledTanh", {"alpha": 1.0}, "missing attribute beta"),
        ("GivenTensorFill", {"values": [1.0, 2.0]}, "2 values do not fill the shape"),
    ],
)
def test_what_a_model_must_not_say(read, one, op_type, attributes, said) -> None:
    with pytest.raises(FrontendError) as caught:
        read(one(op_type, **attributes))
    (problem,) = caught.value.problems
    assert said in problem.message
    assert problem.where == f"{op_type} node 'the_node'"
