"""Every algorithm on graphs that are legal and unusual: none may raise, or break the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from quantizing import model_of, new_graph, output

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.errors import QuantizationError
from dovetail.ir import Array, DType, Graph, Spec, Tensor, TensorKind
from dovetail_opset.build import add, add_all, static

RNG = np.random.default_rng(91)
ALGORITHMS = ("adaround", "bias-correction", "cle", "smooth-quant", "mixed-precision")
STEPS, BATCH, READ, UNITS = 3, 2, 4, 5
# Ports of weights, biases and initial states.
LSTM = ({i: READ for i in (1, 2, 3, 16)} | {i: UNITS for i in (4, 5, 6, 17)}, (7, 8, 9, 21))
GRU = ({i: READ for i in (1, 2, 3)} | {i: UNITS for i in (4, 5, 6)}, range(7, 13))
STATES = {
    "Lstm": {10: (BATCH, UNITS), 11: (BATCH, UNITS)},
    "Gru": {13: (1, BATCH, UNITS)},
}


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def added_input(graph: Graph, name: str, shape: tuple[int, ...]) -> Tensor:
    return graph.add_tensor(Tensor(name, DType.FLOAT_32, shape, TensorKind.APP_WRITE))


def recurrent(op_type: str, *, fed: tuple[int, ...] = (), computed: bool = False) -> Graph:
    """A recurrent layer whose initial states and the ports in `fed` are inputs of the graph."""
    graph, x = new_graph((STEPS, BATCH, READ))
    weights, biases = LSTM if op_type == "Lstm" else GRU
    shapes = {i: (UNITS, k) for i, k in weights.items()} | {i: (UNITS,) for i in biases}
    ports: list[Tensor | None] = [None] * (25 if op_type == "Lstm" else 15)
    ports[0] = x
    for i, shape in (shapes | STATES[op_type]).items():
        is_fed = i in fed or i in STATES[op_type]
        ports[i] = (
            added_input(graph, f"h{i}", shape) if is_fed else static(graph, f"w{i}", normal(*shape))
        )
        if computed and i in STATES[op_type]:
            ports[i] = add(graph, "Tanh", [ports[i]], name=f"tanh{i}")
    names = ["y", "c", "h"] if op_type == "Lstm" else ["y", "h"]
    for tensor in add_all(graph, op_type, ports, name="layer", outputs=names, time_major=True):
        output(tensor)
    return graph


def shared_weights() -> Graph:
    graph, x = new_graph((1, 4))
    weight = static(graph, "w", normal(4, 4))
    for name in "abc":
        x = add(graph, "FullyConnected", [x, weight], name=name)
    output(x)
    return graph


def weight_is_input() -> Graph:
    graph, x = new_graph((1, 4))
    made = add(graph, "FullyConnected", [x, added_input(graph, "w", (3, 4))], name="a")
    made = add(graph, "FullyConnected", [made, static(graph, "v", normal(2, 3))], name="b")
    output(made)
    return graph


def bias_is_input() -> Graph:
    graph, x = new_graph((1, 4))
    inputs = [x, static(graph, "w", normal(3, 4)), added_input(graph, "b", (3,))]
    made = add(graph, "FullyConnected", inputs, name="a")
    output(add(graph, "FullyConnected", [made, static(graph, "v", normal(2, 3))], name="b2"))
    return graph


def updateable() -> Graph:
    graph, x = new_graph((1, 4))
    weight, bias = static(graph, "w", normal(3, 4)), static(graph, "b", normal(3))
    weight.kind = bias.kind = TensorKind.UPDATEABLE_STATIC
    made = add(graph, "FullyConnected", [x, weight, bias], name="a")
    output(add(graph, "FullyConnected", [made, static(graph, "v", normal(2, 3))], name="b2"))
    return graph


def no_rows() -> Graph:
    graph, x = new_graph((0, 4))
    made = add(graph, "FullyConnected", [x, static(graph, "w", normal(3, 4))], name="a")
    output(add(graph, "FullyConnected", [made, static(graph, "v", normal(2, 3))], name="b"))
    return graph


def no_channels() -> Graph:
    graph, x = new_graph((1, 4))
    made = add(graph, "FullyConnected", [x, static(graph, "w", normal(0, 4))], name="a")
    output(add(graph, "FullyConnected", [made, static(graph, "v", normal(2, 0))], name="b"))
    return graph


def no_filters() -> Graph:
    graph, x = new_graph((1, 4, 4, 2))
    made = x
    for name, shape in (("w", (1, 1, 2, 0)), ("v", (1, 1, 0, 2))):
        filters = static(graph, name, normal(*shape))
        made = add(
            graph, "Conv2d", [made, filters], name=f"c{name}", stride=[1, 1],
            pad_amount=[[0, 0], [0, 0]],
        )  # fmt: skip
    output(made)
    return graph


def rank_0() -> Graph:
    graph, x = new_graph(())
    made = add(graph, "ElementWiseMultiply", [x, static(graph, "k", np.float32(3))], name="a")
    output(add(graph, "Relu", [made], name="b"))
    return graph


def unused_outputs() -> Graph:
    graph, x = new_graph((1, 4))
    made = add(graph, "FullyConnected", [x, static(graph, "w", normal(3, 4))], name="a")
    output(add(graph, "Relu", [x], name="y"))
    add(graph, "FullyConnected", [made, static(graph, "v", normal(2, 3))], name="unread")
    return graph


def all_zeros() -> Graph:
    graph, x = new_graph((1, 4))
    made = add(
        graph, "FullyConnected", [x, static(graph, "w", np.zeros((3, 4), np.float32))], name="a"
    )
    made = add(graph, "Relu", [made], name="r")
    output(add(graph, "FullyConnected", [made, static(graph, "v", normal(2, 3))], name="b"))
    return graph


def same_tensor_twice() -> Graph:
    """A MatMul whose data are its weight."""
    graph, x = new_graph((1, 4))
    weight = static(graph, "w", normal(4, 4))
    product = add(graph, "MatMul", [weight, weight], name="p")
    output(add(graph, "MatMul", [x, product], name="y"))
    return graph


def batched_matrices() -> Graph:
    graph, x = new_graph((2, 1, 4))
    output(add(graph, "MatMul", [x, static(graph, "w", normal(2, 4, 3))], name="y"))
    return graph


def integers() -> Graph:
    graph, x = new_graph((3,), DType.INT_32)
    real = add(graph, "Cast", [x], name="real", spec=Spec(DType.FLOAT_32, (3,)))
    output(add(graph, "ElementWiseNeg", [real], name="y"))
    return graph


def norm_alone() -> Graph:
    graph, x = new_graph((1, 4))
    gamma, beta = added_input(graph, "gamma", (4,)), static(graph, "beta", normal(4))
    made = add(graph, "LayerNorm", [x, gamma, beta], name="n", axes=[1])
    output(add(graph, "FullyConnected", [made, static(graph, "v", normal(2, 4))], name="b"))
    return graph


ODD: dict[str, Callable[[], Graph]] = {
    "lstm-states-fed": lambda: recurrent("Lstm"),
    "gru-states-fed": lambda: recurrent("Gru"),
    "lstm-states-computed": lambda: recurrent("Lstm", computed=True),
    "gru-states-computed": lambda: recurrent("Gru", computed=True),
    "lstm-weight-fed": lambda: recurrent("Lstm", fed=(4,)),
    "gru-weight-fed": lambda: recurrent("Gru", fed=(5,)),
    "lstm-bias-fed": lambda: recurrent("Lstm", fed=(8,)),
    "gru-bias-fed": lambda: recurrent("Gru", fed=(8,)),
    "shared-weights": shared_weights,
    "weight-is-input": weight_is_input,
    "bias-is-input": bias_is_input,
    "updateable": updateable,
    "no-rows": no_rows,
    "no-channels": no_channels,
    "no-filters": no_filters,
    "rank-0": rank_0,
    "unused-outputs": unused_outputs,
    "all-zeros": all_zeros,
    "same-tensor-twice": same_tensor_twice,
    "batched-matrices": batched_matrices,
    "integers": integers,
    "norm-alone": norm_alone,
}


def samples_for(graph: Graph, count: int = 9) -> list[dict[str, Array]]:
    return [
        {
            t.name: RNG.integers(-9, 9, t.shape).astype(t.dtype.storage)
            if t.dtype is DType.INT_32
            else RNG.uniform(-1, 1, t.shape).astype(np.float32)
            for t in graph.inputs
        }
        for _ in range(count)
    ]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", ODD)
def test_algorithms_pass_over_what_they_cannot_improve(name: str, algorithm: str) -> None:
    graph = ODD[name]()
    samples = samples_for(graph)
    params: dict[str, Any] = {"adaround": {"iterations": 3}, "mixed-precision": {"budget": -300.0}}
    made = quantize_with_report(
        model_of(graph),
        samples,
        algorithms=[algorithm],
        algorithm_params={n: p for n, p in params.items() if n == algorithm},
    )
    with dt.Session(made.model) as session:
        found = session.run(samples[0])
    assert all(np.isfinite(values).all() for values in found.values())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_weights_that_are_not_finite_are_named(algorithm: str) -> None:
    weights = normal(3, 4)
    weights[1, 2] = np.nan
    graph, x = new_graph((1, 4))
    made = add(graph, "FullyConnected", [x, static(graph, "w", weights)], name="a")
    output(add(graph, "FullyConnected", [made, static(graph, "v", normal(2, 3))], name="b"))
    with pytest.raises(QuantizationError, match="cannot be quantized") as caught:
        quantize_with_report(model_of(graph), samples_for(graph), algorithms=[algorithm])
    assert caught.value.problems[0].where == "tensor 'w'"
