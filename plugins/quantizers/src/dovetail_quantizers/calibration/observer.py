"""The calibration run: every observed tensor's values go through its group's estimator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field

import numpy as np

from dovetail.calibration import RangeEstimator
from dovetail.errors import Problem, QuantizationError
from dovetail.ir import Array, Graph, Tensor
from dovetail.ops import OpRegistry, to_real
from dovetail.plugins.events import Progress
from dovetail.plugins.hooks import hooks
from dovetail.quantization import Calibration
from dovetail_quantizers.calibration.running import runner
from dovetail_quantizers.calibration.samples import samples_of
from dovetail_quantizers.planning.rules import HUGE, Range

TASK = "calibrating"
_LISTED = 20


@dataclass(slots=True)
class Observed:
    """What came of a calibration.

    Attributes:
        ranges: The estimators' ranges, by the name of the group's leader.
        samples: Number of runs.
        infinite: Names of tensors that held infinities, where these are let pass.
    """

    ranges: dict[str, Range] = field(default_factory=dict)
    samples: int = 0
    infinite: dict[str, None] = field(default_factory=dict)


def observe(
    graph: Graph,
    calibration: Calibration,
    watched: Mapping[str, Sequence[Tensor]],
    estimators: Mapping[str, RangeEstimator],
    ops: OpRegistry,
    *,
    backend: str,
    lenient: bool,
    extremes_only: bool = False,
) -> Observed:
    """Runs a float graph over samples.

    Args:
        graph: Not changed.
        calibration: The samples.
        watched: Tensors by the name under which they are observed.
        estimators: By that name; each is shown the values of all its tensors.
        ops: Finds ops.
        backend: Name of the backend that runs it.
        lenient: Whether infinities count for nothing instead of being an error.
        extremes_only: Whether the estimators look at the least and the greatest value alone, so
            that these two will do for all.

    Raises:
        QuantizationError: Samples do not fit, a tensor holds NaN or infinities (each is named with
            the first sample), or nothing finite.
    """
    tensors = {t.name: t for each in watched.values() for t in each}
    seen = Observed()
    total = len(calibration) if isinstance(calibration, Sized) else None
    with runner(graph, ops, backend, tensors) as run:
        for seen.samples, sample in enumerate(samples_of(graph, calibration), 1):
            shown = run(sample)
            bad: list[str] = []
            for name, group in watched.items():
                for tensor in group:
                    values = to_real(shown[tensor.name], tensor.spec)
                    ends = _ends(values)
                    # a comparison with NaN is false, too
                    if not bool((np.abs(ends) < HUGE).all()):
                        bad.append(tensor.name)
                        values = values[np.abs(values) < HUGE]
                    elif extremes_only:
                        values = ends
                    estimators[name].observe(values)
            if bad:
                _refuse(graph, shown, tensors, seen, lenient=lenient)
            if hooks.active:
                hooks.progress(Progress(TASK, seen.samples, total, "samples"))
    seen.ranges = dict(_ranges(graph, estimators))
    return seen


def _ends(values: Array) -> Array:
    # NaN survives both, an infinity one of them; no array of flags is made
    if not values.size:
        return values
    return np.array([values.min(), values.max()], values.dtype)


def _refuse(
    graph: Graph,
    shown: Mapping[str, Array],
    tensors: Mapping[str, Tensor],
    seen: Observed,
    *,
    lenient: bool,
) -> None:
    """Refuses a run that gave NaN, or infinities where these are not let pass."""
    problems = []
    for tensor in graph.tensors.values():
        if tensor.name not in tensors:
            continue
        values = to_real(shown[tensor.name], tensor.spec)
        if np.isnan(values).any():
            problems.append(_problem(tensor, "NaN", int(np.isnan(values).sum()), seen.samples))
        elif (count := int((np.abs(values) >= HUGE).sum())) and lenient:
            seen.infinite[tensor.source] = None
        elif count:
            what = f"infinities, or values beyond {HUGE:g},"
            problems.append(_problem(tensor, what, count, seen.samples))
    if problems:
        first = problems[0]
        more = len(problems) - _LISTED
        rest = [Problem(f"{more} more tensors, all computed later")] if more > 0 else []
        raise QuantizationError(
            f"calibration met values that no range can span, first in {first.where}",
            code="CALIBRATION_NOT_FINITE",
            where=f"graph '{graph.name}'",
            hint="look at that sample and at what computes the first tensor; infinities on purpose "
            "(masks) pass with the option lenient",
            problems=[*problems[:_LISTED], *rest],
        )


def _problem(tensor: Tensor, what: str, count: int, sample: int) -> Problem:
    return Problem(f"{count} {what} in sample {sample}", f"tensor '{tensor.source}'")


def _ranges(graph: Graph, estimators: Mapping[str, RangeEstimator]) -> Iterator[tuple[str, Range]]:
    for name, estimator in estimators.items():
        try:
            yield name, estimator.range()
        except QuantizationError as error:
            error.where = error.where or f"tensor '{graph.tensor(name).source}'"
            raise
