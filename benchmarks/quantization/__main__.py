"""Measure our quantizer and ONNX Runtime's side by side."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import model_files, tables
from benchmarks.__main__ import count, names, tell
from benchmarks.machine import machine
from benchmarks.process import ProcessFailedError
from benchmarks.quantization import rounds, summary
from benchmarks.quantization.subjects import DRAWN, SUBJECTS, TRAINED

PARTS = ("accuracy", "speed")
# Few enough to measure all networks in minutes; real images calibrate the trained ones.
CALIBRATION, TEST = 16, 16
TRAINED_CALIBRATION, TRAINED_TEST = 100, 360
SPEED_CALIBRATION = 32


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print.

    Returns:
        0; 1 if a network could not be quantized or run. A missed target is not a failure.
    """
    options = _options(arguments)
    try:
        accuracies, costs = _measure(options)
    except ProcessFailedError as error:
        print(error, file=sys.stderr)
        return 1
    wanted = summary.targets(accuracies, costs)
    if options.json:
        print(json.dumps(_as_data(options, accuracies, costs), indent=1))
        return 0
    blocks = ["\n".join(f"{key}: {value}" for key, value in _where().items())]
    if accuracies:
        blocks.append(summary.accuracy_table(accuracies))
    if costs:
        blocks.append(summary.cost_table(costs))
    if wanted:
        blocks.append(tables.targets(wanted))
    print("\n\n".join(blocks))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.quantization", description=__doc__)
    parser.add_argument("--networks", type=names(SUBJECTS), default=list(SUBJECTS), metavar="A,B")
    parser.add_argument("--timed", type=names(DRAWN), default=[summary.TIMED], metavar="A,B")
    parser.add_argument("--parts", type=names(PARTS), default=list(PARTS), metavar="A,B")
    parser.add_argument(
        "--images",
        type=count,
        default=CALIBRATION,
        help="images to calibrate with, and to test with",
    )
    parser.add_argument("--rounds", type=count, default=5, help="rounds of the speed measurement")
    parser.add_argument("--threads", type=count, default=2)
    parser.add_argument(
        "--cache", type=Path, default=model_files.FOLDER, help="folder of the models"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser.parse_args(arguments)


def _measure(
    options: argparse.Namespace,
) -> tuple[dict[str, dict[str, rounds.Accuracy]], dict[str, dict[str, list[rounds.Cost]]]]:
    accuracies: dict[str, dict[str, rounds.Accuracy]] = {}
    costs: dict[str, dict[str, list[rounds.Cost]]] = {}
    threads = options.threads
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        for name in options.networks if "accuracy" in options.parts else ():
            calibration, test = options.images, options.images
            if name in TRAINED:
                calibration, test = TRAINED_CALIBRATION, TRAINED_TEST
            files = rounds.prepare(
                name, options.cache, scratch, calibration=calibration, test=test, threads=threads
            )
            accuracies[name] = rounds.accuracies(name, files, scratch, threads=threads, tell=tell)
            rounds.forget(scratch)
        for name in options.timed if "speed" in options.parts else ():
            files = rounds.prepare(
                name, options.cache, scratch, calibration=SPEED_CALIBRATION, test=1, threads=threads
            )
            costs[name] = rounds.costs(
                name, files, scratch, rounds=options.rounds, threads=threads, tell=tell
            )
            rounds.forget(scratch)
    return accuracies, costs


def _where() -> dict[str, str]:
    """Return a description of this machine and the peer."""
    return machine() | {"onnxruntime": version("onnxruntime")}


def _as_data(
    options: argparse.Namespace,
    accuracies: dict[str, dict[str, rounds.Accuracy]],
    costs: dict[str, dict[str, list[rounds.Cost]]],
) -> dict[str, Any]:
    return {
        "machine": _where(),
        "settings": {
            "calibration_images": options.images,
            "test_images": options.images,
            "timed_images": SPEED_CALIBRATION,
            "rounds": options.rounds,
        },
        "accuracy": {n: {q: asdict(a) for q, a in each.items()} for n, each in accuracies.items()},
        "speed": {
            n: {q: [asdict(c) for c in taken] for q, taken in each.items()}
            for n, each in costs.items()
        },
        "targets": [asdict(t) | {"met": t.is_met} for t in summary.targets(accuracies, costs)],
    }


if __name__ == "__main__":
    sys.exit(main())
