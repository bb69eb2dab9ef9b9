"""The judge of algorithms: what each did is kept only if the error of the outputs falls."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TypeGuard

from dovetail.errors import counted
from dovetail.ir import Graph, copy_graph
from dovetail.ops import OpRegistry, to_real
from dovetail.plugins.events import Progress
from dovetail.plugins.hooks import hooks
from dovetail.quantization import Calibration, Judgement, QuantizationOptions, Sample
from dovetail_quantizers.calibration.running import inputs_for, runner
from dovetail_quantizers.calibration.samples import is_repeatable, samples_of
from dovetail_quantizers.output_error import OutputError, decibels
from dovetail_quantizers.planning.overrides import Overrides
from dovetail_quantizers.planning.recipe import Recipes
from dovetail_quantizers.planning.rules import is_quantized
from dovetail_quantizers.trials import Trials

Noise = Mapping[str, float]
TASK = "judging algorithms"
BACKEND = "cpu"

# A share of the samples is held out if there are at least FEWEST: two or three samples tell less
# than all of them do, even if an algorithm learned from these.
FEWEST = 32
SHARE = 4
# No judgement runs more samples.
MOST = 32


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
    return is_repeatable(calibration) and not options.skip_algorithm_check


def note_on(judgement: Judgement) -> str:
    """Return a judgement as a note."""
    samples = counted(judgement.samples, "sample")
    where = f"{samples} held out" if judgement.held_out else f"the {samples} that it learned from"
    sqnr = f"{judgement.before_db:.1f} dB before, {judgement.after_db:.1f} dB after, on {where}"
    if judgement.kept:
        return f"{judgement.algorithm}: kept; SQNR of the outputs {sqnr}"
    return (
        f"{judgement.algorithm}: undone, because the error of the outputs did not fall; SQNR {sqnr}"
    )


@dataclass(frozen=True, slots=True)
class Subset:
    """Some samples of a calibration, in its order.

    Attributes:
        calibration: All samples; they can be read more than once.
        indices: Which ones.
    """

    calibration: Calibration
    indices: Collection[int]

    def __iter__(self) -> Iterator[Sample]:
        """Return an iterator over the samples."""
        return (sample for i, sample in enumerate(self.calibration) if i in self.indices)

    def __len__(self) -> int:
        return len(self.indices)


@dataclass(frozen=True, slots=True)
class Split:
    """Samples by their use.

    Attributes:
        learning: Those that algorithms see.
        judging: Those that outputs are compared on.
        ranges: Those that trial encodings are calibrated with.
        is_held_out: Whether no algorithm sees the judging samples.
    """

    learning: Subset
    judging: Subset
    ranges: Subset
    is_held_out: bool


def split_samples(graph: Graph, calibration: Calibration) -> Split:
    """Return the split of a calibration that can be read more than once.

    A quarter of the samples is held out, at most 32, evenly spread over all of them. Fewer than 32
    samples serve both uses.

    Raises:
        QuantizationError: There is no sample, or some do not fit; all of these are listed.
    """
    count = sum(1 for _ in samples_of(graph, calibration))
    is_held_out = count >= FEWEST
    judging = _spread(count, min(count // SHARE if is_held_out else count, MOST))
    learning = [i for i in range(count) if i not in judging] if is_held_out else range(count)
    return Split(
        Subset(calibration, frozenset(learning)),
        Subset(calibration, judging),
        Subset(calibration, frozenset(learning[:MOST])),
        is_held_out,
    )


def _spread(count: int, wanted: int) -> frozenset[int]:
    """Return evenly spread indices, the last of each part of the samples."""
    return frozenset((i + 1) * count // wanted - 1 for i in range(wanted))


def noise_of_outputs(
    exact: Graph, near: Graph, samples: Subset, ops: OpRegistry
) -> dict[str, float]:
    """Return the power of each output's error as a share of the output's power, by name.

    Integer outputs count only if there are no others.

    Args:
        exact: The float graph.
        near: The quantized graph.
        samples: Inputs.
        ops: Finds ops.
    """
    outputs = [t for t in exact.outputs if is_quantized(t)] or list(exact.outputs)
    errors = {tensor.name: OutputError() for tensor in outputs}
    specs = {tensor.name: tensor.spec for tensor in exact.inputs}
    with runner(exact, ops, BACKEND, ()) as run_exact, runner(near, ops, BACKEND, ()) as run_near:
        for number, sample in enumerate(samples_of(exact, samples), 1):
            wanted, found = run_exact(sample), run_near(inputs_for(near, sample, specs))
            for tensor in outputs:
                name = tensor.name
                errors[name].add(
                    to_real(wanted[name], tensor.spec), to_real(found[name], near.tensor(name).spec)
                )
            if hooks.active:
                hooks.progress(Progress(TASK, number, len(samples), "samples"))
    return {name: error.share() for name, error in errors.items()}
