"""The calibration run: range estimators observe the tensors of a float graph."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence, Sized
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
from dovetail_quantizers.calibration.states import state_nodes
from dovetail_quantizers.planning.value_range import HUGE, Far, RowFloor, ValueRange

TASK = "calibrating"
NOTHING = ValueRange(math.inf, -math.inf)
_LISTED = 20
# Number of values drawn from a tensor per sample, and number of samples to draw from.
_DRAWN_VALUES = 1024
_DRAWN_SAMPLES = 8
_HINT = "check that sample and the node that computes the first tensor"
_MASKS = "the option lenient accepts intended infinities, such as masks"


@dataclass(frozen=True, slots=True)
class FilteredValues:
    """The values of a tensor in one run.

    Attributes:
        values: The values that count, or only their extremes.
        range: Their range, and whether some values represent infinities.
        is_bad: Whether there is NaN, or an unexpected infinity.
    """

    values: Array
    range: ValueRange
    is_bad: bool


@dataclass(frozen=True, slots=True)
class ValueFilter:
    """A filter for the values of a tensor.

    Attributes:
        counts: Which values count; None for all.
        extremes_only: Whether only the extremes are needed.
    """

    counts: RowFloor | Far | None
    extremes_only: bool

    def counting(self, values: Array) -> Array:
        """Return the values that count, all NaN, and the infinities that no mask explains."""
        if isinstance(self.counts, RowFloor):
            return self.counts.counting(values)
        if isinstance(self.counts, Far):
            kept = (values > self.counts.below) & (values < self.counts.above)
            if not kept.all():
                unexpected = np.isnan(values)
                if self.counts.below == -HUGE:
                    unexpected |= values == -np.inf
                if self.counts.above == HUGE:
                    unexpected |= values == np.inf
                return values[kept | unexpected]
        return values

    def at(self, values: Array) -> FilteredValues:
        """Return the filtered values of an array of any shape."""
        kept = self.counting(values)
        below = above = False
        if isinstance(self.counts, Far) and kept.size < values.size:
            below = bool((values <= self.counts.below).any())
            above = bool((values >= self.counts.above).any())
        ends = _ends(kept)
        # a comparison with NaN is false, too
        is_bad = not bool((np.abs(ends) < HUGE).all())
        if is_bad:
            below, above = below or bool(ends[0] <= -HUGE), above or bool(ends[1] >= HUGE)
            kept = kept[np.abs(kept) < HUGE]
            ends = _ends(kept)
        minimum, maximum = (float(ends[0]), float(ends[1])) if ends.size else NOTHING[:2]
        if self.extremes_only:
            kept = ends
        return FilteredValues(kept, ValueRange(minimum, maximum, below, above), is_bad)


def _ends(values: Array) -> Array:
    # NaN propagates through both, an infinity through one; no mask array is allocated
    if not values.size:
        return values
    return np.array([values.min(), values.max()], values.dtype)


@dataclass(slots=True)
class Observed:
    """The result of a calibration.

    Attributes:
        ranges: The estimated ranges, by the name of the group's leader.
        samples: Number of runs.
        members: The range of all values of each tensor; empty if no sample was run.
        is_infinite: Whether some values were infinite or huge.
        drawn: Some values of each tensor from the first samples; empty if no sample was run.
    """

    ranges: dict[str, ValueRange] = field(default_factory=dict)
    samples: int = 0
    members: dict[str, ValueRange] = field(default_factory=dict)
    is_infinite: bool = False
    drawn: dict[str, list[Array]] = field(default_factory=dict)


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
    counting: Mapping[str, RowFloor | Far] | None = None,
) -> Observed:
    """Run a float graph over samples.

    Args:
        graph: Not changed.
        calibration: The samples.
        watched: Observed tensors by the name of their group. Values of a node's state count as
            values of the output that they share the encoding of.
        estimators: By that name; each observes the values of all tensors of its group.
        ops: Finds ops.
        backend: Name of the backend that runs the graph.
        lenient: Whether infinities are left out of ranges instead of raising an error.
        extremes_only: Whether the estimators need only the minimum and the maximum.
        counting: Which values of a tensor count, by tensor name; all values of other tensors do.

    Raises:
        QuantizationError: Samples do not match, or a tensor has NaN, infinities (all of these are
            listed, with the first sample) or no finite value.
    """
    tensors = {t.name: t for each in watched.values() for t in each}
    names = {t: name for name, each in watched.items() for t in each}
    states = state_nodes(graph, names, ops)
    shows = {*tensors, *(t.name for each in states for t in each.shown)}
    filters = {name: ValueFilter((counting or {}).get(name), extremes_only) for name in tensors}
    seen = Observed()
    total = len(calibration) if isinstance(calibration, Sized) else None
    with runner(graph, ops, backend, shows) as run:
        for seen.samples, sample in enumerate(samples_of(graph, calibration), 1):
            shown = run(sample)
            is_bad = False
            outputs = ((t, to_real(shown[t.name], t.spec)) for t in names)
            inner = (found for each in states for found in each.values(shown))
            for tensor, values in itertools.chain(outputs, inner):
                filtered = filters[tensor.name].at(values)
                if seen.samples <= _DRAWN_SAMPLES and values.size:
                    seen.drawn.setdefault(tensor.name, []).append(_drawn(values))
                is_bad |= filtered.is_bad
                estimators[names[tensor]].observe(filtered.values)
                before = seen.members.get(tensor.name, NOTHING)
                seen.members[tensor.name] = before.joined(filtered.range)
            if is_bad:
                _check_finite(graph, shown, tensors, filters, seen.samples, lenient=lenient)
                seen.is_infinite = True
            if hooks.active:
                hooks.progress(Progress(TASK, seen.samples, total, "samples"))
    for name, group in watched.items():
        seen.ranges[name] = _range_of(graph, name, group, seen, estimators[name])
    return seen


def _drawn(values: Array) -> Array:
    """Return some values, always at the same positions."""
    if values.size <= _DRAWN_VALUES:
        return np.array(values, np.float32).ravel()
    at = np.random.default_rng(values.size).integers(0, values.size, _DRAWN_VALUES)
    return np.asarray(values.reshape(-1)[at], np.float32)


def _check_finite(
    graph: Graph,
    shown: Mapping[str, Array],
    tensors: Mapping[str, Tensor],
    filters: Mapping[str, ValueFilter],
    sample: int,
    *,
    lenient: bool,
) -> None:
    """Raise if a run gave NaN, or infinities that are not allowed."""
    problems = []
    any_nan = False
    for tensor in graph.tensors.values():
        if tensor.name not in tensors:
            continue
        values = filters[tensor.name].counting(to_real(shown[tensor.name], tensor.spec))
        if np.isnan(values).any():
            any_nan = True
            problems.append(_problem(tensor, "NaN", int(np.isnan(values).sum()), sample))
        elif not lenient and (count := int((np.abs(values) >= HUGE).sum())):
            what = f"infinities or values beyond {HUGE:g}"
            problems.append(_problem(tensor, what, count, sample))
    problems = list(dict.fromkeys(problems))  # a copy in another layout has the same fault
    if problems:
        first = problems[0]
        more = len(problems) - _LISTED
        rest = [Problem(f"{more} more tensors, computed later")] if more > 0 else []
        raise QuantizationError(
            f"calibration found values that no range can span, first in {first.where}",
            code="CALIBRATION_NOT_FINITE",
            where=f"graph '{graph.name}'",
            hint=_HINT if any_nan else f"{_HINT}; {_MASKS}",
            problems=[*problems[:_LISTED], *rest],
        )


def _problem(tensor: Tensor, what: str, count: int, sample: int) -> Problem:
    return Problem(f"{count} {what} in sample {sample}", f"tensor '{tensor.source}'")


def _range_of(
    graph: Graph, name: str, group: Sequence[Tensor], seen: Observed, estimator: RangeEstimator
) -> ValueRange:
    """Return the estimated range of a group; 0 to 0 if all its values represent infinities."""
    members = functools.reduce(
        ValueRange.joined, (seen.members.get(t.name, NOTHING) for t in group)
    )
    if members.minimum > members.maximum:
        return ValueRange(0.0, 0.0, members.below, members.above)
    try:
        return ValueRange(*estimator.range(), members.below, members.above)
    except QuantizationError as error:
        error.where = error.where or f"tensor '{graph.tensor(name).source}'"
        raise
