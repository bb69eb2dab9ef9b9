"""Measure our engine, ONNX Runtime and OpenVINO side by side."""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import framework, model_files, recipes, rounds, summary, tables
from benchmarks.engines import DYNAMIC, ENGINES, INTEGER
from benchmarks.gauges import QUICK, Effort
from benchmarks.machine import machine
from benchmarks.process import ProcessFailedError, ask
from benchmarks.recipes import ADDS, DIGITS, NETWORKS, RECIPES
from benchmarks.rounds import Failures, Loads, Samples
from benchmarks.targets import Target

PARTS = ("networks", "int8", "dynamic", "framework")
LOADS = (0, 1, 2)
RATIOS = (
    "over: the peer's time divided by ours, median of the rounds (upper quartile); above 1 we are "
    "faster; openvino-bf16 is compared with dovetail-bf16"
)
RESOURCES = "MB: peak above an interpreter with NumPy; ready ms: import, load and prepare"
DIFFERENCES = (
    "largest difference from ONNX Runtime, relative to the largest output; "
    f"at most {rounds.TOLERANCE:g} for float32"
)
INT8_RATIOS = (
    "over: the engine's time divided by that of htp-int8, where it ran, else of dovetail-int8"
)
DYNAMIC_RATIOS = "over: ONNX Runtime's time divided by ours"
LIMITED = (
    "ONEDNN_MAX_CPU_ISA is set; measuring processes ignore it: it would limit our kernels alone. "
    "Compare engines on a processor that has only AVX2"
)


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that one run measured.

    Attributes:
        loads: Samples of the engines on the networks, by number of busy processes; may be empty.
        int8: Samples of the engines on quantized networks, with no busy processes; may be empty.
        dynamic: The same on dynamically quantized networks; may be empty.
        framework: By label; may be empty.
        failures: Those of peers.
    """

    loads: Loads = field(default_factory=dict)
    int8: Samples = field(default_factory=dict)
    dynamic: Samples = field(default_factory=dict)
    framework: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    failures: Failures = field(default_factory=dict)

    @property
    def targets(self) -> list[Target]:
        """All targets with a measured value."""
        return [
            *summary.all_targets(self.loads),
            *summary.int8_targets(self.int8),
            *framework.targets(self.framework),
        ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print.

    Returns:
        0; 1 if an engine of ours failed or outputs are wrong. A missed target is not a failure.
    """
    options = _options(arguments)
    try:
        results = _measure(options)
    except ProcessFailedError as error:
        print(error, file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(as_data(options, results), indent=1))
    else:
        print(as_text(results, tables.markdown if options.markdown else tables.table))
    wrong = [fault for samples in results.loads.values() for fault in summary.faults(samples)]
    for fault in wrong:
        print(f"WRONG OUTPUTS: {fault}", file=sys.stderr)
    return 1 if wrong else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--engines",
        type=names(ENGINES),
        metavar="A,B",
        help=f"{_some(ENGINES)} (default: without dovetail-numpy, dovetail-gpu and what "
        "the processor lacks)",
    )
    parser.add_argument(
        "--networks",
        type=names(NETWORKS),
        default=list(NETWORKS),
        metavar="A,B",
        help=_some(NETWORKS),
    )
    parser.add_argument(
        "--parts", type=names(PARTS), default=list(PARTS), metavar="A,B", help=_some(PARTS)
    )
    parser.add_argument(
        "--busy",
        type=loads,
        default=LOADS,
        metavar="N,M",
        help="numbers of busy processes during the measurements (default: 0,1,2)",
    )
    parser.add_argument("--rounds", type=count, default=5, help="samples of each (default: 5)")
    parser.add_argument("--threads", type=count, default=2, help="threads of each (default: 2)")
    parser.add_argument("--quick", action="store_true", help="one short round, for a rough idea")
    parser.add_argument(
        "--cache", type=Path, default=model_files.FOLDER, help="folder of the models"
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print JSON instead of tables")
    output.add_argument("--markdown", action="store_true", help="print tables in Markdown")
    options = parser.parse_args(arguments)
    options.engines = options.engines or ask("engines:compared", {}, threads=1)
    missing = sorted({p for e in options.engines if _is_missing(p := ENGINES[e].package)})
    if missing:
        parser.error(
            f"not installed: {', '.join(missing)}; `make bench` installs it, "
            "or leave it out of --engines"
        )
    return options


def names(known: Collection[str]) -> Callable[[str], list[str]]:
    """Return a parser of a list of known names."""

    def read(text: str) -> list[str]:
        given = text.split(",")
        unknown = [name for name in given if name not in known]
        if unknown:
            near = [m for name in unknown for m in difflib.get_close_matches(name, known, 1)]
            expected = f"expected {_some(known)}"
            hint = f"did you mean {', '.join(near)}?" if near else expected
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; {hint}")
        return list(dict.fromkeys(given))

    return read


def _some(known: Collection[str]) -> str:
    return f"some of {', '.join(known)}"


def count(text: str) -> int:
    """Parse a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 1")
    return int(text)


def loads(text: str) -> list[int]:
    """Parse a list of numbers of processes."""
    given = text.split(",")
    if not all(each.isdecimal() for each in given):
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of whole numbers")
    return list(dict.fromkeys(map(int, given)))


def _is_missing(package: str) -> bool:
    return importlib.util.find_spec(package) is None


def _measure(options: argparse.Namespace) -> Results:
    effort = QUICK if options.quick else Effort()
    turns = 1 if options.quick else options.rounds
    files = {
        name: model_files.prepare(name, options.cache, threads=options.threads)
        for name in _needed(options)
    }
    results = Results()

    def measured(networks: Sequence[str], engines: Sequence[str], loads: Sequence[int]) -> Loads:
        with tempfile.TemporaryDirectory() as scratch:
            return rounds.measure(
                {name: files[name] for name in networks},
                engines,
                loads=loads,
                rounds=turns,
                threads=options.threads,
                effort=effort,
                scratch=Path(scratch),
                tell=tell,
                failures=results.failures,
            )

    if engines := _engines_of("networks", options):
        results.loads.update(measured(options.networks, engines, options.busy))
    dynamic = [name for name in options.networks if name in recipes.DYNAMIC]
    for part, networks, found in (
        ("int8", options.networks, results.int8),
        ("dynamic", dynamic, results.dynamic),
    ):
        if not (networks and (engines := _engines_of(part, options))):
            continue
        for name in networks:
            tell(f"quantizing {name}")
            model_files.quantize(
                files[name], {ENGINES[e].model for e in engines}, threads=options.threads
            )
        found.update(measured(networks, engines, [0])[0])
    if "framework" in options.parts:
        results.framework.update(
            framework.measure(
                files, rounds=turns, threads=options.threads, effort=effort, tell=tell
            )
        )
    return results


def _engines_of(part: str, options: argparse.Namespace) -> list[str]:
    """Return the engines of a part; none if it is not measured."""
    if part not in options.parts:
        return []
    parts = {**dict.fromkeys(INTEGER, "int8"), **dict.fromkeys(DYNAMIC, "dynamic")}
    return [name for name in options.engines if parts.get(name, "networks") == part]


def _needed(options: argparse.Namespace) -> list[str]:
    """Return the networks to build: those measured, and the framework's own chain."""
    needed = set(options.networks if {*PARTS[:-1]} & set(options.parts) else ())
    if "framework" in options.parts:
        needed |= {c.network for c in framework.CHECKS} & {*options.networks, ADDS, DIGITS}
    return [name for name in RECIPES if name in needed]


def tell(line: str) -> None:
    """Print a line on the progress to the standard error."""
    print(line, file=sys.stderr, flush=True)


def as_text(results: Results, render: tables.Render = tables.table) -> str:
    """Return the tables."""
    parts = [f"{key}: {value}" for key, value in machine().items()]
    blocks = ["\n".join(parts)]
    if results.loads:
        blocks += _tables(results.loads, render)
    if results.int8:
        blocks += _quantized_tables(results.int8, "latency of int8, ms", INT8_RATIOS, render)
        if "ONEDNN_MAX_CPU_ISA" in os.environ:
            blocks.append(LIMITED)
    if results.dynamic:
        title = "latency of dynamic int8, ms"
        blocks += _quantized_tables(results.dynamic, title, DYNAMIC_RATIOS, render)
    if results.failures:
        blocks.append(tables.failures(results.failures))
    if results.framework:
        blocks.append(tables.framework(results.framework))
    if results.targets:
        blocks.append(tables.targets(results.targets, render=render))
    return "\n\n".join(blocks)


def _tables(found: Loads, render: tables.Render) -> Iterator[str]:
    """Yield the tables of the networks; those of memory and differences show the first load."""
    first: Samples = next(iter(found.values()))
    yield tables.versions(first)
    for load, samples in found.items():
        yield tables.latencies(samples, busy=load, render=render) + "\n\n" + RATIOS
    yield tables.resources(first, render=render) + "\n\n" + RESOURCES
    yield tables.differences(first, render=render) + "\n\n" + DIFFERENCES


def _quantized_tables(
    found: Samples, title: str, ratios: str, render: tables.Render
) -> Iterator[str]:
    """Yield the tables of quantized networks."""
    yield tables.versions(found)
    yield tables.latencies(found, title=title, render=render) + "\n\n" + ratios
    yield tables.differences(found, render=render) + "\n\n" + DIFFERENCES


def as_data(options: argparse.Namespace, results: Results) -> dict[str, Any]:
    """Return everything as JSON-able data."""
    return {
        "machine": machine(),
        "settings": {
            "rounds": 1 if options.quick else options.rounds,
            "threads": options.threads,
            "quick": options.quick,
        },
        "busy": {str(load): _data_of(samples) for load, samples in results.loads.items()},
        "int8": _data_of(results.int8),
        "dynamic": _data_of(results.dynamic),
        "framework": results.framework,
        "failures": results.failures,
        "targets": [asdict(t) | {"met": t.is_met} for t in results.targets],
    }


def _data_of(samples: Samples) -> Mapping[str, Any]:
    found = summary.standings(samples)
    return {
        "networks": {
            network: {engine: [asdict(s) for s in taken] for engine, taken in engines.items()}
            for network, engines in samples.items()
        },
        "standings": {
            peer: {network: asdict(each) for network, each in networks.items()}
            for peer, networks in found.items()
        },
        "geometric_means": {peer: summary.mean_ratio(each) for peer, each in found.items()},
    }


if __name__ == "__main__":
    sys.exit(main())
