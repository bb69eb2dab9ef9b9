"""Learned rounding of recurrent layers: their gates as products, and what comes of learning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from quantizing import model_of, new_graph, output, quantized

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.ir import Array, Graph, Tensor, TensorKind, dequantize
from dovetail.plugins.ops import installed_ops
from dovetail_opset.build import add_all, static
from dovetail_quantizers.algorithms.adaround_products import Recurrence, recurrence_of

RNG = np.random.default_rng(8)
STEPS, BATCH, READ, UNITS = 7, 3, 16, 12
OPTIONS: dict[str, Any] = {"weights_bitwidth": 4, "act_bitwidth": 16, "bias_bitwidth": 32}

# Of each gate: weights of x, weights of the state, biases.
LSTM = {"i": (16, 17, (21,)), "f": (1, 4, (7,)), "c": (2, 5, (8,)), "o": (3, 6, (9,))}
GRU = {"z": (1, 4, (7, 10)), "r": (2, 5, (8, 11)), "n": (3, 6, (9, 12))}


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def drawn(op_type: str, left_out: tuple[str, ...] = ()) -> dict[int, Array]:
    """Weights, biases and a state before the first step, by port."""
    found: dict[int, Array] = {}
    for gate, (of_x, of_h, biases) in (LSTM if op_type == "Lstm" else GRU).items():
        if gate not in left_out:
            found[of_x] = RNG.normal(0, 0.4, (UNITS, READ)).astype(np.float32)
            found[of_h] = RNG.normal(0, 0.4, (UNITS, UNITS)).astype(np.float32)
            found |= {b: RNG.standard_normal(UNITS).astype(np.float32) for b in biases}
    if "start" not in left_out:
        shapes = {10: (BATCH, UNITS), 11: (BATCH, UNITS)}
        shapes = shapes if op_type == "Lstm" else {13: (1, BATCH, UNITS)}  # type: ignore[dict-item]
        found |= {i: RNG.uniform(-1, 1, s).astype(np.float32) for i, s in shapes.items()}
    return found


def layer(op_type: str, statics: dict[int, Array], **params: Any) -> Graph:
    """The layer on x, (STEPS, BATCH, READ) or turned."""
    shape = (STEPS, BATCH, READ) if params.get("time_major", True) else (BATCH, STEPS, READ)
    graph, x = new_graph(shape)
    ports: list[Tensor | None] = [None] * (25 if op_type == "Lstm" else 15)
    ports[0] = x
    for i, values in statics.items():
        ports[i] = static(graph, f"w{i}", values)
    names = ["y", "c", "h"] if op_type == "Lstm" else ["y", "h"]
    for tensor in add_all(graph, op_type, ports, name="layer", outputs=names, **params):
        output(tensor)
    return graph


def lstm(x: Array, w: dict[int, Array]) -> Iterator[tuple[Array, dict[str, Array]]]:
    """Each step's h, and the sums in its gates, of x (steps, batch, k)."""
    zero = np.zeros((BATCH, UNITS))
    h, c = w.get(10, zero), w.get(11, zero)
    for step in x:
        sums = {
            gate: step @ w[of_x].T + h @ w[of_h].T + w[bias]
            for gate, (of_x, of_h, (bias,)) in LSTM.items()
            if of_x in w
        }
        forget = sigmoid(sums["f"])
        taken = sigmoid(sums["i"]) if "i" in sums else 1 - forget
        c = forget * c + taken * np.tanh(sums["c"])
        h = sigmoid(sums["o"]) * np.tanh(c)
        yield h, sums


def gru(x: Array, w: dict[int, Array], linear: bool) -> Iterator[tuple[Array, dict[str, Array]]]:
    """Likewise; `n` is what stands in its tanh, or with `linear` the two parts of it."""
    h = w[13][0] if 13 in w else np.zeros((BATCH, UNITS))
    for step in x:
        sums = {
            gate: step @ w[GRU[gate][0]].T + h @ w[GRU[gate][1]].T + w[GRU[gate][2][0]]
            + w[GRU[gate][2][1]]
            for gate in "zr"
        }  # fmt: skip
        update, reset = sigmoid(sums["z"]), sigmoid(sums["r"])
        if linear:
            sums["n of x"], sums["n of h"] = step @ w[3].T + w[9], h @ w[6].T + w[12]
            inner = sums["n of x"] + reset * sums["n of h"]
        else:
            sums["n"] = inner = step @ w[3].T + w[9] + (reset * h) @ w[6].T + w[12]
        h = (1 - update) * np.tanh(inner) + update * h
        yield h, sums


def columns_of(recurrence: Recurrence, x: Array, states: Array, w: dict[int, Array]) -> Array:
    """All gates' sums as the products give them, side by side, (steps * batch, n)."""
    start = w.get(recurrence.state)
    return np.concatenate(
        [
            recurrence.rows(gates, x, states, start, w) @ gates.columns(w)[0] + gates.bias(w)[0]
            for gates in recurrence.gates
        ],
        axis=1,
    )


CASES: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
    "lstm": ("Lstm", (), {}),
    "coupled": ("Lstm", ("i", "start"), {}),
    "reverse, batch first": ("Lstm", ("start",), {"direction": 1, "time_major": False}),
    "gru": ("Gru", (), {}),
    "gru, linear": ("Gru", ("start",), {"linear_before_reset": 1, "direction": 1}),
}


@pytest.mark.parametrize("case", CASES)
def test_rows_times_columns_is_what_goes_into_the_gates(case: str) -> None:
    op_type, left_out, params = CASES[case]
    w = drawn(op_type, left_out)
    graph = layer(op_type, w, **params)
    x = RNG.standard_normal(graph.tensor("x").shape).astype(np.float32)
    with dt.Session(model_of(graph)) as session:
        states = session.run({"x": x})["y"]
    recurrence = recurrence_of(graph.nodes[0], installed_ops())
    assert recurrence is not None
    steps = x if params.get("time_major", True) else x.swapaxes(0, 1)
    steps = steps[::-1] if params.get("direction") else steps
    linear = bool(params.get("linear_before_reset"))
    done = list(lstm(steps, w) if op_type == "Lstm" else gru(steps, w, linear))
    wanted = [np.concatenate(list(sums.values()), axis=1) for _, sums in done]
    found = columns_of(recurrence, x, states, w)
    # float32 sums of a dozen products, in another order
    np.testing.assert_allclose(found, np.concatenate(wanted), rtol=1e-4, atol=1e-5)
    for gates in recurrence.gates:
        values = {i: w[i] for i in gates.weights}
        for i, back in gates.split(gates.columns(values), values).items():
            np.testing.assert_array_equal(back, w[i])


def outputs(graph: Graph, samples: list[Array]) -> Array:
    with dt.Session(model_of(graph)) as session:
        return np.stack([session.run({"x": sample})["y"] for sample in samples])


@pytest.mark.parametrize("case", CASES)
def test_it_comes_nearer_and_stays_on_the_grid(case: str) -> None:
    op_type, left_out, params = CASES[case]
    w = drawn(op_type, left_out)
    graph = layer(op_type, w, **params)
    mixing = RNG.standard_normal((2, READ))
    shape = graph.tensor("x").shape[:-1]
    # inputs that go together, as those of a trained network do
    samples = [(RNG.standard_normal((*shape, 2)) @ mixing).astype(np.float32) for _ in range(24)]
    made, nearest = (
        quantized(graph, samples[:16], algorithms=names, **OPTIONS) for names in (["adaround"], [])
    )
    exact = outputs(graph, samples[16:])
    errors = [np.square(outputs(each, samples[16:]) - exact).sum() for each in (made, nearest)]
    # of inputs that go together learning leaves a tenth; a half is far from chance
    assert errors[0] < 0.5 * errors[1]
    moved = 0
    for i in recurrence_of(graph.nodes[0], installed_ops()).weights:  # type: ignore[union-attr]
        tensor = made.nodes[0].inputs[i]
        assert tensor is not None
        assert tensor.encoding is not None
        step = tensor.encoding.scales_and_offsets(tensor.shape)[0]
        away = np.abs(dequantize(tensor.stored(), tensor.encoding) - w[i]) / step
        assert away.max() < 1 + 1e-5  # rounding of float32 apart
        moved += int((away > 0.5 + 1e-5).sum())
    assert moved > 0


def test_a_layer_that_keeps_its_state_is_left_as_it_is() -> None:
    w = drawn("Gru") | {14: np.ones((), np.bool_)}
    graph = layer("Gru", w)
    samples = [RNG.standard_normal((STEPS, BATCH, READ)).astype(np.float32)]
    made = quantize_with_report(model_of(graph), samples, algorithms=["adaround"], **OPTIONS)
    (note,) = (note for note in made.report.notes if note.startswith("adaround"))
    assert "is left out, its weights rounded to nearest" in note


@pytest.mark.parametrize("op_type", ["Lstm", "Gru"])
def test_states_that_are_fed_count_as_constant_ones_do(op_type: str) -> None:
    w = drawn(op_type)
    ports = (10, 11) if op_type == "Lstm" else (13,)
    constant, fed = layer(op_type, w), layer(op_type, w)
    for i in ports:
        state = fed.tensor(f"w{i}")
        state.kind, state.data = TensorKind.APP_WRITE, None
    samples = [RNG.standard_normal((STEPS, BATCH, READ)).astype(np.float32) for _ in range(6)]
    of_constant = [{"x": sample} for sample in samples]
    of_fed = [{"x": sample} | {f"w{i}": w[i] for i in ports} for sample in samples]
    made = [
        quantized(graph, given, algorithms=["adaround"], skip_algorithm_check=True, **OPTIONS)
        for graph, given in ((constant, of_constant), (fed, of_fed))
    ]
    recurrence = recurrence_of(constant.nodes[0], installed_ops())
    assert recurrence is not None
    for i in recurrence.weights:
        one, other = (graph.tensor(f"w{i}").stored() for graph in made)
        np.testing.assert_array_equal(one, other)
