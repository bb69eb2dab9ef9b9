"""The samples that algorithms learn from, and those that judge them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from dovetail.ir import Graph
from dovetail.quantization import Calibration, Sample
from dovetail_quantizers.calibration.samples import samples_of

# A share of the samples is held out if there are at least FEWEST: two or three samples tell less
# than all of them do, even if an algorithm learned from these.
FEWEST = 32
SHARE = 4
# No judgement runs more samples.
MOST = 32


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
