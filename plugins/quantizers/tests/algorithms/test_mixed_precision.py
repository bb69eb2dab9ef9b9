"""Mixed precision: the optimum of small problems, costs, and going on where it was interrupted."""

from __future__ import annotations

import itertools
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from quantizing import model_of, new_graph, output, quantized

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.errors import ConfigError, QuantizationError
from dovetail.ir import DType, Graph, pack
from dovetail.plugins.ops import installed_ops
from dovetail.quantization import Precision
from dovetail_opset.build import add, static
from dovetail_quantizers import trials
from dovetail_quantizers.algorithms.mixed_precision import Search, Step, noise, sqnr
from dovetail_quantizers.algorithms.mixed_precision_costs import Layer, candidates_from, layers_of
from dovetail_quantizers.algorithms.mixed_precision_state import State

RNG = np.random.default_rng(13)
SAMPLES = [RNG.standard_normal((1, 16)).astype(np.float32) for _ in range(12)]
OPTIONS = {
    "act_bitwidth": 16,
    "bias_bitwidth": 32,
    "param_quantizer_schema": "symmetric",
    "algorithms": ["mixed-precision"],
}
Score = Callable[[Mapping[str, Precision]], float]


def two_layers() -> Graph:
    """x (1, 16) -> `coarse`, whose weights are 4-bit integers -> Relu -> `fine`, with any."""
    graph, x = new_graph((1, 16))
    coarse = RNG.integers(-7, 8, (16, 16)).astype(np.float32)
    coarse[0, 0] = 7
    fine = RNG.standard_normal((4, 16)).astype(np.float32)
    made = add(graph, "FullyConnected", [x, static(graph, "wc", coarse)], name="coarse")
    made = add(graph, "Relu", [made], name="relu")
    output(add(graph, "FullyConnected", [made, static(graph, "wf", fine)], name="fine"))
    return graph


def parameters(**values: object) -> dict[str, dict[str, object]]:
    return {"mixed-precision": values}


def weight_bits(graph: Graph) -> list[int]:
    found = []
    for node in graph.nodes:
        if node.op_type == "FullyConnected":
            weight = node.inputs[1]
            assert weight is not None
            assert weight.encoding is not None
            found.append(weight.encoding.bitwidth or weight.dtype.bits)
    return found


def test_it_narrows_the_layer_that_loses_nothing_and_no_other() -> None:
    graph = two_layers()
    # 4 bits of `fine` leave about 20 dB, 8 bits about 45, 16 about 90
    for budget, fine in ((30.0, 8), (60.0, 16), (10.0, 4)):
        made = quantize_with_report(
            model_of(graph),
            SAMPLES,
            **OPTIONS,
            algorithm_params=parameters(budget=budget, candidates="w4a16,w8a16,w16a16"),
        )
        result = made.model.graphs["net"]
        assert weight_bits(result) == [4, fine]
        with dt.Session(model_of(graph)) as exact, dt.Session(made.model) as near:
            pairs = [(exact.run({"x": s})["fine"], near.run({"x": s})["fine"]) for s in SAMPLES[:8]]
        signal = sum(float(np.square(a.astype(np.float64)).sum()) for a, _ in pairs)
        error = sum(float(np.square(a.astype(np.float64) - b).sum()) for a, b in pairs)
        found = 10 * np.log10(signal / error)
        assert found >= budget
        # the note of the last step says what the finished model does, to its 4 digits
        steps = [n.split() for n in made.report.notes if " to w" in n or "dearest" in n]
        assert abs(float(steps[-1][2]) - found) < 0.01


def test_floats_and_activations_are_chosen_too() -> None:
    graph = two_layers()
    options = OPTIONS | {"act_bitwidth": 8}
    floats = quantized(
        graph, SAMPLES, **options, algorithm_params=parameters(candidates="fp16", budget=10.0)
    )
    assert {floats.tensor(name).dtype for name in ("relu", "fine", "wc")} == {DType.FLOAT_16}
    wide = quantized(
        graph, SAMPLES, **options, algorithm_params=parameters(candidates="w8a16", budget=10.0)
    )
    # the input is no layer's result; what Relu leaves shares its layer's width
    types_ = [wide.tensor(name).dtype for name in ("x", "coarse", "relu", "fine", "wf")]
    narrow = (DType.UFIXED_POINT_8, DType.UFIXED_POINT_16)
    assert types_ == [narrow[0], *[narrow[1]] * 3, DType.SFIXED_POINT_8]


def test_samples_are_calibrated_with_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    real = trials.observe

    def counted(*arguments: object, **named: object) -> object:
        runs.append(arguments)
        return real(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(trials, "observe", counted)
    quantized(two_layers(), SAMPLES, **OPTIONS, algorithm_params=parameters(budget=20.0))
    assert len(runs) == 1


LAYERS = tuple(
    Layer(name, name, products, weights, sources, 8)
    for name, products, weights, sources in (
        ("a", 1000, 100, ()),
        ("b", 1000, 100, ("a",)),
        ("c", 4000, 50, ("b",)),
    )
)
CANDIDATES = candidates_from("w4a8,w8a8,w16a16")
# Error that each layer brings at each candidate; errors add up. `b` bears nothing.
ERRORS = {
    "a": {4: 0.001, 8: 0.0001, 16: 0.0},
    "b": {4: 0.9, 8: 0.5, 16: 0.0},
    "c": {4: 0.02, 8: 0.001, 16: 0.0},
}


def planted(chosen: Mapping[str, Precision]) -> float:
    """Decibels of the planted errors' sum."""
    widths = {name: each.weights_bitwidth or 0 for name, each in chosen.items()}
    return float(-10 * np.log10(sum(ERRORS[n][w] for n, w in widths.items()) + 1e-9))


def searched(score: Score, state: State, budget: float) -> list[Step]:
    search = Search(LAYERS, CANDIDATES, score, spoilt=noise, memory_share=0.5, state=state)
    return search.run(budget)


@pytest.mark.parametrize("budget", [2.0, 15.0, 25.0, 35.0, 80.0])
def test_it_finds_the_optimum_of_a_planted_problem(budget: float) -> None:
    steps = searched(planted, State(None, ""), budget)

    def cost(chosen: Mapping[str, int]) -> float:
        # products x weights' bits x bits of what is read; activations are as wide as 16-bit weights
        read = {"a": 8, "b": 16 if chosen["a"] == 16 else 8, "c": 16 if chosen["b"] == 16 else 8}
        operations = sum(x.products * chosen[x.name] * read[x.name] for x in LAYERS)
        most = 16 * (1000 * 8 + 1000 * 16 + 4000 * 16)
        taken = sum(x.weights * chosen[x.name] for x in LAYERS) / (250 * 16)
        return 0.5 * operations / most + 0.5 * taken

    every = [dict(zip("abc", w, strict=True)) for w in itertools.product((4, 8, 16), repeat=3)]
    minimum = -(10 ** (-budget / 10)) - 1e-9
    kept = [w for w in every if -sum(ERRORS[n][b] for n, b in w.items()) - 1e-9 >= minimum]
    best = min(map(cost, kept))
    assert steps[-1].cost == pytest.approx(best)
    costs = [step.cost for step in steps]
    assert costs == sorted(costs, reverse=True)
    assert all(step.score >= budget for step in steps)


def test_an_interrupted_search_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    tried: list[Mapping[str, Precision]] = []

    def interrupted(chosen: Mapping[str, Precision]) -> float:
        if len(tried) == 4:
            raise KeyboardInterrupt
        tried.append(chosen)
        return planted(chosen)

    with pytest.raises(KeyboardInterrupt):
        searched(interrupted, State(path, "one"), 25.0)
    again: list[Mapping[str, Precision]] = []

    def counted(chosen: Mapping[str, Precision]) -> float:
        again.append(chosen)
        return planted(chosen)

    steps = searched(counted, State(path, "one"), 25.0)
    assert steps == searched(planted, State(None, ""), 25.0)
    assert len(tried) == 4
    assert again
    assert not [each for each in again if each in tried]
    again.clear()
    assert searched(counted, State(path, "one"), 25.0) == steps
    assert again == []
    # another model, or other samples, begin anew and leave the first search's scores alone
    searched(counted, State(path, "other"), 25.0)
    assert len(again) > 4
    again.clear()
    searched(counted, State(path, "one"), 25.0)
    assert again == []


def test_the_state_of_another_model_or_samples_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    graph = two_layers()
    given = parameters(state=str(path), budget=20.0, candidates="w4a16,w8a16")
    quantized(graph, SAMPLES, **OPTIONS, algorithm_params=given)
    first = path.read_bytes()
    quantized(graph, SAMPLES, **OPTIONS, algorithm_params=given)
    assert path.read_bytes() == first
    # what comes after the search, or improves its result, does not matter to it
    later = OPTIONS | {"algorithms": ["mixed-precision", "bias-correction"]}
    quantized(graph, SAMPLES, **later, algorithm_params=given)
    assert path.read_bytes() == first
    # only the last sample differs, which the search does not look at but calibration does
    others = [*SAMPLES[:-1], 2 * SAMPLES[-1]]
    quantized(graph, others, **OPTIONS, algorithm_params=given)
    second = path.read_bytes()
    assert second != first
    graph.tensor("wf").data = pack(graph.tensor("wf").values() * 1.5, DType.FLOAT_32)
    quantized(graph, SAMPLES, **OPTIONS, algorithm_params=given)
    assert path.read_bytes() != second


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    for data in (b"\xff\x00", b'{"version": 2}', b'{"scores": {}}'):
        path.write_bytes(data)
        with pytest.raises(QuantizationError):
            searched(planted, State(path, "one"), 25.0)
        assert path.read_bytes() == data


def test_costs_are_products_of_widths() -> None:
    graph, x = new_graph((1, 6, 6, 4))
    weight = static(graph, "w1", np.ones((3, 3, 4, 8), np.float32))
    pads = [[1, 1], [1, 1]]
    made = add(graph, "Conv2d", [x, weight], name="conv", stride=[2, 2], pad_amount=pads)
    made = add(graph, "Relu", [made], name="relu")
    weight = static(graph, "w2", np.ones((3, 3, 1, 8), np.float32))
    output(add(graph, "DepthWiseConv2d", [made, weight], name="dw", stride=[1, 1], pad_amount=pads))
    first, second = layers_of(graph, installed_ops(), 8)
    assert (first.products, first.weights, first.sources) == (9 * 3 * 3 * 4 * 8, 288, ())
    assert (second.products, second.weights, second.sources) == (9 * 3 * 3 * 8, 72, ("conv",))
    by_name = {each.name: each for each in candidates_from("w4a16,w8a8,fp16")}
    chosen = {"conv": by_name["w4a16"], "dw": by_name["w8a8"]}
    assert first.operations(chosen) == first.products * 4 * 8
    assert second.operations(chosen) == second.products * 8 * 16
    assert second.operations(chosen | {"dw": by_name["fp16"]}) == second.products * 16 * 16
    assert first.bytes(by_name["w4a16"]) == 144


def test_a_metric_of_ones_own_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("my_metric")
    # as if only the full precision were right
    module.worst = lambda exact, near: (
        -max(  # type: ignore[attr-defined]
            float(np.abs(a["fine"] - b["fine"]).max()) for a, b in zip(exact, near, strict=True)
        )
    )
    monkeypatch.setitem(sys.modules, "my_metric", module)
    given = parameters(metric="my_metric:worst", budget=-0.05, candidates="w4a16,w16a16")
    assert weight_bits(quantized(two_layers(), SAMPLES, **OPTIONS, algorithm_params=given)) == [
        4,
        16,
    ]


def test_what_cannot_be_is_told() -> None:
    graph = two_layers()
    for wrong, said in (
        ({"budget": 150.0}, "budget asks for 150"),
        ({"metric": "beauty"}, "metric 'beauty' not found"),
        ({"metric": "nowhere:at_all"}, "cannot be loaded"),
        ({"candidates": "w5a8,fp16,w8"}, "invalid candidates"),
        ({"samples": 0}, "invalid parameters"),
    ):
        with pytest.raises((ConfigError, QuantizationError), match=said):
            quantized(graph, SAMPLES, **OPTIONS, algorithm_params=parameters(**wrong))
    with pytest.raises(QuantizationError, match="only once"):
        quantized(graph, iter(SAMPLES), **OPTIONS, algorithm_params=parameters())


def test_sqnr_is_that_of_the_worst_output() -> None:
    exact = [{"a": np.array([3.0, 4.0]), "b": np.array([10.0])}]
    near = [{"a": np.array([3.0, 4.5]), "b": np.array([10.0])}]
    # 25 to 0.25
    assert sqnr(exact, near) == pytest.approx(20)
    assert sqnr(exact, exact) == 200
    assert sqnr(exact, [{"a": np.array([np.nan, 4]), "b": np.array([1.0])}]) == -200


def test_elements_that_are_not_finite_in_the_float_network_do_not_count() -> None:
    exact, near = ([{"a": np.array([-np.inf, one])}] for one in (1.0, 0.9))
    assert sqnr(exact, near) == pytest.approx(20)
