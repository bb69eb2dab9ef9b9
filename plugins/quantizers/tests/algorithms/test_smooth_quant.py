"""Smoothing: what is divided and multiplied, that the function stays, and what it is good for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from quantizing import model_of, new_graph, output, quantized
from rewriting import assert_same_function, outputs, rewritten

import dovetail as dt
from dovetail.errors import ConfigError, QuantizationError
from dovetail.ir import Array, Graph, TensorKind
from dovetail_opset.build import add, static
from dovetail_quantizers.algorithms.smooth_quant import SmoothQuant

RNG = np.random.default_rng(67)
# Tokens (1, 5, 6) of which channel 2 is an outlier.
OUTLIER = np.array([1, 1, 80, 1, 1, 1], np.float32)
TOKENS = list(RNG.standard_normal((8, 1, 5, 6)).astype(np.float32))
WEIGHTS = {name: RNG.standard_normal((6, 4)).astype(np.float32) for name in "qkv"}


def attention_like(*, residual: bool = False) -> Graph:
    """x (1, 5, 6) through LayerNorm, whose result three MatMul read; their results are added."""
    graph, x = new_graph((1, 5, 6))
    beta = static(graph, "beta", RNG.standard_normal(6).astype(np.float32))
    x = add(graph, "LayerNorm", [x, static(graph, "gamma", OUTLIER), beta], name="norm", axes=[2])
    made = [
        add(graph, "MatMul", [x, static(graph, f"{n}.w", w)], name=n) for n, w in WEIGHTS.items()
    ]
    total = add(graph, "ElementWiseAdd", made[:2], name="qk")
    total = add(graph, "ElementWiseAdd", [total, made[2]], name="qkv")
    if residual:
        mean = add(graph, "ReduceMean", [x], name="mean", axes=[2], keep_dims=True)
        total = add(graph, "ElementWiseAdd", [total, mean], name="sum")
    output(total)
    return graph


def shown(graph: Graph, name: str) -> Array:
    """The values of an inner tensor, (samples, ...)."""
    made = graph.tensor(name)
    made.kind = TensorKind.APP_READ
    with dt.Session(model_of(graph)) as session:
        found = np.stack([session.run({"x": sample})[name] for sample in TOKENS])
    made.kind = TensorKind.NATIVE
    return found


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 1.0])
def test_each_channel_is_divided_by_what_the_paper_says(alpha: float) -> None:
    graph = attention_like()
    data = np.abs(shown(graph, "norm").astype(np.float64)).reshape(-1, 6).max(axis=0)
    weights = np.max([np.abs(w).max(axis=1) for w in WEIGHTS.values()], axis=0)
    factors = [a**alpha / w ** (1 - alpha) for a, w in zip(data, weights, strict=True)]

    made, notes = rewritten(graph, TOKENS, SmoothQuant(alpha=alpha))
    np.testing.assert_allclose(made.tensor("gamma").values(), OUTLIER / factors, rtol=1e-5)
    for name, weight in WEIGHTS.items():
        wanted = weight * np.array(factors)[:, None]
        np.testing.assert_allclose(made.tensor(f"{name}.w").values(), wanted, rtol=1e-5)
    assert_same_function(graph, made, TOKENS)
    assert "LayerNorm 'norm' -> MatMul 'q', MatMul 'k', MatMul 'v': 6 channels" in notes[0]


def test_the_ends_of_alpha_even_out_one_side() -> None:
    made, _ = rewritten(attention_like(), TOKENS, SmoothQuant(alpha=1))
    np.testing.assert_allclose(np.abs(shown(made, "norm")).max(axis=(0, 1, 2)), 1, rtol=1e-5)
    made, _ = rewritten(attention_like(), TOKENS, SmoothQuant(alpha=0))
    all_weights = np.stack([made.tensor(f"{n}.w").values() for n in WEIGHTS])
    np.testing.assert_allclose(np.abs(all_weights).max(axis=(0, 2)), 1, rtol=1e-5)


def test_it_improves_the_ratio_of_signal_to_noise_beside_outliers() -> None:
    graph = attention_like()
    wanted = outputs(graph, TOKENS).astype(np.float64)
    ratios = []
    for algorithms in ([], ["smooth-quant"]):
        made = quantized(graph, TOKENS, algorithms=algorithms)
        noise = np.square(outputs(made, TOKENS) - wanted).sum()
        ratios.append(10 * np.log10(np.square(wanted).sum() / noise))
    # what the other channels add is lost in the steps of the one: measured against all of it
    assert ratios[1] > ratios[0] + 1


def test_small_channels_survive_beside_outliers() -> None:
    """Weights that read the outlier weakly: then the rest makes up the result."""
    graph, x = new_graph((1, 5, 6))
    x = add(graph, "RmsNorm", [x, static(graph, "gamma", OUTLIER)], name="norm", axes=[2])
    weight = WEIGHTS["q"] / OUTLIER[:, None]
    output(add(graph, "MatMul", [x, static(graph, "w", weight)], name="product"))
    wanted = outputs(graph, TOKENS).astype(np.float64)
    ratios = []
    for algorithms in ([], ["smooth-quant"]):
        made = quantized(graph, TOKENS, algorithms=algorithms)
        noise = np.square(outputs(made, TOKENS) - wanted).sum()
        ratios.append(10 * np.log10(np.square(wanted).sum() / noise))
    # the range shrinks by a factor of 80, which is 38 dB, until other errors are larger
    assert ratios[1] > ratios[0] + 20


def norm_graph(op_type: str, vectors: int, **params: Any) -> Graph:
    """x (1, 5, 6) through a normalization with as many vectors, and FullyConnected."""
    graph, x = new_graph((1, 5, 6))
    given = [
        static(graph, f"v{i}", RNG.uniform(0.1, 5, 6).astype(np.float32)) for i in range(vectors)
    ]
    x = add(graph, op_type, [x, *given], name="norm", **params)
    x = add(graph, "Relu", [x], name="relu")
    weight = static(graph, "w", RNG.standard_normal((4, 6)).astype(np.float32))
    output(add(graph, "FullyConnected", [x, weight], name="fc", keep_dims=True))
    return graph


@pytest.mark.parametrize(
    ("op_type", "minimum", "params"),
    [
        ("LayerNorm", 0, {"axes": [2]}),
        ("RmsNorm", 0, {"axes": [2]}),
        ("Batchnorm", 1, {}),
        ("InstanceNorm", 1, {}),
        ("GroupNorm", 0, {"epsilon": 1e-5, "group": 2}),
    ],
)
def test_every_normalization_takes_a_division(
    op_type: str, minimum: int, params: dict[str, Any]
) -> None:
    for vectors in range(minimum, 3):
        graph = norm_graph(op_type, vectors, **params)
        made, notes = rewritten(graph, TOKENS, SmoothQuant())
        assert notes[0].startswith(f"{op_type} 'norm' -> FullyConnected 'fc': 6 channels")
        scale = made.node("norm").inputs[1]
        assert scale is not None
        before = graph.tensor("v0").values() if vectors else np.ones(6)
        assert not np.allclose(scale.values(), before)
        assert_same_function(graph, made, TOKENS)


def test_channels_before_the_last_axis_are_found() -> None:
    graph, x = new_graph((1, 5, 6))
    gamma = static(graph, "gamma", RNG.uniform(0.1, 9, 5).astype(np.float32))
    x = add(graph, "LayerNorm", [x, gamma], name="norm", axes=[1])
    weight = static(graph, "w", RNG.standard_normal((5, 3)).astype(np.float32))
    output(add(graph, "MatMul", [x, weight], name="product", transpose_in0=True))
    made, notes = rewritten(graph, TOKENS, SmoothQuant())
    assert "5 channels divided" in notes[0]
    assert_same_function(graph, made, TOKENS)


def test_layers_before_layers_take_a_division() -> None:
    graph, x = new_graph((1, 4, 4, 3))
    still = {"stride": [1, 1], "pad_amount": [[0, 0], [0, 0]]}
    first = RNG.standard_normal((2, 2, 3, 5)) * [1, 50, 1, 1, 0.02]
    bias = static(graph, "b1", np.ones(5, np.float32))
    x = add(
        graph,
        "Conv2d",
        [x, static(graph, "w1", first.astype(np.float32)), bias],
        name="one",
        **still,
    )
    x = add(graph, "Relu", [x], name="relu")
    weight = RNG.standard_normal((4, 45)).astype(np.float32)
    output(add(graph, "FullyConnected", [x, static(graph, "w2", weight)], name="two"))
    samples = list(RNG.standard_normal((4, 1, 4, 4, 3)).astype(np.float32))
    made, notes = rewritten(graph, samples, SmoothQuant())
    assert notes[0].startswith("Conv2d 'one' -> FullyConnected 'two': 5 channels divided")
    assert notes[1] == "Conv2d 'one' is unchanged: the data is an input of the graph"
    assert_same_function(graph, made, samples)
    # each channel is read at nine places
    parts = np.abs(made.tensor("w2").values().reshape(4, 9, 5)).max(axis=(0, 1))
    before = np.abs(weight.reshape(4, 9, 5)).max(axis=(0, 1))
    assert parts[1] / before[1] > 4 * parts[0] / before[0]


def unchanged(graph: Graph, *said: str) -> None:
    """Check that nothing is divided, and that the notes are these."""
    before = {t.name: t.data for t in graph.tensors.values()}
    made, notes = rewritten(graph, TOKENS, SmoothQuant())
    assert notes == list(said)
    assert {t.name: t.data for t in made.tensors.values()} == before


def test_layers_beside_another_reader_are_left() -> None:
    reason = "ReduceMean 'mean' does not pass on factors of channels"
    unchanged(
        attention_like(residual=True),
        *(f"MatMul '{name}' is unchanged: {reason}" for name in "qkv"),
    )


def test_layers_behind_what_cannot_divide_are_left() -> None:
    graph, x = new_graph((1, 5, 6))
    x = add(graph, "Gelu", [x], name="gelu")
    x = add(graph, "Relu", [x], name="relu")
    output(add(graph, "MatMul", [x, static(graph, "w", WEIGHTS["q"])], name="product"))
    unchanged(graph, "MatMul 'product' is unchanged: Gelu 'gelu' cannot divide its channels")


def test_shared_weights_are_left() -> None:
    graph, x = new_graph((1, 5, 6))
    x = add(graph, "RmsNorm", [x], name="norm", axes=[2])
    shared = static(graph, "w", WEIGHTS["q"])
    made = [add(graph, "MatMul", [x, shared], name=name) for name in "ab"]
    output(add(graph, "ElementWiseAdd", made, name="sum"))
    why = "is unchanged: MatMul 'a' cannot be rewritten: other nodes share the weights 'w'"
    unchanged(graph, f"MatMul 'a' {why}", f"MatMul 'b' {why}")


def test_a_norm_over_several_axes_is_left() -> None:
    graph, x = new_graph((1, 5, 6))
    x = add(graph, "LayerNorm", [x], name="norm", axes=[1, 2])
    output(add(graph, "MatMul", [x, static(graph, "w", WEIGHTS["q"])], name="product"))
    unchanged(
        graph, "MatMul 'product' is unchanged: LayerNorm 'norm' has weights along several axes"
    )


def test_products_of_two_activations_are_no_layers() -> None:
    graph, x = new_graph((1, 5, 6))
    x = add(graph, "RmsNorm", [x], name="norm", axes=[2])
    output(add(graph, "MatMul", [x, x], name="product", transpose_in1=True))
    unchanged(graph)


def test_a_vector_that_others_read_is_not_changed_for_them() -> None:
    graph, x = new_graph((1, 5, 6))
    gamma = static(graph, "gamma", OUTLIER)
    x = add(graph, "RmsNorm", [x, gamma], name="norm", axes=[2])
    weight = static(graph, "w", RNG.standard_normal((6, 6)).astype(np.float32))
    x = add(graph, "MatMul", [x, weight], name="product")
    output(add(graph, "RmsNorm", [x, gamma], name="last", axes=[2]))
    made, _ = rewritten(graph, TOKENS, SmoothQuant())
    np.testing.assert_array_equal(made.tensor("gamma").values(), OUTLIER)
    assert_same_function(graph, made, TOKENS)


def test_channels_that_are_always_zero_stay() -> None:
    graph, x = new_graph((1, 5, 6))
    zeros = static(graph, "gamma", OUTLIER * np.array([0, 1, 1, 1, 1, 1], np.float32))
    x = add(graph, "RmsNorm", [x, zeros], name="norm", axes=[2])
    weight = WEIGHTS["q"].copy()
    weight[1] = 0
    output(add(graph, "MatMul", [x, static(graph, "w", weight)], name="product"))
    made, _ = rewritten(graph, TOKENS, SmoothQuant())
    gamma = made.tensor("gamma").values()
    assert (gamma[0], gamma[1]) == (0, OUTLIER[1])
    np.testing.assert_array_equal(made.tensor("w").values()[:2], weight[:2])
    assert_same_function(graph, made, TOKENS)


def test_it_needs_samples() -> None:
    with pytest.raises(QuantizationError, match="missing calibration samples"):
        dt.quantize(model_of(attention_like()), None, algorithms=["smooth-quant"])


@pytest.mark.parametrize("alpha", [-0.1, 1.5, float("nan"), "half", True, None])
def test_alpha_is_checked(alpha: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        SmoothQuant(alpha=alpha)
    assert "'alpha'" in str(caught.value.problems[0])
