"""What the rounds say: medians, ratios, geometric means, and the targets for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median

from benchmarks.gauges import quartiles
from benchmarks.rounds import Sample, Samples
from benchmarks.targets import Target

OURS = "dovetail"
# Peers that round as another one of ours does are compared with that one, where it ran.
ALIKE: Mapping[str, str] = {"openvino-bf16": "dovetail-bf16"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """How we want to stand beside a peer.

    Attributes:
        mean: At least so many times as fast, in geometric mean.
        floor: On no network below that.
        memory: At most so many times its memory on any network; None where that does not matter.
    """

    mean: float
    floor: float
    memory: float | None = None


WANTED: Mapping[str, Wanted] = {
    "onnxruntime": Wanted(mean=1.2, floor=0.95, memory=1.2),
    "openvino": Wanted(mean=1.0, floor=0.85),
}


@dataclass(frozen=True, slots=True)
class Standing:
    """How fast we are on a network beside a peer; above one we are faster.

    Attributes:
        ratio: The peer's time over ours: median of the rounds.
        upper_ratio: The upper quartile of the rounds: noise can only make a round worse for one of
            the two, so this is the kinder reading, which the floor is held against.
        memory_ratio: Our peak memory above the baseline over the peer's: median of the rounds.
    """

    ratio: float
    upper_ratio: float
    memory_ratio: float


def standing(ours: Sequence[Sample], theirs: Sequence[Sample]) -> Standing:
    """Compare the rounds one by one: what disturbs a round disturbs both."""
    pairs = list(zip(ours, theirs, strict=True))
    _, middle, upper = quartiles([their.median_ms / our.median_ms for our, their in pairs])
    return Standing(middle, upper, median(our.added_mb / their.added_mb for our, their in pairs))


def standings(samples: Samples) -> dict[str, dict[str, Standing]]:
    """Return the standings by peer, then network; nothing where ours did not run."""
    found: dict[str, dict[str, Standing]] = {}
    for network, engines in samples.items():
        for peer, theirs in engines.items():
            ours = engines.get(ALIKE.get(peer, OURS), engines.get(OURS))
            if ours is not None and ours is not theirs:
                found.setdefault(peer, {})[network] = standing(ours, theirs)
    return found


def mean_ratio(networks: Mapping[str, Standing]) -> float:
    """Return the geometric mean of the ratios."""
    return geometric_mean([each.ratio for each in networks.values()])


def targets(found: Mapping[str, Mapping[str, Standing]]) -> list[Target]:
    """Hold the standings against the targets."""
    made = []
    for peer, wanted in WANTED.items():
        if not (networks := found.get(peer)):
            continue
        slowest = min(networks, key=lambda name: networks[name].upper_ratio)
        label = f"speed over {peer}"
        made.append(
            Target(f"{label}, geometric mean", mean_ratio(networks), wanted.mean, at_least=True)
        )
        made.append(
            Target(
                f"{label}, worst ({slowest})",
                networks[slowest].upper_ratio,
                wanted.floor,
                at_least=True,
            )
        )
        if wanted.memory is not None:
            largest = max(networks, key=lambda name: networks[name].memory_ratio)
            made.append(
                Target(
                    f"memory over {peer}, worst ({largest})",
                    networks[largest].memory_ratio,
                    wanted.memory,
                )
            )
    return made


def faults(samples: Samples) -> list[str]:
    """Name what gave wrong answers, each network and engine once."""
    return [
        f"{engine} on {network}: off by {max(s.difference for s in taken):.1e}"
        for network, engines in samples.items()
        for engine, taken in engines.items()
        if not all(sample.is_right for sample in taken)
    ]
