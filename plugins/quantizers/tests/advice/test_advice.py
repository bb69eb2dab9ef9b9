"""Advice on options: each names a setting that raises the outputs' signal-to-noise ratio."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quantizing import model_of, new_graph, output

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.cli import main
from dovetail.ir import Array, Graph, TensorKind
from dovetail_opset.build import add, static
from dovetail_quantizers import graph_quantizer
from dovetail_quantizers.advice.advise import advice_on
from dovetail_quantizers.advice.noise import CHANNEL, RANGE, Noise

Case = tuple[Graph, list[Array], dict[str, Any]]
WIDE: dict[str, Any] = {"act_bitwidth": 16, "bias_bitwidth": 32}


def ratio(graph: Graph, samples: list[Array], options: dict[str, Any]) -> float:
    """The signal-to-noise ratio of output y, in dB, on samples that calibration did not see."""
    made = dt.quantize(model_of(graph), samples[:24], **options)
    with dt.Session(model_of(graph)) as exact, dt.Session(made) as near:
        wanted = np.stack([exact.run({"x": s})["y"] for s in samples[24:]]).astype(np.float64)
        found = np.stack([near.run({"x": s})["y"] for s in samples[24:]])
    return float(10 * np.log10(np.square(wanted).sum() / np.square(found - wanted).sum()))


def drawn(shape: tuple[int, ...], seed: int) -> list[Array]:
    return list(np.random.default_rng(seed).standard_normal((48, *shape)).astype(np.float32))


def even() -> Case:
    """One layer of even weights: 8 bits suffice."""
    graph, x = new_graph((1, 16))
    weight = np.random.default_rng(1).uniform(-1, 1, (8, 16)).astype(np.float32)
    output(add(graph, "FullyConnected", [x, static(graph, "w", weight)], name="y"))
    return graph, drawn((1, 16), 2), {}


def spread_channels(last: str = "y") -> Case:
    """Filters that differ 500-fold in size, evened out by the next layer; `last` is its result."""
    rng = np.random.default_rng(3)
    sizes = np.geomspace(1, 500, 8).astype(np.float32)
    graph, x = new_graph((1, 6, 6, 4))
    first = rng.standard_normal((3, 3, 4, 8)).astype(np.float32) * sizes
    pads = [[1, 1], [1, 1]]
    filters = static(graph, "w1", first)
    made = add(graph, "Conv2d", [x, filters], name="c1", stride=[1, 1], pad_amount=pads)
    made = add(graph, "ElementWiseMultiply", [made, static(graph, "k", 1 / sizes)], name="even")
    second = static(graph, "w2", rng.standard_normal((1, 1, 8, 4)).astype(np.float32))
    none = [[0, 0], [0, 0]]
    made = add(graph, "Conv2d", [made, second], name=last, stride=[1, 1], pad_amount=none)
    output(made)
    return graph, drawn((1, 6, 6, 4), 4), WIDE


def gated_channels() -> Case:
    """The same behind a gate that is open or closed: its input lies where a Sigmoid is flat."""
    graph, samples, options = spread_channels("c2")
    (x,), (made,) = graph.inputs, graph.outputs
    made.kind = TensorKind.NATIVE
    far = add(graph, "ElementWiseMultiply", [x, static(graph, "f", np.float32([500]))], name="far")
    gate = add(graph, "Sigmoid", [far], name="gate")
    output(add(graph, "ElementWiseMultiply", [made, gate], name="y"))
    return graph, samples, options


def spread_rows() -> Case:
    """Columns of a MatMul that differ 200-fold in size, all but one small."""
    rng = np.random.default_rng(5)
    sizes = np.where(np.arange(16) == 3, 200, 1).astype(np.float32)
    graph, x = new_graph((1, 16))
    weight = rng.standard_normal((16, 16)).astype(np.float32) * sizes
    made = add(graph, "MatMul", [x, static(graph, "w", weight)], name="m")
    made = add(graph, "ElementWiseMultiply", [made, static(graph, "k", 1 / sizes)], name="even")
    last = static(graph, "v", rng.standard_normal((16, 4)).astype(np.float32))
    output(add(graph, "MatMul", [made, last], name="y"))
    return graph, drawn((1, 16), 6), WIDE


def coarse_bias(largest: float = 400, idle: float = 1) -> Case:
    """One bias of 400 beside small ones: 8 bits have steps of 3.1 for sums of about 1.

    Every other row of the weights is multiplied by `idle`.
    """
    rng = np.random.default_rng(7)
    graph, x = new_graph((1, 64))
    weight = rng.uniform(-0.5, 0.5, (64, 64)).astype(np.float32)
    weight[::2] *= np.float32(idle)
    bias = rng.uniform(-1, 1, 64).astype(np.float32)
    bias[5] = -largest
    inputs = [x, static(graph, "w", weight), static(graph, "b", bias)]
    made = add(graph, "FullyConnected", inputs, name="f")
    made = add(graph, "Relu", [made], name="r")
    last = static(graph, "v", rng.uniform(-1, 1, (4, 64)).astype(np.float32))
    output(add(graph, "FullyConnected", [made, last], name="y"))
    return graph, drawn((1, 64), 8), {}


def precise() -> Case:
    """Biases of some steps in a network of 16 bits, which is good, but could be much better."""
    graph, samples, options = coarse_bias(largest=20)
    return graph, samples, options | {"act_bitwidth": 16, "weights_bitwidth": 16}


def few_bits() -> Case:
    """Two layers of even weights with 4 bits."""
    rng = np.random.default_rng(13)
    graph, made = new_graph((1, 64))
    for i in range(2):
        weight = static(graph, f"w{i}", rng.uniform(-1, 1, (64, 64)).astype(np.float32))
        made = add(graph, "FullyConnected", [made, weight], name="y" if i else "f")
    output(made)
    options = {"weights_bitwidth": 4, "use_per_row_quantization": True}
    return graph, drawn((1, 64), 14), options


def narrow_weights() -> Case:
    """A hundred rotations with weights of 8 bits, between activations of 16 bits."""
    rng = np.random.default_rng(15)
    graph, made = new_graph((1, 32))
    for i in range(100):
        rotation = np.linalg.qr(rng.standard_normal((32, 32)))[0].astype(np.float32)
        inputs = [made, static(graph, f"w{i}", rotation)]
        made = add(graph, "FullyConnected", inputs, name="y" if i == 99 else f"f{i}")
    output(made)
    samples = drawn((1, 32), 16)
    samples[:24] = [2 * sample for sample in samples[:24]]  # so that nothing is clipped later
    return graph, samples, {"act_bitwidth": 16, "use_per_row_quantization": True}


def long_tails() -> Case:
    """One value of 24 * 200,000 is a hundred times as large as the others."""
    rng = np.random.default_rng(9)
    graph, x = new_graph((1, 200_000))
    half = add(graph, "ElementWiseMultiply", [x, static(graph, "k", np.float32([0.5]))], name="h")
    output(add(graph, "ElementWiseAdd", [x, half], name="y"))
    values = rng.standard_normal((28, 1, 200_000), np.float32) * np.float32(0.3)
    values[3, 0, 77] = 40
    return graph, list(values), {"bias_bitwidth": 32}


def deep() -> Case:
    """A hundred sums in a row, each rounded to 8 bits."""
    graph, made = new_graph((1, 32))
    for i in range(100):
        ends = np.float32([1 if i % 2 else -1])
        inputs = [made, static(graph, f"k{i}", ends)]
        made = add(graph, "ElementWiseAdd", inputs, name="y" if i == 99 else f"a{i}")
    output(made)
    return graph, drawn((1, 32), 10), {}


def uneven_channels(between: str = "Relu") -> Case:
    """Channels that differ 10,000-fold between two convolutions, as in examples/trained/scaled."""
    rng = np.random.default_rng(11)
    sizes = np.geomspace(1, 1e4, 8).astype(np.float32)
    graph, x = new_graph((1, 6, 6, 4))
    params = {"stride": [1, 1], "pad_amount": [[0, 0], [0, 0]]}
    first = static(graph, "w1", rng.standard_normal((1, 1, 4, 8)).astype(np.float32) * sizes)
    made = add(graph, "Conv2d", [x, first], name="c1", **params)
    made = add(graph, between, [made], name="r")
    second = rng.standard_normal((1, 1, 8, 4)).astype(np.float32) / sizes[:, np.newaxis]
    made = add(graph, "Conv2d", [made, static(graph, "w2", second)], name="y", **params)
    output(made)
    return graph, drawn((1, 6, 6, 4), 12), {"bias_bitwidth": 32}


CASES: dict[str, tuple[Callable[[], Case], str]] = {
    "channels": (spread_channels, "use_per_channel_quantization"),
    "gate": (gated_channels, "use_per_channel_quantization"),
    "rows": (spread_rows, "use_per_row_quantization"),
    "bias": (coarse_bias, "bias_bitwidth"),
    "precise": (precise, "bias_bitwidth"),
    "few": (few_bits, "weights_bitwidth"),
    "weights": (narrow_weights, "weights_bitwidth"),
    "tails": (long_tails, "act_quantizer_calibration"),
    "width": (deep, "act_bitwidth"),
    "scales": (uneven_channels, "algorithms"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_first_advice_is_the_right_one_and_helps(name: str) -> None:
    build, option = CASES[name]
    graph, samples, options = build()
    report = quantize_with_report(model_of(graph), samples[:24], **options).report
    assert report.advice
    first = report.advice[0]
    assert first.option == option
    assert len(report.advice) <= 3
    assert [a.estimated_gain_db for a in report.advice] == sorted(
        (a.estimated_gain_db for a in report.advice), reverse=True
    )
    better = ratio(graph, samples, options | {first.option: first.value})
    assert better > ratio(graph, samples, options) + 1
    # followed, it is not given again
    again = quantize_with_report(
        model_of(graph), samples[:24], **options | {first.option: first.value}
    )
    assert option not in {advice.option for advice in again.report.advice}


def test_nothing_is_said_where_nothing_would_help() -> None:
    graph, samples, options = even()
    assert ratio(graph, samples, options) > 30
    assert quantize_with_report(model_of(graph), samples[:24], **options).report.advice == ()
    everything = {
        "act_bitwidth": 16,
        "weights_bitwidth": 16,
        "bias_bitwidth": 32,
        "use_per_channel_quantization": True,
        "use_per_row_quantization": True,
        "act_quantizer_calibration": "mse",
        "algorithms": ("cle",),
    }
    for build, _ in CASES.values():
        graph, samples, _ = build()
        made = quantize_with_report(model_of(graph), samples[:24], **everything)
        assert made.report.advice == ()


def test_rows_that_are_little_but_their_bias_need_no_scale() -> None:
    graph, samples, _ = coarse_bias(largest=60, idle=1e-4)
    options: dict[str, Any] = {"act_bitwidth": 16, "weights_bitwidth": 16}
    made = quantize_with_report(model_of(graph), samples[:24], **options)
    assert [advice.option for advice in made.report.advice] == ["bias_bitwidth"]


@pytest.mark.parametrize("number", [-1e4, -3.4e38])
def test_hidden_elements_of_a_mask_are_no_noise(number: float) -> None:
    """The end of a grid represents them: more bits are no gain."""
    graph, x = new_graph((4, 8))
    zero = static(graph, "zero", np.zeros((), np.float32))
    lowest = static(graph, "lowest", np.full((), number, np.float32))
    is_low = add(graph, "ElementWiseLess", [x, zero], name="is_low")
    mask = add(graph, "ElementWiseSelect", [is_low, lowest, zero], name="mask")
    total = add(graph, "ElementWiseAdd", [x, mask], name="total")
    output(add(graph, "Softmax", [total], name="y"))
    made = quantize_with_report(model_of(graph), drawn((4, 8), 5))
    assert not any("'mask'" in advice.why for advice in made.report.advice)


def test_no_estimator_moves_an_end_for_infinities(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Noise] = []
    monkeypatch.setattr(graph_quantizer, "advice_on", lambda noise, _: found.append(noise) or [])
    graph, x = new_graph((4, 8))
    hidden = static(graph, "hidden", np.arange(8) > 4)
    lowest = static(graph, "lowest", np.full((), -np.inf, np.float32))
    masked = add(graph, "ElementWiseSelect", [hidden, lowest, x], name="masked")
    total = add(graph, "ElementWiseAdd", [masked, x], name="total")
    output(add(graph, "Softmax", [total], name="y"))
    dt.quantize(model_of(graph), [sample / 100 for sample in drawn((4, 8), 6)])
    (noise,) = found
    assert noise.savings[RANGE]["masked"] < 1e-3


def test_an_algorithm_is_named_only_where_it_can_help() -> None:
    graph, samples, options = uneven_channels("HardSwish")  # which passes on no factors
    made = quantize_with_report(model_of(graph), samples[:24], **options)
    found = [advice.option for advice in made.report.advice]
    assert "act_bitwidth" in found
    assert "algorithms" not in found


def test_nothing_is_measured_without_samples() -> None:
    graph, _, _ = even()
    made = quantize_with_report(model_of(graph), None, float_bitwidth=16)
    assert made.report.advice == ()


def test_the_command_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, build in (("bias", coarse_bias), ("even", even)):
        graph, samples, _ = build()
        model_of(graph).save(f"{name}.dvt")
        for i, sample in enumerate(samples[:8]):
            sample.tofile(f"{i}.raw")
        Path("list.txt").write_text("".join(f"{i}.raw\n" for i in range(8)))
        assert main(["--json", "quantize", "-i", f"{name}.dvt", "--input-list", "list.txt"]) == 0
        printed = capsys.readouterr()
        advice = json.loads(printed.out)["report"]["advice"]
        if name == "even":
            assert advice == []
            assert "samples" in printed.err.splitlines()[-1]
        else:
            assert (advice[0]["option"], advice[0]["value"]) == ("bias_bitwidth", 32)
            lines = printed.err.splitlines()[-1 - len(advice) :]
            assert "would reduce the error" in lines[0]
            assert "--bias-bitwidth 32: the steps of" in lines[1]
            assert "'b'" in lines[1]


def test_a_measured_ratio_replaces_the_estimated_one() -> None:
    noise = Noise()
    noise.add("w", 1e-2, {CHANNEL: 8e-3})
    assert [each.option for each in advice_on(noise)] == ["use_per_channel_quantization"]
    assert advice_on(noise, 31.0) == []
    slight = Noise()
    slight.add("w", 1e-4, {CHANNEL: 8e-5})
    assert advice_on(slight) == []
    assert len(advice_on(slight, 14.0)) == 1
