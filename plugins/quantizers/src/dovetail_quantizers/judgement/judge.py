"""The judge of algorithms: what each did is kept only if the error of the outputs falls."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import TypeGuard

from dovetail.ir import Graph, copy_graph
from dovetail.ops import OpRegistry
from dovetail.quantization import Calibration, Judgement, QuantizationOptions
from dovetail_quantizers.judgement.noise import decibels, noise_of_outputs
from dovetail_quantizers.judgement.samples import split_samples
from dovetail_quantizers.planning.overrides import Overrides
from dovetail_quantizers.planning.recipe import Recipes
from dovetail_quantizers.trials import Trials

Noise = Mapping[str, float]


class Judge:
    """Compares quantized graphs with the float graph, on the cpu backend.

    Args:
        graph: The float graph before any algorithm changed it.
        calibration: The samples, which can be read more than once.
        options: The user's.
        recipes: What they mean.
        overrides: What was given for the graph's tensors.
        ops: Finds ops.

    Attributes:
        judgements: All judgements so far, in order.

    Raises:
        QuantizationError: There is no sample, or some do not fit.
    """

    def __init__(
        self,
        graph: Graph,
        calibration: Calibration,
        options: QuantizationOptions,
        recipes: Recipes,
        overrides: Overrides,
        ops: OpRegistry,
    ) -> None:
        self.judgements: list[Judgement] = []
        self._exact = copy_graph(graph)
        self._split = split_samples(graph, calibration)
        self._options = options
        self._recipes = recipes
        self._overrides = overrides
        self._ops = ops
        self._of_float: Noise | None = None
        self._of_quantized: Noise | None = None

    @property
    def learning(self) -> Calibration:
        """The samples that algorithms may see."""
        return self._split.learning

    @property
    def ratio_db(self) -> float | None:
        """The signal-to-noise ratio of the quantized outputs, None if it was not measured."""
        found = self._of_quantized or self._of_float
        return None if found is None else decibels(_mean(found))

    def of_rewrite(self, algorithm: str, before: Graph, after: Graph) -> Judgement:
        """Return the judgement of a float graph that an algorithm changed.

        Both are quantized with the user's options, and with ranges of up to 32 samples.
        """
        old = self._of_float or self._noise(self._quantized(before))
        new = self._noise(self._quantized(after))
        judgement = self._judged(algorithm, old, new)
        self._of_float = new if judgement.kept else old
        return judgement

    def of_refinement(self, algorithm: str, before: Graph, after: Graph) -> Judgement:
        """Return the judgement of a quantized graph that an algorithm changed."""
        old = self._of_quantized or self._noise(before)
        new = self._noise(after)
        judgement = self._judged(algorithm, old, new)
        self._of_quantized = new if judgement.kept else old
        return judgement

    def _judged(self, algorithm: str, old: Noise, new: Noise) -> Judgement:
        before, after = _mean(old), _mean(new)
        judgement = Judgement(
            algorithm=algorithm,
            kept=after < before,
            before_db=decibels(before),
            after_db=decibels(after),
            outputs={
                self._exact.tensor(name).source: (decibels(old[name]), decibels(new[name]))
                for name in old
            },
            samples=len(self._split.judging),
            held_out=self._split.is_held_out,
        )
        self.judgements.append(judgement)
        return judgement

    def _quantized(self, graph: Graph) -> Graph:
        ranges = self._split.ranges
        return Trials(
            graph, ranges, self._options, self._recipes, self._overrides, self._ops
        ).quantized({})

    def _noise(self, graph: Graph) -> Noise:
        return noise_of_outputs(self._exact, graph, self._split.judging, self._ops)


def _mean(noise: Noise) -> float:
    return fmean(noise.values()) if noise else 0.0


def can_judge(
    calibration: Calibration | None, options: QuantizationOptions
) -> TypeGuard[Calibration]:
    """Return whether algorithms are judged: with samples that can be read more than once."""
    is_readable = calibration is not None and iter(calibration) is not calibration
    return is_readable and not options.skip_algorithm_check


def told(judgement: Judgement) -> str:
    """Return a judgement as a note."""
    samples = f"{judgement.samples} samples"
    where = f"{samples} held out" if judgement.held_out else f"the {samples} that it learned from"
    sqnr = f"{judgement.before_db:.1f} dB before, {judgement.after_db:.1f} dB after, on {where}"
    if judgement.kept:
        return f"{judgement.algorithm}: kept; SQNR of the outputs {sqnr}"
    return (
        f"{judgement.algorithm}: undone, because the error of the outputs did not fall; SQNR {sqnr}"
    )
