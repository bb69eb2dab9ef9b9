"""Statistics for algorithms, streamed over the samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import GraphError, QuantizationError
from dovetail.ir import Array, Graph
from dovetail.ops import OpRegistry, to_real
from dovetail.quantization import Calibration, Observation, Statistics
from dovetail_quantizers.calibration.running import runner
from dovetail_quantizers.calibration.samples import samples_of


def gather(
    graph: Graph,
    calibration: Calibration | None,
    wanted: Sequence[Observation],
    ops: OpRegistry,
    backend: str,
) -> dict[str, Statistics]:
    """Return the requested statistics, by tensor name.

    Raises:
        QuantizationError: There are no samples, or they do not match.
        GraphError: A tensor is not in the graph.
    """
    if not wanted:
        return {}
    if calibration is None:
        raise QuantizationError(
            "missing calibration samples for an algorithm that observes tensors",
            code="CALIBRATION_EMPTY",
            where=f"graph '{graph.name}'",
            hint="pass samples, or remove the algorithm",
        )
    tensors = {each.tensor: graph.tensor(each.tensor) for each in wanted}
    if static := [name for name, t in tensors.items() if t.kind.is_static]:
        raise GraphError(f"'{static[0]}' is static and cannot be observed")
    streams = {each.tensor: _Stream(each) for each in wanted}
    with runner(graph, ops, backend, tensors) as run:
        for sample in samples_of(graph, calibration):
            shown = run(sample)
            for name, stream in streams.items():
                with np.errstate(invalid="ignore"):  # calibration reports infinities
                    stream.take(to_real(shown[name], tensors[name].spec))
    return {name: stream.statistics() for name, stream in streams.items()}


class _Stream:
    def __init__(self, wanted: Observation) -> None:
        self._wanted = wanted
        self._minimum: NDArray[np.float64] = np.asarray(np.inf)
        self._maximum: NDArray[np.float64] = np.asarray(-np.inf)
        self._sum: NDArray[np.float64] = np.asarray(0.0)
        self._squares: NDArray[np.float64] = np.asarray(0.0)
        self._count = 0
        self._kept: list[NDArray[np.float32]] = []

    def take(self, values: Array) -> None:
        axis = self._wanted.axis
        others = None if axis is None else tuple(i for i in range(values.ndim) if i != axis)
        self._minimum = np.minimum(self._minimum, values.min(axis=others, initial=np.inf))
        self._maximum = np.maximum(self._maximum, values.max(axis=others, initial=-np.inf))
        self._sum = self._sum + values.sum(axis=others, dtype=np.float64)
        self._squares = self._squares + np.square(values, dtype=np.float64).sum(axis=others)
        self._count += values.size // (1 if axis is None else max(values.shape[axis], 1))
        if len(self._kept) < self._wanted.keep:
            self._kept.append(np.array(values, np.float32))

    def statistics(self) -> Statistics:
        count = max(self._count, 1)
        return Statistics(
            np.asarray(self._minimum, np.float64),
            np.asarray(self._maximum, np.float64),
            self._sum / count,
            self._squares / count,
            self._count,
            tuple(self._kept),
        )
