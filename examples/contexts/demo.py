"""The demo of contexts: one transformer for two lengths of its input, in one context binary.

    python examples/contexts/demo.py [--output-dir DIR]

Each command is printed before it runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from make_model import WIDTH, encoder

import dovetail as dt

HERE = Path(__file__).resolve().parent
LENGTHS = (32, 128)
DOVETAIL = Path(sys.executable).with_name("dovetail")


def dovetail(*arguments: str | Path) -> object:
    """Print a command and run it with `--json`; return its result.

    Raises:
        SystemExit: The command failed, and its message is on stderr.
    """
    words = [str(argument) for argument in arguments]
    print(f"$ dovetail {shlex.join(words)}", flush=True)
    done = subprocess.run(
        [DOVETAIL, "--json", "--log-level", "error", *words],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.returncode)
    return json.loads(done.stdout)


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description="The demo of contexts.")
    parser.add_argument("--output-dir", type=Path, default=HERE / "output")
    output = Path(os.path.relpath(parser.parse_args().output_dir))
    output.mkdir(parents=True, exist_ok=True)
    source = output / "encoder.onnx"
    source.write_bytes(encoder().SerializeToString())

    models = [output / f"encoder_{length}.dvt" for length in LENGTHS]
    for model, length in zip(models, LENGTHS, strict=True):
        dovetail(
            "convert", "--input-network", source, "--define-symbol", "length", str(length),
            "--graph-name", model.stem, "--output-path", model,
        )  # fmt: skip
    single = [binary(output, [model]) for model in models]
    both = binary(output, models)
    lists = [write_input(output, length) for length in LENGTHS]
    dovetail(
        "net-run", "--retrieve-context", both, "--input-list", ",".join(map(str, lists)),
        "--output-dir", output / "results",
    )  # fmt: skip

    sizes = [file.stat().st_size for file in (*single, both)]
    prepared = median_ms(lambda: dt.Session(models).close())
    loaded = median_ms(lambda: dt.Session.from_context(both).close())
    print()
    print(f"sizes            {sizes[0]:,} and {sizes[1]:,} bytes alone, {sizes[2]:,} together")
    print(f"                 {sizes[2] / max(sizes[:2]):.2f} times the larger one")
    print(f"ready in         {loaded:.1f} ms from the context, {prepared:.1f} ms without (medians)")
    results = output / "results"
    names = [model.stem for model in models]
    print(f"outputs          {results}/{{{','.join(names)}}}/Result_0/scores.raw")
    print()
    print("What to try next (with .venv/bin in front, or after `. .venv/bin/activate`):")
    print(f"  dovetail inspect {both}")
    print(f"  python examples/sample_app/sample_app.py --retrieve-context {both}")


def binary(output: Path, models: list[Path]) -> Path:
    """Write the context binary of models, and return its path."""
    name = models[0].stem if len(models) == 1 else "encoder"
    dovetail(
        "context-binary-generator", "--model", ",".join(map(str, models)), "--backend", "cpu",
        "--binary-file", name, "--output-dir", output,
    )  # fmt: skip
    return output / f"{name}.bin"


def write_input(output: Path, length: int) -> Path:
    """Write tokens as a raw file, and a list of it."""
    tokens = np.random.default_rng(length).standard_normal((1, length, WIDTH))
    raw = output / f"tokens_{length}.raw"
    tokens.astype("<f4").tofile(raw)
    listed = output / f"inputs_{length}.txt"
    listed.write_text(f"tokens:={raw}\n")
    return listed


def median_ms(call: Callable[[], None], rounds: int = 9) -> float:
    """Return the median time of a call in milliseconds."""
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)


if __name__ == "__main__":
    main()
