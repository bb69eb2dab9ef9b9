"""Tables, as plain text and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from benchmarks.rounds import Sample, Samples
from benchmarks.summary import Standing, mean_ratio, standings
from benchmarks.targets import Target

# Renders a head and rows.
Render = Callable[[Sequence[str], Sequence[Sequence[str]]], str]


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
            *(f"{median(s.median_ms for s in taken[engine]):.3f}" for engine in engines),
            *(_ratio(found[peer][network]) for peer in peers),
        ]
        for network, taken in samples.items()
    ]
    means = [f"{mean_ratio(found[peer]):.2f}" for peer in peers]
    blank = ["" for _ in engines]
    return render(head, [*rows, ["geometric mean", *blank, *means]] if peers else rows)


def _ratio(each: Standing) -> str:
    return f"{each.ratio:.2f} ({each.upper_ratio:.2f})"


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
            *(f"{median(s.added_mb for s in taken[engine]):.0f}" for engine in engines),
            *(f"{median(_ready_ms(s) for s in taken[engine]):.0f}" for engine in engines),
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
        [network, *(f"{max(s.difference for s in taken[e]):.1e}" for e in engines)]
        for network, taken in samples.items()
    ]
    return render(["difference", *engines], rows)


def versions(samples: Samples) -> str:
    """Return each engine's version and the type in which it computed."""
    first = next(iter(samples.values()))
    rows = [[name, f"{taken[0].precision}  {taken[0].version}"] for name, taken in first.items()]
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
