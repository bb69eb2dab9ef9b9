"""The states of recurrent layers: their encodings span every step, and the initial states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from quantizing import decisions, encoding, new_graph, output, quantized

from dovetail.ir import Array, DType, Graph, Tensor, TensorKind
from dovetail.plugins.ops import installed_ops
from dovetail.quantization import QuantizationOptions
from dovetail_opset.build import add, add_all, static
from dovetail_quantizers.planning.overrides import Overrides
from dovetail_quantizers.planning.recipe import Recipe, recipes_of
from dovetail_quantizers.trials import Trials

STEPS, BATCH, FEATURES, UNITS = 9, 2, 3, 4
# Sums in float32 and the backend's order of additions, against float64.
CLOSE = {"rtol": 1e-5}
Floats = NDArray[np.float64]
Weights = dict[int, Array]


def weights_of(kind: str) -> Weights:
    """Return weights by input, whose c grows in the first steps and shrinks in the last."""
    rng = np.random.default_rng(5)
    shapes = {i: (UNITS, FEATURES) for i in (1, 2, 3)} | {i: (UNITS, UNITS) for i in (4, 5, 6)}
    shapes |= {i: (UNITS,) for i in ((7, 8, 9) if kind == "Lstm" else range(7, 13))}
    if kind == "Lstm":
        shapes |= {16: (UNITS, FEATURES), 17: (UNITS, UNITS), 21: (UNITS,)}
    return {i: rng.standard_normal(shape).astype(np.float32) for i, shape in shapes.items()}


def samples_of(count: int) -> Array:
    """Return inputs that fade: (count, STEPS, BATCH, FEATURES)."""
    rng = np.random.default_rng(6)
    fading = np.linspace(2, 0, STEPS).reshape(-1, 1, 1)
    return np.asarray(rng.standard_normal((count, STEPS, BATCH, FEATURES)) * fading, np.float32)


def layer(
    kind: str, states: dict[int, Array | Tensor | None] | None = None, **params: Any
) -> tuple[Graph, tuple[Tensor, ...]]:
    """Return a graph of a layer, and its outputs; a state of None is an input of the graph."""
    graph, x = new_graph((STEPS, BATCH, FEATURES))
    ports: list[Tensor | None] = [None] * (25 if kind == "Lstm" else 15)
    ports[0] = x
    for i, values in weights_of(kind).items():
        ports[i] = static(graph, f"w{i}", values)
    for i, given in (states or {}).items():
        if given is None:
            made = Tensor(f"s{i}", DType.FLOAT_32, (BATCH, UNITS), TensorKind.APP_WRITE)
            if kind == "Gru":
                made.shape = (1, BATCH, UNITS)
            if i in (24, 14):
                made.shape, made.dtype = (), DType.BOOL_8
            ports[i] = graph.add_tensor(made)
        else:
            assert isinstance(given, np.ndarray)
            ports[i] = static(graph, f"s{i}", given)
    names = ["y", "c", "h"] if kind == "Lstm" else ["y", "h"]
    return graph, add_all(graph, kind, ports, name="layer", outputs=names, **params)


def sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))


def cells(x: Array, h: Floats | None = None, c: Floats | None = None) -> tuple[Floats, Floats]:
    """Return h and c after each step, (steps, BATCH, UNITS), in float64."""
    w = {i: values.astype(np.float64) for i, values in weights_of("Lstm").items()}
    h, c = (np.zeros((BATCH, UNITS)) if s is None else s for s in (h, c))
    found = []
    for step in x.astype(np.float64):
        i, f, g, o = (
            step @ w[of_x].T + h @ w[of_h].T + w[bias]
            for of_x, of_h, bias in ((16, 17, 21), (1, 4, 7), (2, 5, 8), (3, 6, 9))
        )
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        found.append((h, c))
    return np.array([h for h, _ in found]), np.array([c for _, c in found])


def outputs(tensors: tuple[Tensor, ...]) -> None:
    for tensor in tensors:
        output(tensor)


@pytest.mark.parametrize("direction", [0, 1], ids=["forward", "reverse"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_the_range_of_c_is_that_of_all_steps(direction: int, batch_first: bool) -> None:
    samples = samples_of(5)
    wanted = np.array([cells(x)[1] for x in samples])
    assert np.ptp(wanted) > 2 * np.ptp(wanted[:, -1])  # the last step does not show it
    samples = samples[:, ::-1] if direction else samples
    graph, made = layer("Lstm", direction=direction, time_major=True)
    if batch_first:
        graph, x = new_graph((BATCH, STEPS, FEATURES))
        ports: list[Tensor | None] = [x, *[None] * 24]
        for i, values in weights_of("Lstm").items():
            ports[i] = static(graph, f"w{i}", values)
        names = ["y", "c", "h"]
        made = add_all(graph, "Lstm", ports, name="layer", outputs=names, direction=direction,
                       time_major=False)  # fmt: skip
        samples = samples.swapaxes(1, 2)
    outputs(made)
    observed = decisions(graph, list(samples))["c"].observed
    np.testing.assert_allclose(observed, (wanted.min(), wanted.max()), **CLOSE)


@pytest.mark.parametrize("is_fed", [False, True], ids=["constants", "inputs"])
def test_initial_states_count(is_fed: bool) -> None:
    starts = {10: np.full((BATCH, UNITS), 1.5, np.float32), 11: np.full((BATCH, UNITS), -9.0)}
    starts = {i: values.astype(np.float32) for i, values in starts.items()}
    graph, made = layer("Lstm", dict.fromkeys(starts) if is_fed else dict(starts))
    outputs(made)
    x = samples_of(1)[0]
    fed = {f"s{i}": values for i, values in starts.items()} if is_fed else {}
    found = decisions(graph, [{"x": x, **fed}])
    h, c = cells(x, starts[10].astype(np.float64), starts[11].astype(np.float64))
    np.testing.assert_allclose(found["y"].observed, (h.min(), 1.5), **CLOSE)
    np.testing.assert_allclose(found["c"].observed, (-9, c.max()), **CLOSE)
    np.testing.assert_allclose(found["h"].observed, (h[-1].min(), h[-1].max()), **CLOSE)


@pytest.mark.parametrize("is_fed", [False, True], ids=["constant", "input"])
def test_the_initial_state_of_a_gru_counts(is_fed: bool) -> None:
    start = np.full((1, BATCH, UNITS), -3, np.float32)
    graph, made = layer("Gru", {13: None if is_fed else start})
    outputs(made)
    found = decisions(graph, [{"x": samples_of(1)[0], **({"s13": start} if is_fed else {})}])
    assert found["y"].observed is not None
    assert found["y"].observed[0] == -3
    assert found["h"].observed is not None
    assert found["h"].observed[0] > -2


def test_a_layer_that_goes_on_starts_with_the_state_of_the_last_sample() -> None:
    graph, made = layer("Lstm", {24: None})
    outputs(made)
    (first,) = samples_of(1)
    last = -first
    h, c = cells(first)
    wanted = np.concatenate([c, cells(last, h[-1], c[-1])[1]])
    alone = np.concatenate([c, cells(last)[1]])
    assert abs(wanted.max() - alone.max()) + abs(wanted.min() - alone.min()) > 1e-3
    flags = [np.array(True), np.array(False)]
    found = decisions(
        graph, [{"x": x, "s24": flag} for x, flag in zip((first, last), flags, strict=True)]
    )
    np.testing.assert_allclose(found["c"].observed, (wanted.min(), wanted.max()), **CLOSE)


@pytest.mark.parametrize("name", ["min-max", "percentile", "mse", "entropy", "sqnr"])
@pytest.mark.parametrize("bits", [8, 16])
def test_every_estimator_sees_each_c_once(name: str, bits: int) -> None:
    samples = samples_of(5)
    options = QuantizationOptions(act_bitwidth=bits, act_quantizer_calibration=name)
    recipe: Recipe = recipes_of(options).activation
    estimator = recipe.new_estimator()
    for x in samples:
        found = cells(x)[1].astype(np.float32)
        estimator.observe(found[-1])
        estimator.observe(found[:-1])
    graph, made = layer("Lstm")
    outputs(made)
    ours = encoding(
        quantized(graph, list(samples), act_bitwidth=bits, act_quantizer_calibration=name), "c"
    )
    wanted = recipe.grid(*estimator.range())
    # values that differ in the last bit may fall into another bin of a histogram
    np.testing.assert_allclose(ours.scale, wanted.scale, rtol=5e-3)
    assert abs(ours.offset - wanted.offset) <= 0.005 * 2**bits


@pytest.mark.parametrize("kind", ["Lstm", "Gru"])
def test_consumers_that_clip_or_are_flat_do_not_narrow_a_state(kind: str) -> None:
    graph, made = layer(kind)
    y, *rest = made
    output(add(graph, "Relu", [y], name="relu"))
    outputs(tuple(rest))
    samples = list(samples_of(3))
    found = decisions(graph, samples)
    assert found["y"].observed is not None
    assert found["y"].minimum == pytest.approx(found["y"].observed[0], abs=found["y"].scale)
    assert found["y"].minimum < -0.2
    assert found["relu"].minimum == 0


def test_a_flat_consumer_of_c_does_not_clip_it() -> None:
    start = np.full((BATCH, UNITS), -9, np.float32)
    graph, (y, c, h) = layer("Lstm", {11: start})
    output(add(graph, "Tanh", [c], name="flat"))  # from 6.5
    outputs((y, h))
    found = decisions(graph, list(samples_of(1)))["c"]
    assert found.minimum is not None
    assert found.minimum == pytest.approx(-9, abs=0.05)


def test_ranges_from_the_cache_span_every_step(tmp_path: Any) -> None:
    graph, made = layer("Lstm")
    outputs(made)
    found = [
        quantized(graph, list(samples_of(2)), calibration_cache=tmp_path / "ranges.json")
        for _ in range(2)
    ]
    plain = quantized(graph, list(samples_of(2)))
    assert {encoding(each, "c") for each in (*found, plain)} == {encoding(plain, "c")}


def test_trials_observe_states() -> None:
    graph, made = layer("Lstm")
    outputs(made)
    samples = samples_of(4)
    options = QuantizationOptions()
    tried = Trials(
        graph, list(samples), options, recipes_of(options), Overrides(), installed_ops()
    ).quantized({})
    c = np.array([cells(x)[1] for x in samples])
    assert encoding(tried, "c").scale == pytest.approx(np.ptp(c) / 255, rel=1e-5)
