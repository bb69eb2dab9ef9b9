"""The algorithm `mixed-precision`: the cheapest bitwidths of layers within a budget."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, cast

from msgspec import Meta

from dovetail.errors import ConfigError, QuantizationError, counted
from dovetail.ir import Array
from dovetail.plugins.events import Progress
from dovetail.plugins.hooks import hooks
from dovetail.quantization import Choice, Precision, Trials
from dovetail_quantizers.algorithms.mixed_precision_costs import (
    Candidate,
    Layer,
    candidates_from,
    layers_of,
)
from dovetail_quantizers.algorithms.mixed_precision_state import State
from dovetail_quantizers.algorithms.parameters import Count, ParameterizedAlgorithm, Share
from dovetail_quantizers.output_error import MOST_DB, OutputError, decibels

Outputs = Sequence[Mapping[str, Array]]
# A function of the outputs of the float and the quantized network; larger is better.
Metric = Callable[[Outputs, Outputs], float]
Chosen = Mapping[str, Candidate]

SQNR = "sqnr"
TASK = "trying precisions"


@dataclass(frozen=True)
class MixedPrecision(ParameterizedAlgorithm):
    """Finds the cheapest bitwidths of weights and activations of each layer, within a budget.

    It starts with the most expensive candidate for all layers. Each layer is tried alone with each
    cheaper one; then the changes with the largest saving for the smallest loss are made permanent,
    one after the other, as long as the metric meets the budget. The cost combines bit operations
    (multiplications times both bitwidths) and the bytes of weights, both as shares of the cost of
    the most expensive candidate.

    Attributes:
        budget: Minimum of the metric; dB for `sqnr`.
        metric: `sqnr`, of the outputs; or MODULE:FUNCTION, a function of the outputs of the float
            network and of the quantized one for each sample (mappings from outputs to arrays);
            larger is better.
        candidates: Bitwidths of a layer, such as w4a8 or fp16, separated by commas.
        memory_share: Weight of bytes in the cost; the rest is the weight of bit operations.
        samples: Number of samples to compare, from the first.
        state: Path of a file that stores all trials, to continue an interrupted search. Empty:
            nothing is stored.
    """

    name: ClassVar[str] = "mixed-precision"

    budget: Annotated[float, Meta(ge=-1e9, le=1e9)] = 30.0
    metric: str = SQNR
    candidates: str = "w4a8,w8a8,w8a16,w16a16,fp16"
    memory_share: Share = 0.5
    samples: Count = 8
    state: str = ""

    def __post_init__(self) -> None:
        """Check the parameters.

        Raises:
            ConfigError: Values have the wrong type, are out of range or invalid; all are listed.
        """
        super().__post_init__()
        candidates_from(self.candidates)

    def choose(self, work: Trials) -> Choice:
        """Search; the notes list the steps and the result.

        Raises:
            QuantizationError: The budget cannot be met.
        """
        metric = metric_of(self.metric)
        layers = layers_of(work.graph, work.ops, work.options.activation_bits)
        exact = work.outputs(work.graph, self.samples)
        key = f"{work.fingerprint(self.samples)} {self.metric}"
        state = State(Path(self.state) if self.state else None, key)
        search = Search(
            layers,
            candidates_from(self.candidates),
            lambda chosen: metric(exact, work.outputs(work.quantized(chosen), self.samples)),
            spoilt=noise if self.metric == SQNR else lambda score: -score,
            memory_share=self.memory_share,
            state=state,
        )
        steps = search.run(self.budget)
        return Choice(steps[-1].precisions, table(steps, layers, len(state)))


def metric_of(name: str) -> Metric:
    """Return a metric by name.

    Raises:
        ConfigError: The metric is unknown.
    """
    if name == SQNR:
        return sqnr
    module, colon, function = name.partition(":")
    if not colon:
        raise ConfigError(
            f"metric '{name}' not found", hint=f"use '{SQNR}', or MODULE:FUNCTION for your own"
        )
    try:
        return cast("Metric", getattr(importlib.import_module(module), function))
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"the metric '{name}' cannot be loaded: {error}") from error


def sqnr(exact: Outputs, near: Outputs) -> float:
    """Return the signal-to-quantization-noise ratio of the worst output, in dB."""
    errors = {name: OutputError() for name in exact[0]}
    for one, other in zip(exact, near, strict=True):
        for name, error in errors.items():
            error.add(one[name], other[name])
    return min((decibels(error.share()) for error in errors.values()), default=MOST_DB)


def noise(score: float) -> float:
    """Return the noise share of a ratio in dB; noise shares are additive."""
    return float(10 ** (-score / 10))


@dataclass(frozen=True, slots=True)
class Step:
    """An assignment within the budget, cheaper than the one before.

    Attributes:
        chosen: Candidates by layer.
        score: Value of the metric.
        cost: Share of the most expensive assignment.
        changed: Name of the changed layer; empty for the first step.
    """

    chosen: Chosen
    score: float
    cost: float
    changed: str = ""

    @property
    def precisions(self) -> dict[str, Precision]:
        """The precisions of the layers."""
        return {name: each.precision for name, each in self.chosen.items()}


class Search:
    """A search.

    Args:
        layers: The layers to decide on.
        candidates: The candidates of each.
        score: Tries precisions, by layer; larger is better.
        spoilt: Converts a score to an additive loss; smaller is better.
        memory_share: Weight of bytes in the cost.
        state: Stored trials.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        candidates: Sequence[Candidate],
        score: Callable[[Mapping[str, Precision]], float],
        *,
        spoilt: Callable[[float], float],
        memory_share: float,
        state: State,
    ) -> None:
        self._layers = layers
        self._candidates = candidates
        self._try = score
        self._spoilt = spoilt
        self._memory = memory_share
        self._state = state
        dearest = max(candidates, key=lambda c: (c.weight_bits * c.activation_bits, c.weight_bits))
        self._first = {layer.name: dearest for layer in layers}
        self._operations = sum(layer.operations(self._first) for layer in layers) or 1
        self._bytes = sum(layer.bytes(dearest) for layer in layers) or 1

    def run(self, budget: float) -> list[Step]:
        """Return the steps; the last one is the result.

        Raises:
            QuantizationError: The most expensive assignment does not meet the budget.
        """
        step = self._step(self._first)
        if step.score < budget:
            raise QuantizationError(
                f"the metric is {step.score:.4g} with the most expensive candidate in every "
                f"layer, and the budget asks for {budget:.4g}",
                where="algorithm 'mixed-precision'",
                hint="lower the budget, add a wider candidate, or widen what has no weights "
                "(act_bitwidth)",
            )
        steps = [step]
        for name, candidate in self._moves(step):
            now = steps[-1]
            chosen = {**now.chosen, name: candidate}
            if self._cost(chosen) >= now.cost:
                continue
            tried = self._step(chosen, name)
            if tried.score >= budget:
                steps.append(tried)
        return steps

    def _moves(self, first: Step) -> list[tuple[str, Candidate]]:
        """Return changes of single layers, the smallest loss for the saving first."""
        rated = []
        moves = [(layer, each) for layer in self._layers for each in self._candidates]
        for number, (layer, candidate) in enumerate(moves, 1):
            chosen = {**self._first, layer.name: candidate}
            saved = first.cost - self._cost(chosen)
            if saved > 0:
                spoilt = self._spoilt(self._score(chosen)) - self._spoilt(first.score)
                rated.append((max(spoilt, 0.0) / saved, -saved, layer.name, candidate))
            if hooks.active:
                hooks.progress(Progress(TASK, number, len(moves), "trials"))
        rated.sort(key=lambda each: each[:2])
        return [(name, candidate) for _, _, name, candidate in rated]

    def _step(self, chosen: Chosen, changed: str = "") -> Step:
        return Step(chosen, self._score(chosen), self._cost(chosen), changed)

    def _score(self, chosen: Chosen) -> float:
        key = " ".join(f"{name}={each.name}" for name, each in chosen.items())
        known = self._state.get(key)
        if known is not None:
            return known
        found = self._try({name: each.precision for name, each in chosen.items()})
        self._state.put(key, found)
        return found

    def _cost(self, chosen: Chosen) -> float:
        operations = sum(layer.operations(chosen) for layer in self._layers)
        taken = sum(layer.bytes(chosen[layer.name]) for layer in self._layers)
        return (
            self._memory * taken / self._bytes + (1 - self._memory) * operations / self._operations
        )


def table(steps: Sequence[Step], layers: Sequence[Layer], tried: int) -> list[str]:
    """Return the steps as lines, and the candidate of each layer."""
    titles = {layer.name: layer.title for layer in layers}
    head = f"{counted(tried, 'assignment')} tried; cost (share of the most expensive) and metric"
    lines = [f"{head} of the steps:"]
    for step in steps:
        what = "every layer with the most expensive candidate"
        if step.changed:
            what = f"{titles[step.changed]} to {step.chosen[step.changed].name}"
        lines.append(f"{step.cost:8.4f} {step.score:10.4f}  {what}")
    lines += [f"{titles[name]}: {each.name}" for name, each in steps[-1].chosen.items()]
    return lines
