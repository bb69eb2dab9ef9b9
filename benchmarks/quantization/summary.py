"""Tables of the measurements, and the targets for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.gauges import quartiles
from benchmarks.quantization.rounds import Accuracy, Cost
from benchmarks.quantization.subjects import TRAINED
from benchmarks.tables import table
from benchmarks.targets import Target

# Targets of time and memory are for ResNet-50, whose figures users know.
TIMED = "resnet50"
MOST_MB = 2048
LEAST_DB = -0.5
OURS, PEER = "dovetail", "onnxruntime"

Accuracies = Mapping[str, Mapping[str, Accuracy]]
Costs = Mapping[str, Mapping[str, Sequence[Cost]]]


def gain_db(found: Mapping[str, Accuracy]) -> float:
    """Return our SQNR minus the peer's."""
    return found[OURS].sqnr_db - found[PEER].sqnr_db


def time_ratios(found: Mapping[str, Sequence[Cost]]) -> list[float]:
    """Return our time divided by the peer's, for each round: a disturbance affects both."""
    pairs = zip(found[OURS], found[PEER], strict=True)
    return [ours.seconds / theirs.seconds for ours, theirs in pairs]


def targets(accuracies: Accuracies, costs: Costs) -> list[Target]:
    """Compare the measurements with the targets; the trained networks have none here."""
    made = []
    gains = {name: gain_db(each) for name, each in accuracies.items() if name not in TRAINED}
    if gains:
        worst = min(gains, key=lambda name: gains[name])
        label = f"SQNR above {PEER}'s"
        made += [
            Target(f"{label}, median", median(gains.values()), 0, "dB", at_least=True),
            Target(f"{label}, worst ({worst})", gains[worst], LEAST_DB, "dB", at_least=True),
        ]
    if TIMED in costs:
        found = costs[TIMED]
        peak = max(each.peak_mb for each in found[OURS])
        made += [
            Target(f"{TIMED}, time over {PEER}'s", median(time_ratios(found)), 1),
            Target(f"{TIMED}, peak memory", peak, MOST_MB, "MB"),
        ]
    return made


def accuracy_table(found: Accuracies) -> str:
    """Return SQNR of both, the difference, and the correct images of trained networks."""
    rows = []
    for name, each in found.items():
        ours, theirs = each[OURS], each[PEER]
        right = "" if ours.right is None else f"{ours.right}, {theirs.right} of {ours.images}"
        row = [name, f"{ours.sqnr_db:.2f}", f"{theirs.sqnr_db:.2f}", f"{gain_db(each):+.2f}", right]
        rows.append(row)
    return table(["SQNR, dB", OURS, PEER, "above", "correct"], rows)


def cost_table(found: Costs) -> str:
    """Return times and memory of both: medians of the rounds, and the quartiles of the ratio."""
    rows = []
    for name, each in found.items():
        low, middle, high = quartiles(time_ratios(each))
        rows.append(
            [
                name,
                *(f"{median(c.seconds for c in each[q]):.2f}" for q in (OURS, PEER)),
                f"{middle:.2f} ({low:.2f} to {high:.2f})",
                *(f"{median(c.peak_mb for c in each[q]):.0f}" for q in (OURS, PEER)),
            ]
        )
    head = ["quantizing, s", OURS, PEER, "ratio", f"MB {OURS}", f"MB {PEER}"]
    return table(head, rows)
