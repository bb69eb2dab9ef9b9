"""The error of a quantized graph's outputs, streamed over samples."""

from __future__ import annotations

import math

import numpy as np

from dovetail.ir import Array, Graph
from dovetail.ops import OpRegistry, to_real
from dovetail.plugins.events import Progress
from dovetail.plugins.hooks import hooks
from dovetail_quantizers.calibration.running import inputs_for, runner
from dovetail_quantizers.calibration.samples import samples_of
from dovetail_quantizers.judgement.samples import Subset
from dovetail_quantizers.planning.rules import is_quantized

TASK = "judging algorithms"
BACKEND = "cpu"
# Of outputs without any error.
MOST_DB = 200.0


def noise_of_outputs(
    exact: Graph, near: Graph, samples: Subset, ops: OpRegistry
) -> dict[str, float]:
    """Return the power of each output's error as a share of the output's power, by name.

    Integer outputs count only if there are no others. Elements that are not finite in the float
    graph do not count.

    Args:
        exact: The float graph.
        near: The quantized graph.
        samples: Inputs.
        ops: Finds ops.
    """
    outputs = [t for t in exact.outputs if is_quantized(t)] or list(exact.outputs)
    errors = {tensor.name: _Error() for tensor in outputs}
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


def decibels(noise: float) -> float:
    """Return the signal-to-noise ratio of a noise share, from -200 to 200 dB."""
    if noise <= 0:
        return MOST_DB
    return (
        float(np.clip(-10 * math.log10(noise), -MOST_DB, MOST_DB)) if noise < math.inf else -MOST_DB
    )


class _Error:
    def __init__(self) -> None:
        self._signal = self._error = 0.0

    def add(self, exact: Array, near: Array) -> None:
        counts = np.isfinite(exact)
        values = exact[counts]
        self._signal += float(np.square(values, dtype=np.float64).sum())
        difference = np.subtract(near[counts], values, dtype=np.float64)
        self._error += float(np.square(difference).sum())

    def share(self) -> float:
        if not math.isfinite(self._error):
            return math.inf
        if not self._error:
            return 0.0
        return self._error / self._signal if self._signal else 1.0
