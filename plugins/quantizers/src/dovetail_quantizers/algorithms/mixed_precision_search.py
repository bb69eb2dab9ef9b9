"""The search for the cheapest precisions: each layer alone, then greedily all together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dovetail.errors import QuantizationError
from dovetail.plugins.events import Progress
from dovetail.plugins.hooks import hooks
from dovetail.quantization import Precision
from dovetail_quantizers.algorithms.mixed_precision_costs import Candidate, Layer
from dovetail_quantizers.algorithms.mixed_precision_state import State

Chosen = Mapping[str, Candidate]
TASK = "trying precisions"


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
    lines = [
        f"{tried} assignments tried; cost (share of the most expensive) and metric of the steps:"
    ]
    for step in steps:
        what = "every layer with the most expensive candidate"
        if step.changed:
            what = f"{titles[step.changed]} to {step.chosen[step.changed].name}"
        lines.append(f"{step.cost:8.4f} {step.score:10.4f}  {what}")
    lines += [f"{titles[name]}: {each.name}" for name, each in steps[-1].chosen.items()]
    return lines
