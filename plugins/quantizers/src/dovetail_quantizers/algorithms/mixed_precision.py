"""The algorithm `mixed-precision`: the cheapest width of each layer that keeps the outputs good."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, cast

import numpy as np

from dovetail.errors import ConfigError
from dovetail.ir import Array
from dovetail.quantization import Choice, QuantizationAlgorithm, Trials
from dovetail_quantizers.algorithms.mixed_precision_costs import candidates_from, layers_of
from dovetail_quantizers.algorithms.mixed_precision_search import Search, table
from dovetail_quantizers.algorithms.mixed_precision_state import State
from dovetail_quantizers.algorithms.parameters import Between, check_parameters

Outputs = Sequence[Mapping[str, Array]]
# Takes what the float network and the quantized one give for each sample; more is better.
Metric = Callable[[Outputs, Outputs], float]
SQNR = "sqnr"
_BEST_DB = 200.0  # of outputs without any error


@dataclass(frozen=True)
class MixedPrecision(QuantizationAlgorithm):
    """Finds widths of weights and activations, layer by layer, that cost least within a budget.

    It begins with the dearest candidate everywhere. Each layer is tried alone with each cheaper
    one; then the changes that save most for what they spoil are made for good, one after the other,
    as long as the metric stays within the budget. The cost is that of bit operations
    (multiplications times the widths of both sides) and of the weights' bytes, both as shares of
    what the dearest candidate takes.

    Attributes:
        budget: What the metric must reach: decibels for `sqnr`.
        metric: `sqnr`, of the outputs; or MODULE:FUNCTION, a function of what the float network and
            the quantized one give for each sample (mappings from outputs to arrays), where more is
            better.
        candidates: Widths of a layer, as w4a8 or fp16, with commas between.
        memory_share: How much bytes count in the cost; bit operations count the rest.
        samples: As many of the first samples are looked at.
        state: Path of a file that keeps what was tried, so that a search goes on where it was
            interrupted. Without a path nothing is kept.
    """

    name: ClassVar[str] = "mixed-precision"

    budget: float = field(default=30.0, metadata=Between(-1e9, 1e9).metadata)
    metric: str = SQNR
    candidates: str = "w4a8,w8a8,w8a16,w16a16,fp16"
    memory_share: float = field(default=0.5, metadata=Between(0, 1).metadata)
    samples: int = field(default=8, metadata=Between(1, 1_000_000).metadata)
    state: str = ""

    def __post_init__(self) -> None:
        """Check the parameters.

        Raises:
            ConfigError: A value is of the wrong type, out of range or means nothing; says all.
        """
        check_parameters(self, self.name)
        candidates_from(self.candidates)

    def choose(self, work: Trials) -> Choice:
        """Search; the notes have the table of what was gone through, and the result.

        Raises:
            QuantizationError: The budget cannot be kept.
        """
        metric = metric_of(self.metric)
        layers = layers_of(work.graph, work.ops, work.options.act_bitwidth)
        exact = work.outputs(work.graph, self.samples)
        key = f"{work.fingerprint(self.samples)} {self.metric}"
        with State(Path(self.state) if self.state else None, key) as state:
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
    """Return the metric that a user names.

    Raises:
        ConfigError: There is none.
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
    """Return the power of the outputs over that of their error, in decibels: of the worst output."""
    found = _BEST_DB
    for name in exact[0]:
        signal = sum(float(np.square(each[name], dtype=np.float64).sum()) for each in exact)
        error = sum(
            float(np.square(np.subtract(one[name], other[name], dtype=np.float64)).sum())
            for one, other in zip(exact, near, strict=True)
        )
        if not np.isfinite(error):
            return -_BEST_DB
        if error > 0:
            found = min(found, 10 * float(np.log10(max(signal, 1e-300) / error)))
    return found


def noise(score: float) -> float:
    """Return the error's share of the power that decibels stand for: such shares add up."""
    return float(10 ** (-score / 10))
