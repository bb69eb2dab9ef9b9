"""Read mutated files: each must succeed or be rejected with the right error.

    python tools/fuzz_files.py                    convert 20,000 ONNX files, 2 workers
    python tools/fuzz_files.py --only 12345       one file, with its traceback
    python tools/fuzz_files.py --only 12345 --save DIR
    python tools/fuzz_files.py --target extremes  each number of ONNX's test models set to extremes
    python tools/fuzz_files.py --target dvt       load mutated containers
    python tools/fuzz_files.py --target context   load mutated context binaries
    python tools/fuzz_files.py --target trace     read, verify and play mutated traces
    python tools/fuzz_files.py --target saver     import mutated Saver programs
    python tools/fuzz_files.py --target dlc       read mutated DLC files
    python tools/fuzz_files.py --target qnn-json  read mutated JSON of QNN's converters
    python tools/fuzz_files.py --target qnn-cpp   read mutated C++ of QNN's converters

Conversion includes the passes; small results are saved, loaded and prepared on the backend `cpu`,
which may reject them. A file that takes over 10 s, grows memory by over 1 GiB, ends the process or
raises another exception is a finding; with any finding the exit status is 1.
"""

from __future__ import annotations

import os

if __name__ == "__main__":  # tests import this, and their processes keep their threads
    # before NumPy is imported
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import logging
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from fuzz import trial
from fuzz.containers import mutate_container
from fuzz.contexts import context_seeds, load_context, mutate_context
from fuzz.converter_files import (
    converter_seeds,
    cpp_seeds,
    mutate_converter_file,
    mutate_cpp,
    read_converter_file,
    read_cpp,
)
from fuzz.dlc_files import dlc_seeds, mutate_dlc, read_mutated_dlc
from fuzz.extremes import extreme_seeds, mutate_extreme
from fuzz.mutation import Mutate, mutate_onnx
from fuzz.programs import import_mutated, mutate_program, program_seeds
from fuzz.seeds import Seed, container_seeds, onnx_seeds
from fuzz.summary import Summary
from fuzz.traces import mutate_trace, read_trace, trace_seeds
from fuzz.workers import Read, try_all

Target = tuple[Callable[[], Sequence[Seed]], Mutate, Read, str]
TARGETS: dict[str, Target] = {
    "onnx": (onnx_seeds, mutate_onnx, trial.convert, ".onnx"),
    "extremes": (extreme_seeds, mutate_extreme, trial.convert, ".onnx"),
    "dvt": (container_seeds, mutate_container, trial.load, ".dvt"),
    "context": (context_seeds, mutate_context, load_context, ".bin"),
    "trace": (trace_seeds, mutate_trace, read_trace, ".trace"),
    "dlc": (dlc_seeds, mutate_dlc, read_mutated_dlc, ".dlc"),
    "qnn-cpp": (cpp_seeds, mutate_cpp, read_cpp, ".cpp"),
    "qnn-json": (converter_seeds, mutate_converter_file, read_converter_file, ".json"),
    "saver": (program_seeds, mutate_program, import_mutated, ".c"),
}

_COUNT = 20_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz, print the summary and return the exit status."""
    given = _parser().parse_args(arguments)
    logging.disable(logging.CRITICAL)  # the files are strange; that is no news
    make_seeds, mutate, read, suffix = TARGETS[given.target]
    seeds = make_seeds()
    if given.only is not None:
        return _one(given, seeds)
    start, summary = time.monotonic(), Summary()
    if given.count is None:
        given.count = len(seeds) if given.target == "extremes" else _COUNT
    numbers = range(given.first, given.first + given.count)
    made = try_all(
        numbers, lambda n: mutate(seeds, given.seed, n).data, read, suffix, jobs=given.jobs
    )
    for done, (number, outcome) in enumerate(made, 1):
        summary.add(number, outcome)
        if outcome.is_finding and given.save:
            _save(given, seeds, number)
        if done % 2000 == 0:
            found = sum(map(len, summary.findings.values()))
            print(f"{done} of {given.count}, {found} findings", file=sys.stderr, flush=True)
    print(f"target           {given.target}, {len(seeds)} seeds, --seed {given.seed}")
    print("\n".join(summary.lines(time.monotonic() - start)))
    if given.details:
        for verdict, detail in summary.details.items():
            print(f"\n== {verdict}\n{detail}")
    return 1 if summary.findings else 0


def _one(given: argparse.Namespace, seeds: Sequence[Seed]) -> int:
    _, mutate, read, suffix = TARGETS[given.target]
    made = mutate(seeds, given.seed, given.only)
    print(f"{given.only}: {made.origin}: {', '.join(made.how)}; {len(made.data)} bytes")
    if given.save:
        print(_save(given, seeds, given.only))
    with TemporaryDirectory(prefix="fuzz-") as root:
        path = trial.make_folder(Path(root)) / f"model{suffix}"
        path.write_bytes(made.data)
        outcome = trial.attempt(read, path)
    print(f"{outcome.verdict}, {outcome.seconds:.2f} s, {outcome.peak_bytes >> 20} MiB")
    print(outcome.detail, end="")
    return 1 if outcome.is_finding else 0


def _save(given: argparse.Namespace, seeds: Sequence[Seed], number: int) -> Path:
    _, mutate, _, suffix = TARGETS[given.target]
    given.save.mkdir(parents=True, exist_ok=True)
    path: Path = given.save / f"{given.seed}-{number}{suffix}"
    path.write_bytes(mutate(seeds, given.seed, number).data)
    return path


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", choices=sorted(TARGETS), default="onnx")
    parser.add_argument("--seed", type=int, default=1, help="seed of the mutations (default: 1)")
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument(
        "--count", type=int, help="number of files (default: 20,000, or the whole sweep)"
    )
    parser.add_argument("--jobs", type=int, choices=(1, 2), default=2, help="worker processes")
    parser.add_argument("--only", type=int, help="run only this file, and print its traceback")
    parser.add_argument("--save", type=Path, help="folder for the files that are findings")
    parser.add_argument("--details", action="store_true", help="print one traceback of each kind")
    return parser


if __name__ == "__main__":
    sys.exit(main())
