"""Recurrent layers against the peer."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import AttributeProto, helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32, I32 = np.float32, np.int32
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
# a few steps of sums of some ten products, in another order and by another tanh
NEAR = {"rtol": 1e-4, "atol": 1e-5}
STEPS, BATCH, FEATURES, HIDDEN = 4, 3, 5, 6


def inputs(rng, op_type, parts, count=1):
    """Return X, W, R, B, no lengths, the states and P by name, as far as they are in `parts`."""
    rows = GATES[op_type] * HIDDEN
    shapes = {
        "X": (STEPS, BATCH, FEATURES),
        "W": (count, rows, FEATURES),
        "R": (count, rows, HIDDEN),
        "B": (count, 2 * rows),
        "initial_h": (count, BATCH, HIDDEN),
        "initial_c": (count, BATCH, HIDDEN),
        "P": (count, 3 * HIDDEN),
    }
    return {
        name: rng.standard_normal(shape).astype(F32) / 2
        for name, shape in shapes.items()
        if name in ("X", "W", "R", *parts)
    }


ORDER = ("X", "W", "R", "B", "lengths", "initial_h", "initial_c", "P")
OUTPUTS = {"LSTM": ["Y", "Y_h", "Y_c"], "GRU": ["Y", "Y_h"], "RNN": ["Y", "Y_h"]}


@pytest.fixture
def layer(model):
    """Create a model of one layer: the states and X are inputs, the rest is known."""

    def make(op_type, arrays, *, opset=17, outputs=None, fed=("X", "initial_h", "initial_c"), **a):
        last = max(ORDER.index(name) for name in arrays)
        names = [name if name in arrays else "" for name in ORDER[: last + 1]]
        outs = OUTPUTS[op_type] if outputs is None else outputs
        given = {"hidden_size": HIDDEN} | a
        node = helper.make_node(op_type, names, outs, name="the_node", **given)
        feeds = {name: array for name, array in arrays.items() if name in fed}
        known = {name: array for name, array in arrays.items() if name not in fed}
        return model([node], feeds, [o for o in outs if o], known, opset=opset), feeds

    return make


def op_types(graph):
    return [node.op_type for node in graph.nodes]


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("op_type", "parts"),
    [
        ("LSTM", ()),
        ("LSTM", ("B",)),
        ("LSTM", ("B", "initial_h", "initial_c")),
        ("LSTM", ("initial_c", "P")),
        ("LSTM", ("B", "initial_h", "initial_c", "P")),
        ("GRU", ()),
        ("GRU", ("B",)),
        ("GRU", ("B", "initial_h")),
        ("RNN", ()),
        ("RNN", ("B", "initial_h")),
    ],
)
def test_parts(agree, layer, rng, op_type, parts, direction) -> None:
    arrays = inputs(rng, op_type, parts, 2 if direction == "bidirectional" else 1)
    graph = agree(*layer(op_type, arrays, direction=direction), **NEAR)
    if op_type != "RNN":
        name = op_type.capitalize()
        assert op_types(graph).count(name) == (2 if direction == "bidirectional" else 1)


@pytest.mark.parametrize("op_type", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("opset", [7, 14, 22])
def test_versions(agree, layer, rng, op_type, opset) -> None:
    agree(*layer(op_type, inputs(rng, op_type, ("B",)), opset=opset), **NEAR)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("linear", [0, 1, 2])
def test_linear_before_reset(agree, layer, rng, linear, direction) -> None:
    arrays = inputs(rng, "GRU", ("B", "initial_h"), 2 if direction == "bidirectional" else 1)
    agree(*layer("GRU", arrays, linear_before_reset=linear, direction=direction), **NEAR)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("parts", [("B",), ("B", "initial_h", "initial_c", "P")])
def test_coupled_gates(agree, layer, rng, parts, direction) -> None:
    arrays = inputs(rng, "LSTM", parts)
    # the peer does not read the weights of the forget gate then
    agree(*layer("LSTM", arrays, input_forget=1, direction=direction), **NEAR)


@pytest.mark.parametrize("op_type", ["LSTM", "GRU", "RNN"])
def test_outputs_that_nobody_reads(agree, layer, rng, op_type) -> None:
    arrays = inputs(rng, op_type, ("B",))
    for outputs in (["Y"], ["", "Y_h"], ["Y", "", "Y_c"]):
        if len(outputs) <= len(OUTPUTS[op_type]):
            graph = agree(*layer(op_type, arrays, outputs=outputs), **NEAR)
            assert len(graph.outputs) == len([o for o in outputs if o])


@pytest.mark.parametrize("op_type", ["LSTM", "GRU", "RNN"])
def test_states_known_to_be_0_are_left_out(agree, layer, rng, op_type) -> None:
    states = ("initial_h", "initial_c") if op_type == "LSTM" else ("initial_h",)
    arrays = inputs(rng, op_type, ("B", *states))
    agree(*layer(op_type, arrays, fed=("X",)), **NEAR)  # known ones that are not
    for name in states:
        arrays[name] *= 0
    graph = agree(*layer(op_type, arrays, fed=("X",)), **NEAR)
    plain = agree(*layer(op_type, inputs(rng, op_type, ("B",))), **NEAR)
    assert op_types(graph) == op_types(plain)
    assert not any("initial" in name for name in graph.tensors)


@pytest.mark.parametrize("op_type", ["LSTM", "GRU", "RNN"])
def test_lengths_of_all_steps(agree, layer, rng, op_type) -> None:
    arrays = inputs(rng, op_type, ("B",)) | {"lengths": np.full(BATCH, STEPS, I32)}
    agree(*layer(op_type, arrays), **NEAR)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op_type", ["LSTM", "GRU", "RNN"])
def test_batch_first(read, evaluate, run_peer, layer, rng, op_type, direction) -> None:
    """With layout 1, which ONNX Runtime cannot do, all tensors are turned and nothing else is."""
    parts = ("B", "initial_h", "initial_c") if op_type == "LSTM" else ("B", "initial_h")
    arrays = inputs(rng, op_type, parts, 2 if direction == "bidirectional" else 1)
    wanted = run_peer(*layer(op_type, arrays, direction=direction))
    turned = {n: a.swapaxes(0, 1) if n[0] in "Xi" else a for n, a in arrays.items()}
    model, feeds = layer(op_type, turned, direction=direction, layout=1, opset=14)
    found = evaluate(read(model), feeds)
    np.testing.assert_allclose(found["Y"], wanted["Y"].transpose(2, 0, 1, 3), **NEAR)
    for name in OUTPUTS[op_type][1:]:
        np.testing.assert_allclose(found[name], wanted[name].swapaxes(0, 1), **NEAR)


@pytest.mark.parametrize(("dtype", "near"), [(np.float64, NEAR), (np.float16, {"atol": 4e-3})])
@pytest.mark.parametrize("op_type", ["LSTM", "GRU", "RNN"])
def test_other_types(read, evaluate, run_peer, layer, rng, op_type, dtype, near) -> None:
    """The peer has them in float32 only; 4e-3 is four steps of float16 at 1."""
    arrays = inputs(rng, op_type, ("B", "initial_h"))
    wanted = run_peer(*layer(op_type, arrays))
    model, feeds = layer(op_type, {name: array.astype(dtype) for name, array in arrays.items()})
    for name, found in evaluate(read(model), feeds).items():
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wanted[name], **near)


@pytest.mark.parametrize("op_type", ["LSTM", "GRU"])
def test_no_activations_are_the_default_ones(agree, layer, rng, op_type) -> None:
    made, feeds = layer(op_type, inputs(rng, op_type, ("B",)))
    made.graph.node[0].attribute.add(name="activations", type=AttributeProto.STRINGS)
    graph = agree(made, feeds, **NEAR)
    assert op_type.capitalize() in op_types(graph)


def test_other_words_for_the_same_functions(agree, layer, rng) -> None:
    arrays = inputs(rng, "LSTM", ("B",), 2)
    names = ["sigmoid", "TANH", "Tanh"] * 2
    agree(*layer("LSTM", arrays, direction="bidirectional", activations=names), **NEAR)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("parts", "attributes"),
    [
        ((), {}),
        (("B",), {}),
        (("initial_c",), {}),
        (("B", "initial_h", "initial_c", "P"), {}),
        (("B", "P"), {}),
        (("B", "initial_h", "initial_c"), {"input_forget": 1}),
    ],
)
def test_lstm_with_other_activations(agree, layer, rng, direction, parts, attributes) -> None:
    count = 2 if direction == "bidirectional" else 1
    arrays = inputs(rng, "LSTM", parts, count)
    names = ["HardSigmoid", "Relu", "Softsign", "Sigmoid", "Tanh", "Relu"][: 3 * count]
    graph = agree(
        *layer("LSTM", arrays, direction=direction, activations=names, **attributes), **NEAR
    )
    assert "Lstm" not in op_types(graph)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("resets_product", [0, 1])
@pytest.mark.parametrize("parts", [(), ("B",), ("initial_h",), ("B", "initial_h")])
def test_gru_with_other_activations(agree, layer, rng, direction, resets_product, parts) -> None:
    count = 2 if direction == "bidirectional" else 1
    arrays = inputs(rng, "GRU", parts, count)
    names = ["HardSigmoid", "Relu", "Sigmoid", "LeakyRelu"][: 2 * count]
    how = {"direction": direction, "linear_before_reset": resets_product, "activations": names}
    graph = agree(*layer("GRU", arrays, **how), **NEAR)
    assert "Gru" not in op_types(graph)


@pytest.mark.parametrize("op_type", ["LSTM", "GRU"])
def test_the_activations_have_parameters(agree, layer, rng, op_type) -> None:
    """HardSigmoid, then LeakyRelu, which has no beta."""
    names = ["HardSigmoid", "LeakyRelu", "Affine"][: 3 if op_type == "LSTM" else 2]
    numbers = {"activation_alpha": [0.4, 0.3, 0.9], "activation_beta": [0.6, -0.1]}
    if op_type == "GRU":
        numbers = {"activation_alpha": [0.4, 0.3], "activation_beta": [0.6]}
    agree(*layer(op_type, inputs(rng, op_type, ("B",)), activations=names, **numbers), **NEAR)


@pytest.mark.parametrize("op_type", ["LSTM", "GRU"])
def test_too_many_steps_to_write_out(read, layer, rng, op_type) -> None:
    arrays = inputs(rng, op_type, ())
    arrays["X"] = np.zeros((600, 1, FEATURES), F32)
    names = ["Sigmoid", "Relu", "Relu"][: 3 if op_type == "LSTM" else 2]
    with pytest.raises(UnsupportedOpError, match="600 steps; the op has other activations"):
        read(layer(op_type, arrays, activations=names)[0])
    with pytest.raises(FrontendError, match=f"expected {len(names)} activations for 1 direction"):
        read(layer(op_type, inputs(rng, op_type, ()), activations=["Tanh"] * 4)[0])


@pytest.mark.parametrize(
    ("op_type", "attributes", "said"),
    [
        (
            "LSTM",
            {"clip": 3.0},
            "unsupported attribute clip = 3: no op clips",
        ),
    ],
)
def test_what_no_op_does(read, layer, rng, op_type, attributes, said) -> None:
    model, _ = layer(op_type, inputs(rng, op_type, ()), **attributes)
    with pytest.raises(UnsupportedOpError) as caught:
        read(model)
    assert said in str(caught.value)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("op_type", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("has_states", [True, False])
def test_sequences_of_their_own_length(
    agree, layer, rng, op_type, is_known, direction, has_states
) -> None:
    states = ("initial_h", "initial_c") if op_type == "LSTM" else ("initial_h",)
    parts = ("B", *states) if has_states else ("B",)
    count = 2 if direction == "bidirectional" else 1
    arrays = inputs(rng, op_type, parts, count) | {"lengths": np.array([3, 1, 2], I32)}
    fed = ("X", *states) if is_known else ("X", *states, "lengths")
    agree(*layer(op_type, arrays, fed=fed, direction=direction), **NEAR)


def test_lengths_that_do_not_fit(read, layer, rng) -> None:
    for lengths, said in (([4, 5, 3], "exceed the 4 steps"), ([4, 4], "a batch of 3")):
        arrays = inputs(rng, "GRU", ()) | {"lengths": np.array(lengths, I32)}
        with pytest.raises(FrontendError, match=said):
            read(layer("GRU", arrays)[0])
    arrays = inputs(rng, "GRU", ()) | {"lengths": np.array([600, 9, 3], I32)}
    arrays["X"] = np.zeros((601, BATCH, FEATURES), F32)
    with pytest.raises(UnsupportedOpError, match="601 steps; no op has sequences of different"):
        read(layer("GRU", arrays)[0])


def test_weights_that_are_computed(read, layer, rng) -> None:
    with pytest.raises(
        UnsupportedOpError,
        match="weights R 'R' is computed from the model's inputs; it must be known when",
    ):
        read(layer("GRU", inputs(rng, "GRU", ()), fed=("X", "R"))[0])


def test_a_plain_recurrence_of_many_steps(read, layer, rng) -> None:
    arrays = inputs(rng, "RNN", ()) | {"X": np.zeros((2001, BATCH, FEATURES), F32)}
    with pytest.raises(UnsupportedOpError, match=r"2001 steps; .* only 1 to 2000"):
        read(layer("RNN", arrays)[0])


@pytest.mark.parametrize(
    ("change", "attributes", "said"),
    [
        ({"W": (1, 24, 4)}, {}, "weights W must have shape (1, 24, 5), got (1, 24, 4)"),
        ({"R": (1, 24, 5)}, {}, "weights R must have shape (1, 24, 6), got (1, 24, 5)"),
        ({"B": (1, 24)}, {}, "bias B must have shape (1, 48), got (1, 24)"),
        ({"P": (1, 24)}, {}, "peepholes must have shape (1, 18), got (1, 24)"),
        (
            {},
            {"direction": "bidirectional"},
            "weights W must have shape (2, 24, 5), got (1, 24, 5)",
        ),
        (
            {},
            {"direction": "backwards"},
            "unsupported direction 'backwards'; expected one of forward, reverse,",
        ),
        ({"initial_h": (3, 6)}, {}, "initial_h must have shape (1, 3, 6), got (3, 6)"),
    ],
)
def test_what_a_model_must_not_say(read, layer, rng, change, attributes, said) -> None:
    arrays = inputs(rng, "LSTM", ()) | {n: np.zeros(shape, F32) for n, shape in change.items()}
    with pytest.raises(FrontendError) as caught:
        read(layer("LSTM", arrays, **attributes)[0])
    assert said in str(caught.value)
