"""Algorithms are kept only if the error of the outputs falls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from quantizing import dense, model_of, new_graph, output

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.container import Model
from dovetail.errors import PluginError, QuantizationError
from dovetail.ir import Array, Graph, Node, ScaleOffset, pack, to_text
from dovetail.ops import OpRegistry
from dovetail.quantization import (
    Observation,
    QuantizationAlgorithm,
    Quantized,
    Refinement,
    Workspace,
)
from dovetail_opset import PACKAGE
from dovetail_opset.build import add, static

RNG = np.random.default_rng(77)
FOUR_BITS = {"weights_bitwidth": 4, "param_quantizer_schema": "symmetric", "bias_bitwidth": 32}
# Rounded to 4 bits on a grid of steps of 1, the weight of the first input becomes 0.
HARMED = np.array([[-0.4, 7]], np.float32)


def cut_or_exact(count: int) -> list[Array]:
    """Half the samples give sums that the Relu cuts; all the error of the weight is in these."""
    cut = [np.array([[10, -1]], np.float32)] * (count // 2)
    exact = [np.array([[0, u]], np.float32) for u in RNG.uniform(0.2, 1, count - len(cut))]
    return [sample for pair in zip(cut, exact, strict=True) for sample in pair]


def ratio(graph: Graph, made: Model, samples: Sequence[Array]) -> float:
    """The signal-to-noise ratio of output y, in dB, written out."""
    with dt.Session(model_of(graph)) as exact, dt.Session(made) as near:
        wanted = np.stack([exact.run({"x": s})["y"] for s in samples]).astype(np.float64)
        found = np.stack([near.run({"x": s})["y"] for s in samples])
    return float(10 * np.log10(np.square(wanted).sum() / np.square(found - wanted).sum()))


def stored(made: Quantized) -> list[tuple[str, object, object, bytes]]:
    """All tensors of the graph, in order, with what they hold."""
    return [
        (t.name, t.spec, t.kind, t.stored().tobytes() if t.kind.is_static else b"")
        for t in made.model.graphs["net"].tensors.values()
    ]


def test_bias_correction_that_harms_is_undone() -> None:
    graph, samples = dense(HARMED, np.zeros(1, np.float32)), cut_or_exact(40)
    plain = quantize_with_report(model_of(graph), samples, **FOUR_BITS)
    judged = quantize_with_report(
        model_of(graph), samples, algorithms=["bias-correction"], **FOUR_BITS
    )
    forced = quantize_with_report(
        model_of(graph),
        samples,
        algorithms=["bias-correction"],
        skip_algorithm_check=True,
        **FOUR_BITS,
    )
    assert ratio(graph, forced.model, samples) < ratio(graph, plain.model, samples) - 10
    assert stored(judged) == stored(plain)
    (judgement,) = judged.report.judgements["net"]
    assert (judgement.algorithm, judgement.kept) == ("bias-correction", False)
    assert judgement.after_db < judgement.before_db - 10
    (note,) = judged.report.notes
    assert "undone" in note
    assert f"{judgement.before_db:.1f} dB before" in note
    assert judged.report.tensors == plain.report.tensors
    assert not forced.report.judgements


def test_bias_correction_that_helps_is_kept() -> None:
    weights = np.full((3, 16), 0.4, np.float32)
    weights[:, -1] = 7
    graph = dense(weights, np.ones(3, np.float32))
    samples = list(RNG.uniform(0, 1, (40, 1, 16)).astype(np.float32))
    made = quantize_with_report(
        model_of(graph), samples, algorithms=["bias-correction"], **FOUR_BITS
    )
    (judgement,) = made.report.judgements["net"]
    assert judgement.kept
    assert (judgement.samples, judgement.held_out) == (10, True)
    assert set(judgement.outputs) == {"y"}
    assert judgement.outputs["y"] == (judgement.before_db, judgement.after_db)
    # the mean over all samples instead of the ten that judge
    assert judgement.after_db == pytest.approx(ratio(graph, made.model, samples), abs=2)
    assert made.report.to_builtins()["judgements"]["net"][0]["kept"] is True


def test_a_harmful_rewrite_of_a_third_party_is_undone(
    installed: dict[str, type[QuantizationAlgorithm]],
) -> None:
    class Wrecker(QuantizationAlgorithm):
        """Replaces the Relu by a Tanh, adds a node, and halves a weight."""

        name: ClassVar[str] = "wrecker"

        def rewrite(self, work: Workspace) -> Sequence[str]:
            graph = work.graph
            weight, relu = graph.tensor("w"), graph.node("y")
            weight.data = pack(weight.values() / 2, weight.dtype)
            graph.remove_node(relu)
            inner = add(graph, "Tanh", [relu.inputs[0]], name="inner")
            graph.add_node(Node("y", PACKAGE.name, "Tanh", [inner], relu.outputs))
            return ("wrecked",)

    installed["wrecker"] = Wrecker
    graph, samples = dense(RNG.standard_normal((3, 4)).astype(np.float32), None), 5
    given = list(RNG.standard_normal((samples, 1, 4)).astype(np.float32))
    plain = quantize_with_report(model_of(graph), given)
    made = quantize_with_report(model_of(graph), given, algorithms=["wrecker"])
    assert to_text(made.model.graphs["net"]) == to_text(plain.model.graphs["net"])
    assert stored(made) == stored(plain)
    (judgement,) = made.report.judgements["net"]
    assert (judgement.kept, judgement.samples, judgement.held_out) == (False, 5, False)


def test_each_is_judged_beside_those_before_it(
    installed: dict[str, type[QuantizationAlgorithm]],
) -> None:
    def setter(title: str, values: float) -> type[QuantizationAlgorithm]:
        class Setter(QuantizationAlgorithm):
            name: ClassVar[str] = title

            def refine(self, work: Refinement) -> Sequence[str]:
                for layer in work.layers():
                    layer.set_bias(np.full(3, values, np.float32))
                return ()

        return Setter

    # weights lose 3 of the sums on the mean: what comes nearer to 3 is kept
    weights = np.full((3, 16), 0.4, np.float32)
    weights[:, -1] = 7
    graph = dense(weights, np.zeros(3, np.float32), relu=False)
    samples = list(RNG.uniform(0.4, 0.6, (6, 1, 16)).astype(np.float32))
    installed |= {n: setter(n, v) for n, v in (("a", 2.0), ("b", 1.0), ("c", 3.0), ("d", 2.5))}
    made = quantize_with_report(
        model_of(graph), samples, algorithms=["a", "b", "c", "d"], **FOUR_BITS
    )
    judgements = made.report.judgements["net"]
    assert [each.kept for each in judgements] == [True, False, True, False]
    # what was there before b and c is what a left
    assert judgements[0].after_db == judgements[1].before_db == judgements[2].before_db
    bias = made.model.graphs["net"].tensor("b")
    assert isinstance(bias.encoding, ScaleOffset)
    assert bias.stored() * bias.encoding.scale == pytest.approx(3, abs=0.1)  # a step is 0.03


def test_algorithms_do_not_see_the_samples_that_judge(
    installed: dict[str, type[QuantizationAlgorithm]],
) -> None:
    seen: dict[str, list[float]] = {}

    class Watcher(QuantizationAlgorithm):
        name: ClassVar[str] = "watcher"

        def observe(self, graph: Graph, ops: OpRegistry) -> Sequence[Observation]:
            return (Observation("x", keep=1000),)

        def rewrite(self, work: Workspace) -> Sequence[str]:
            seen["rewrite"] = [float(each[0, 0]) for each in work.seen["x"].kept]
            return ()

        def refine(self, work: Refinement) -> Sequence[str]:
            for layer in work.layers(1000):
                seen["refine"] = [float(each[0, 0]) for each in layer.float_inputs]
            return ()

    installed["watcher"] = Watcher
    graph = dense(RNG.standard_normal((3, 4)).astype(np.float32), None)
    for count, held_out in ((31, 0), (32, 8), (200, 32)):
        given = [np.full((1, 4), i, np.float32) for i in range(count)]
        made = quantize_with_report(model_of(graph), given, algorithms=["watcher"])
        assert len(seen["rewrite"]) == len(seen["refine"]) == count - held_out
        assert made.report.samples == {"net": count}  # ranges are of all
        assert not made.report.judgements  # nothing was changed
        left = sorted(set(range(count)) - {int(v) for v in seen["refine"]})
        # spread over all samples
        assert not left or max(np.diff(left)) - min(np.diff(left)) <= 1


def test_a_wrong_sample_keeps_its_number() -> None:
    given: list[Any] = [np.zeros((1, 4), np.float32)] * 40
    given[33] = np.zeros((1, 5), np.float32)
    graph = dense(RNG.standard_normal((3, 4)).astype(np.float32), None)
    with pytest.raises(QuantizationError) as caught:
        quantize_with_report(model_of(graph), given, algorithms=["bias-correction"])
    (problem,) = caught.value.problems
    assert problem.where == "sample 34"


def test_samples_that_pass_once_serve_a_rewrite_unjudged() -> None:
    graph, x = new_graph((1, 4))
    for name in "ab":
        weight = static(graph, f"w{name}", RNG.standard_normal((4, 4)).astype(np.float32))
        x = add(graph, "FullyConnected", [x, weight], name=name)
    output(x)
    samples = (each for each in RNG.standard_normal((6, 1, 4)).astype(np.float32))
    made = quantize_with_report(
        model_of(graph),
        samples,
        algorithms=["cle"],
        algorithm_params={"cle": {"absorb_biases": False}},
    )
    assert not made.report.judgements
    assert any("not judged" in note for note in made.report.notes)


def test_a_foreign_exception_names_the_algorithm(
    installed: dict[str, type[QuantizationAlgorithm]],
) -> None:
    class Broken(QuantizationAlgorithm):
        name: ClassVar[str] = "broken"

        def refine(self, work: Refinement) -> Sequence[str]:
            raise ZeroDivisionError("oh")

    installed["broken"] = Broken
    graph = dense(RNG.standard_normal((3, 4)).astype(np.float32), None)
    with pytest.raises(PluginError, match="ZeroDivisionError: oh") as caught:
        quantize_with_report(model_of(graph), [np.ones((1, 4))], algorithms=["broken"])
    assert "broken" in caught.value.where
