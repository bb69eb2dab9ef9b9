"""Tables, as plain text and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from benchmarks.rounds import Failures, Sample, Samples
from benchmarks.summary import Standing, mean_ratio, standings
from benchmarks.targets import Target

# Renders a head and rows.
Render = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
FAILED = "failed"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with aligned columns: the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *rows)
    )


def latencies(
    samples: Samples, *, title: str = "latency, ms", busy: int = 0, render: Render = table
) -> str:
    """Return the median latencies, and the ratio of each peer's latency to ours.

    Args:
        samples: By network, then engine.
        title: Head of the first column.
        busy: Number of busy processes during the measurements.
        render: Renders the table.
    """
    engines = list(next(iter(samples.values())))
    found = standings(samples)
    peers = [engine for engine in engines if engine in found]
    head = [
        f"ms with {busy} busy" if busy else title,
        *engines,
        *(f"over {peer}" for peer in peers),
    ]
    rows = [
        [
            network,
            *(_median(taken[engine], lambda s: s.median_ms, 3) for engine in engines),
            *(_ratio(found[peer].get(network)) for peer in peers),
        ]
        for network, taken in samples.items()
    ]
    means = [f"{mean_ratio(found[peer]):.2f}" for peer in peers]
    blank = ["" for _ in engines]
    return render(head, [*rows, ["geometric mean", *blank, *means]] if peers else rows)


def _ratio(each: Standing | None) -> str:
    return "" if each is None else f"{each.ratio:.2f} ({each.upper_ratio:.2f})"


def _median(taken: Sequence[Sample], value: Callable[[Sample], float], digits: int) -> str:
    return f"{median(map(value, taken)):.{digits}f}" if taken else FAILED


def resources(samples: Samples, *, render: Render = table) -> str:
    """Return the memory of each engine and the time until it is ready."""
    engines = list(next(iter(samples.values())))
    head = [
        "network",
        *(f"{what} {engine}" for what in ("MB", "ready ms") for engine in engines),
    ]
    rows = [
        [
            network,
            *(_median(taken[engine], lambda s: s.added_mb, 0) for engine in engines),
            *(_median(taken[engine], _ready_ms, 0) for engine in engines),
        ]
        for network, taken in samples.items()
    ]
    return render(head, rows)


def _ready_ms(sample: Sample) -> float:
    return sample.import_ms + sample.build_ms


def differences(samples: Samples, *, render: Render = table) -> str:
    """Return the largest difference of each engine's outputs from the reference."""
    engines = list(next(iter(samples.values())))
    rows = [
        [network, *(_difference(taken[engine]) for engine in engines)]
        for network, taken in samples.items()
    ]
    return render(["difference", *engines], rows)


def _difference(taken: Sequence[Sample]) -> str:
    return f"{max(s.difference for s in taken):.1e}" if taken else FAILED


def failures(found: Failures) -> str:
    """Return a line for each engine and network on which it failed."""
    return "\n".join(
        f"{FAILED}: {engine} on {network}, which its mean leaves out: {reason}"
        for engine, networks in found.items()
        for network, reason in networks.items()
    )


def versions(samples: Samples) -> str:
    """Return each engine's version and the type in which it computed."""
    first: dict[str, Sample] = {}
    for engines in samples.values():
        first = {name: taken[0] for name, taken in engines.items() if taken} | first
    rows = [[name, f"{taken.precision}  {taken.version}"] for name, taken in first.items()]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name.ljust(width)}  {text}" for name, text in rows)


def framework(found: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Return the medians of the framework's measurements."""
    rows = []
    for label, taken in found.items():
        parts = (f"{key} {median(each[key] for each in taken):.4g}" for key in taken[0])
        rows.append(f"{label}: {', '.join(parts)}")
    return "\n".join(rows)


def targets(each: Sequence[Target], *, render: Render = table) -> str:
    """Return each target with its measured value."""
    rows = [
        [t.label, f"{t.measured:.2f} {t.unit}".rstrip(), t.wanted, "met" if t.is_met else "MISSED"]
        for t in each
    ]
    return render(["target", "measured", "limit", ""], rows)
