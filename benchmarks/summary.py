"""Results of the rounds: medians, ratios, geometric means, and the targets for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median

from benchmarks.gauges import quartiles
from benchmarks.machine import has_exact_products
from benchmarks.rounds import Loads, Sample, Samples
from benchmarks.targets import Target

OURS = "dovetail"
# Our engines that peers are compared with, the first that ran: those that round alike.
_INT8 = ("htp-int8", "dovetail-int8")
ALIKE: Mapping[str, Sequence[str]] = {
    "openvino-bf16": ("dovetail-bf16", OURS),
    **dict.fromkeys((*_INT8, "htp-int16", "onnxruntime-int8", "openvino-int8"), _INT8),
    "onnxruntime-dynamic": ("dovetail-dynamic",),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Limits of the ratios to a peer.

    Attributes:
        mean: Lower limit of the geometric mean of the speed ratios.
        floor: Lower limit of each network's speed ratio; None for no limit.
        memory: Upper limit of each network's memory ratio; None for no limit.
    """

    mean: float
    floor: float | None = None
    memory: float | None = None


# By number of busy processes, then peer.
WANTED: Mapping[int, Mapping[str, Wanted]] = {
    0: {
        "onnxruntime": Wanted(mean=1.2, floor=0.95, memory=1.2),
        "openvino": Wanted(mean=1.0, floor=0.85),
    },
    2: {"onnxruntime": Wanted(mean=1 / 0.8, floor=1.0)},
}
_NOT_CONVOLUTIONAL = ("encoder", "lstm")


def _int8_wanted() -> Mapping[str, Wanted]:
    """Return the limits for quantized networks, by peer, on this processor."""
    if has_exact_products():
        return {"onnxruntime-int8": Wanted(mean=1.3), "openvino-int8": Wanted(mean=0.9)}
    return {"onnxruntime-int8": Wanted(mean=1.2, floor=0.9)}


@dataclass(frozen=True, slots=True)
class Standing:
    """Comparison with a peer on one network; above 1 we are faster.

    Attributes:
        ratio: The peer's time over ours: median of the rounds.
        upper_ratio: The upper quartile of the rounds, which the floor is compared with: noise makes
            single rounds worse for one of the two.
        memory_ratio: Our peak memory above the baseline over the peer's: median of the rounds.
    """

    ratio: float
    upper_ratio: float
    memory_ratio: float


def standing(ours: Sequence[Sample], theirs: Sequence[Sample]) -> Standing:
    """Compare round by round: a disturbance of a round affects both."""
    pairs = list(zip(ours, theirs, strict=True))
    _, middle, upper = quartiles([their.median_ms / our.median_ms for our, their in pairs])
    return Standing(middle, upper, median(our.added_mb / their.added_mb for our, their in pairs))


def standings(samples: Samples) -> dict[str, dict[str, Standing]]:
    """Return the standings by peer, then network; none where one of the two did not run."""
    found: dict[str, dict[str, Standing]] = {}
    for network, engines in samples.items():
        for peer, theirs in engines.items():
            alike = [e for e in ALIKE.get(peer, (OURS,)) if e in engines]
            ours = engines[alike[0]] if alike else None
            if theirs and ours is not None and ours is not theirs:
                found.setdefault(peer, {})[network] = standing(ours, theirs)
    return found


def mean_ratio(networks: Mapping[str, Standing]) -> float:
    """Return the geometric mean of the ratios."""
    return geometric_mean([each.ratio for each in networks.values()])


def all_targets(loads: Loads) -> list[Target]:
    """Compare the standings under every load with the targets."""
    return [t for busy, samples in loads.items() for t in targets(standings(samples), busy=busy)]


def targets(found: Mapping[str, Mapping[str, Standing]], *, busy: int = 0) -> list[Target]:
    """Compare standings with the targets for a number of busy processes."""
    made = []
    for peer, wanted in WANTED.get(busy, {}).items():
        if not (networks := found.get(peer)):
            continue
        made += _speed(peer + (f" with {busy} busy" if busy else ""), networks, wanted)
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


def _speed(peer: str, networks: Mapping[str, Standing] | None, wanted: Wanted) -> list[Target]:
    """Compare the speed ratios to a peer with their limits."""
    if not networks:
        return []
    label = f"speed over {peer}"
    mean = Target(f"{label}, geometric mean", mean_ratio(networks), wanted.mean, at_least=True)
    if wanted.floor is None:
        return [mean]
    slowest = min(networks, key=lambda name: networks[name].upper_ratio)
    worst, ratio = f"{label}, worst ({slowest})", networks[slowest].upper_ratio
    return [mean, Target(worst, ratio, wanted.floor, at_least=True)]


def int8_targets(samples: Samples) -> list[Target]:
    """Compare the standings on quantized networks with the targets for this processor."""
    found = standings(samples)
    made = []
    for peer, wanted in _int8_wanted().items():
        failed = [name for name, engines in samples.items() if engines.get(peer) == []]
        without = f" without {', '.join(failed)}" if failed else ""
        made += _speed(peer + without, found.get(peer), wanted)
    if (encoder := found.get("onnxruntime-int8", {}).get("encoder")) is not None:
        label = "speed over onnxruntime-int8, encoder"
        made.append(Target(label, encoder.upper_ratio, 1.0, at_least=True))
    widths = {
        n: each for n, each in found.get("htp-int16", {}).items() if n not in _NOT_CONVOLUTIONAL
    }
    if widths:
        slowest = max(widths, key=lambda name: widths[name].ratio)
        label = f"16-bit activations, times the time of 8 bits, worst ({slowest})"
        made.append(Target(label, widths[slowest].ratio, 4.0))
    return made


def faults(samples: Samples) -> list[str]:
    """Return a line for each network and engine with wrong outputs."""
    return [
        f"{engine} on {network}: off by {max(s.difference for s in taken):.1e}"
        for network, engines in samples.items()
        for engine, taken in engines.items()
        if not all(sample.is_right for sample in taken)
    ]
