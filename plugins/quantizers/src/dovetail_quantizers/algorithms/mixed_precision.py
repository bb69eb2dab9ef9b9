"""The algorithm `mixed-precision`: the cheapest bitwidths of layers within a budget."""

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
# A function of the outputs of the float and the quantized network; larger is better.
Metric = Callable[[Outputs, Outputs], float]
SQNR = "sqnr"
_BEST_DB = 200.0  # of outputs without any error


@dataclass(frozen=True)
class MixedPrecision(QuantizationAlgorithm):
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

    budget: float = field(default=30.0, metadata=Between(-1e9, 1e9).metadata)
    metric: str = SQNR
    candidates: str = "w4a8,w8a8,w8a16,w16a16,fp16"
    memory_share: float = field(default=0.5, metadata=Between(0, 1).metadata)
    samples: int = field(default=8, metadata=Between(1, 1_000_000).metadata)
    state: str = ""

    def __post_init__(self) -> None:
        """Check the parameters.

        Raises:
            ConfigError: Values have the wrong type, are out of range or invalid; all are listed.
        """
        check_parameters(self, self.name)
        candidates_from(self.candidates)

    def choose(self, work: Trials) -> Choice:
        """Search; the notes list the steps and the result.

        Raises:
            QuantizationError: The budget cannot be met.
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
    """Return the noise share of a ratio in dB; noise shares are additive."""
    return float(10 ** (-score / 10))
