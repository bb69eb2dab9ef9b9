"""Activations of the plain recurrent layer against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError

F32 = np.float32
STEPS, BATCH, FEATURES, HIDDEN = 4, 3, 5, 6
# a few steps of sums of some ten products, in another order and by other functions
NEAR = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture
def layer(model, rng):
    """Create a model of one layer, and what to feed it."""

    def make(**attributes):
        count = 2 if attributes.get("direction") == "bidirectional" else 1
        shapes = {
            "W": (count, HIDDEN, FEATURES),
            "R": (count, HIDDEN, HIDDEN),
            "B": (count, 2 * HIDDEN),
        }
        known = {n: rng.standard_normal(s).astype(F32) / 2 for n, s in shapes.items()}
        feeds = {
            "x": rng.standard_normal((STEPS, BATCH, FEATURES)).astype(F32),
            "h": rng.standard_normal((count, BATCH, HIDDEN)).astype(F32),
        }
        inputs = ["x", "W", "R", "B", "", "h"]
        given = {"hidden_size": HIDDEN} | attributes
        node = helper.make_node("RNN", inputs, ["y", "last"], name="the_node", **given)
        return model([node], feeds, ["y", "last"], known), feeds

    return make


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("Relu", {}),
        ("Sigmoid", {}),
        ("Softplus", {}),
        ("Softsign", {}),
        ("Affine", {"activation_alpha": [0.5], "activation_beta": [0.25]}),
        ("Elu", {}),
        ("Elu", {"activation_alpha": [0.5]}),
        ("HardSigmoid", {}),
        ("HardSigmoid", {"activation_alpha": [0.3], "activation_beta": [0.4]}),
        ("LeakyRelu", {}),
        ("LeakyRelu", {"activation_alpha": [0.2]}),
        ("ScaledTanh", {"activation_alpha": [1.5], "activation_beta": [0.5]}),
        ("ThresholdedRelu", {"activation_alpha": [0.5]}),
    ],
)
def test_activations(agree, layer, name, numbers) -> None:
    agree(*layer(activations=[name], **numbers), **NEAR)


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        (("Relu", "Tanh"), {}),
        (("Tanh", "LeakyRelu"), {"activation_alpha": [0.2]}),
        (("LeakyRelu", "Affine"), {"activation_alpha": [0.2, 0.5], "activation_beta": [0.25]}),
        (
            ("Affine", "HardSigmoid"),
            {"activation_alpha": [0.5, 0.3], "activation_beta": [0.2, 0.4]},
        ),
    ],
)
def test_each_direction_has_its_own(agree, layer, names, numbers) -> None:
    agree(*layer(activations=names, direction="bidirectional", **numbers), **NEAR)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("Affine", lambda x: x),
        ("ThresholdedRelu", lambda x: np.where(x > 1, x, 0)),
        ("RELU", lambda x: np.maximum(x, 0)),
    ],
)
def test_defaults_are_those_of_the_operators(read, evaluate, layer, name, function) -> None:
    """As ONNX says, in any case of letters; ONNX Runtime takes 0 for numbers, and one spelling."""
    model, feeds = layer(activations=[name])
    w, r, b = map(_values, model.graph.initializer)
    h = feeds["h"][0].astype(np.float64)
    for x in feeds["x"]:
        h = function(x @ w[0].T + h @ r[0].T + b[0].reshape(2, -1).sum(0))
    np.testing.assert_allclose(evaluate(read(model), feeds)["last"][0], h, **NEAR)


def _values(tensor):
    return np.frombuffer(tensor.raw_data, F32).reshape(tensor.dims)


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"activations": ["Gelu"]}, "unknown activation 'Gelu'; expected one of Affine, Elu"),
        ({"activations": ["Relu", "Relu"]}, "expected 1 activation for 1 direction, got 2"),
        ({"activations": ["ScaledTanh"]}, "ScaledTanh needs activation_alpha and"),
    ],
)
def test_what_a_model_must_not_say(read, layer, attributes, said) -> None:
    with pytest.raises(FrontendError) as caught:
        read(layer(**attributes)[0])
    assert said in caught.value.problems[0].message
