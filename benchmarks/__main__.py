"""Our engine beside ONNX Runtime and OpenVINO: `python -m benchmarks --help`."""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import cache, framework, rounds, summary, tables
from benchmarks.engines import COMPARED, ENGINES
from benchmarks.gauges import QUICK, Effort
from benchmarks.process import ProcessFailedError
from benchmarks.recipes import ADDS, NETWORKS, RECIPES
from benchmarks.rounds import Samples
from benchmarks.targets import Target

PARTS = ("networks", "framework")
RATIOS = (
    "over: the peer's time by ours, median of the rounds (upper quartile); above 1 is faster; "
    "openvino-bf16 beside dovetail-bf16"
)
RESOURCES = "MB: peak above an interpreter with NumPy; ready ms: import, load and prepare"
DIFFERENCES = (
    f"from ONNX Runtime, by the largest output; float32 must stay below {rounds.TOLERANCE:g}"
)


@dataclass(frozen=True, slots=True)
class Results:
    """All that one run measured.

    Attributes:
        samples: Of the engines on the networks; empty if not asked for.
        framework: By label; empty if not asked for.
    """

    samples: Samples = field(default_factory=dict)
    framework: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    @property
    def targets(self) -> list[Target]:
        """All targets that something was measured for."""
        return [
            *summary.targets(summary.standings(self.samples)),
            *framework.targets(self.framework),
        ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and prints.

    Returns:
        0; 1 if an engine gave wrong answers or failed. A missed target is no failure.
    """
    options = _options(arguments)
    try:
        results = _measure(options)
    except ProcessFailedError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(as_data(options, results), indent=1) if options.json else as_text(results))
    wrong = summary.faults(results.samples)
    for fault in wrong:
        print(f"WRONG ANSWERS: {fault}", file=sys.stderr)
    return 1 if wrong else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("--engines", type=names(ENGINES), default=COMPARED, metavar="A,B")
    parser.add_argument("--networks", type=names(NETWORKS), default=list(NETWORKS), metavar="A,B")
    parser.add_argument("--parts", type=names(PARTS), default=list(PARTS), metavar="A,B")
    parser.add_argument("--rounds", type=count, default=5)
    parser.add_argument("--threads", type=count, default=2)
    parser.add_argument("--quick", action="store_true", help="a look, not a measurement")
    parser.add_argument("--cache", type=Path, default=cache.FOLDER, help="folder of the models")
    parser.add_argument("--json", action="store_true", help="data instead of tables")
    options = parser.parse_args(arguments)
    missing = sorted({p for e in options.engines if _is_missing(p := ENGINES[e].package)})
    if missing:
        parser.error(
            f"not installed: {', '.join(missing)}; `make bench` installs it, "
            "and --engines leaves it out"
        )
    return options


def names(known: Collection[str]) -> Callable[[str], list[str]]:
    """Return a reader of a list of known names."""

    def read(text: str) -> list[str]:
        given = text.split(",")
        unknown = [name for name in given if name not in known]
        if unknown:
            near = [m for name in unknown for m in difflib.get_close_matches(name, known, 1)]
            hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(known)}"
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; {hint}")
        return list(dict.fromkeys(given))

    return read


def count(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 1")
    return int(text)


def _is_missing(package: str) -> bool:
    return importlib.util.find_spec(package) is None


def _measure(options: argparse.Namespace) -> Results:
    effort = QUICK if options.quick else Effort()
    turns = 1 if options.quick else options.rounds
    files = {
        name: cache.prepare(name, options.cache, threads=options.threads)
        for name in _needed(options)
    }
    results = Results()
    if "networks" in options.parts:
        with tempfile.TemporaryDirectory() as scratch:
            samples = rounds.measure(
                {name: files[name] for name in options.networks},
                options.engines,
                rounds=turns,
                threads=options.threads,
                effort=effort,
                scratch=Path(scratch),
                tell=tell,
            )
        results.samples.update(samples)
    if "framework" in options.parts:
        results.framework.update(
            framework.measure(
                files, rounds=turns, threads=options.threads, effort=effort, tell=tell
            )
        )
    return results


def _needed(options: argparse.Namespace) -> list[str]:
    """The networks to build: those asked for that are measured, and the framework's own chain."""
    needed = set(options.networks if "networks" in options.parts else ())
    if "framework" in options.parts:
        needed |= {c.network for c in framework.CHECKS} & {*options.networks, ADDS}
    return [name for name in RECIPES if name in needed]


def tell(line: str) -> None:
    """Return how far a measurement is, beside what it prints."""
    print(line, file=sys.stderr, flush=True)


def as_text(results: Results) -> str:
    """Return the tables."""
    parts = [f"{key}: {value}" for key, value in machine().items()]
    blocks = ["\n".join(parts)]
    if samples := results.samples:
        blocks += [
            tables.versions(samples),
            tables.latencies(samples) + "\n" + RATIOS,
            tables.resources(samples) + "\n" + RESOURCES,
            tables.differences(samples) + "\n" + DIFFERENCES,
        ]
    if results.framework:
        blocks.append(tables.framework(results.framework))
    if results.targets:
        blocks.append(tables.targets(results.targets))
    return "\n\n".join(blocks)


def as_data(options: argparse.Namespace, results: Results) -> dict[str, Any]:
    """Return everything as JSON-able data."""
    found = summary.standings(results.samples)
    return {
        "machine": machine(),
        "settings": {
            "rounds": 1 if options.quick else options.rounds,
            "threads": options.threads,
            "quick": options.quick,
        },
        "networks": {
            network: {engine: [asdict(s) for s in taken] for engine, taken in engines.items()}
            for network, engines in results.samples.items()
        },
        "standings": {
            peer: {network: asdict(each) for network, each in networks.items()}
            for peer, networks in found.items()
        },
        "geometric_means": {peer: summary.mean_ratio(each) for peer, each in found.items()},
        "framework": results.framework,
        "targets": [asdict(t) | {"met": t.is_met} for t in results.targets],
    }


def machine() -> dict[str, str]:
    """Return on what was measured."""
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
    }


def _processor() -> str:
    known = Path("/proc/cpuinfo")
    if known.exists():
        for line in known.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


if __name__ == "__main__":
    sys.exit(main())
