"""The digits demo: run the held-out images in float on the CPU, and in 8 bits on an emulated HTP.

The run in 8 bits is recorded and replayed on both backends.

    python examples/digits/demo.py [--output-dir DIR]

Each command is printed before it runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
# Images of the training set; the held-out images are not used for calibration.
CALIBRATION = HERE.parent / "trained" / "calibration.npz"
CALIBRATED_WITH = 100
DOVETAIL = Path(sys.executable).with_name("dovetail")


def dovetail(*arguments: str | Path) -> dict[str, object]:
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
    result: dict[str, object] = json.loads(done.stdout)
    return result


def write_inputs(images: np.ndarray, folder: Path) -> Path:
    """Write images (n, 8, 8) of 0..16 as raw float32 files of 0..1, and the list of them."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{i}.raw" for i in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        (image.astype("<f4") / 16).tofile(path)
    listed = folder / "inputs.txt"
    listed.write_text("".join(f"image:={path}\n" for path in paths))
    return listed


def read_scores(folder: Path, count: int) -> np.ndarray:
    """Read the scores (n, 10) of all results."""
    files = [folder / f"Result_{i}" / "scores.raw" for i in range(count)]
    return np.stack([np.fromfile(file, "<f4") for file in files])


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description="The digits demo.")
    parser.add_argument("--output-dir", type=Path, default=HERE / "output")
    output = Path(os.path.relpath(parser.parse_args().output_dir))
    held_out = np.load(HERE / "heldout.npz")
    images, labels = held_out["images"], held_out["labels"]
    output.mkdir(parents=True, exist_ok=True)
    model, results = output / "digits.dvt", output / "results"

    dovetail(
        "convert", "--input-network", os.path.relpath(HERE / "digits.onnx"), "--output-path", model
    )
    listed = write_inputs(images, output / "inputs")
    timing = run(model, "cpu", listed, results)
    scores = read_scores(results, len(images))
    right = scores.argmax(axis=1) == labels

    seen = np.load(CALIBRATION)["images"][:CALIBRATED_WITH]
    quantized = output / "digits.quantized.dvt"
    dovetail(
        "quantize", "--model", model, "--output-path", quantized,
        "--input-list", write_inputs(seen, output / "calibration"),
        "--use-per-channel-quantization", "--bias-bitwidth", "32",
    )  # fmt: skip
    trace = output / "trace"
    shutil.rmtree(trace, ignore_errors=True)  # of an earlier run
    recording = ("record", "--out", trace, "--")
    quantized_timing = run(quantized, "htp", listed, output / "quantized_results", *recording)
    replays = {name: replay(trace, name) for name in ("htp", "cpu")}
    quantized_scores = read_scores(output / "quantized_results", len(images))
    still_right = quantized_scores.argmax(axis=1) == labels
    same = quantized_scores.argmax(axis=1) == scores.argmax(axis=1)

    print()
    print(f"top-1 accuracy   {right.mean():.2%} ({right.sum()} of {len(right)} held-out images)")
    print(
        f"8-bit accuracy   {still_right.mean():.2%} ({still_right.sum()} of {len(right)}), "
        f"calibrated with {CALIBRATED_WITH} other images, on integers as an HTP"
    )
    print(
        f"agreement        {same.mean():.2%} ({same.sum()} of {len(same)}) have the float run's "
        f"digit, scores at {sqnr_db(scores, quantized_scores):.1f} dB"
    )
    print(
        f"sizes            {model.stat().st_size:,} bytes, {quantized.stat().st_size:,} in 8 bits"
    )
    times = f"{median_ms(timing):.3f} ms in float, {median_ms(quantized_timing):.3f} ms in 8 bits"
    print(f"time per image   {times} (medians)")
    print(f"replay           {'; '.join(f'on {name}: {told}' for name, told in replays.items())}")
    print(f"outputs          {results}/Result_<i>/scores.raw")
    wrong = np.flatnonzero(~right)
    if len(wrong):
        print(f"wrong            {', '.join(f'Result_{i}' for i in wrong)}")
    print()
    print("What to try next (with .venv/bin in front, or after `. .venv/bin/activate`):")
    print(f"  dovetail inspect {quantized}")
    print(f"  dovetail trace stats {trace}")
    print(f"  dovetail net-run --model {model} --input-list {listed} --profiling-level detailed")
    print("  dovetail convert --input-network YOUR.onnx --dry-run")
    print("  dovetail --help")


def run(
    model: Path, backend: str, listed: Path, results: Path, *before: str | Path
) -> dict[str, object]:
    """Run a model on a backend over a list; return the result of `net-run --json`."""
    return dovetail(
        *before, "net-run", "--model", model, "--backend", backend, "--input-list", listed,
        "--output-dir", results,
    )  # fmt: skip


def replay(trace: Path, backend: str) -> str:
    """Replay a trace on a backend; return how many of its outputs are equal."""
    result = dovetail("replay", trace, "--backend", backend, "--compare", "exact")
    compared = result["tensors"]
    if not isinstance(compared, dict):
        raise TypeError("replay printed no counts of tensors")
    return f"{compared['equal']} of {sum(compared.values())} outputs equal"


def sqnr_db(exact: np.ndarray, near: np.ndarray) -> float:
    """Return the ratio of a signal to its difference from another, in decibels."""
    return float(10 * np.log10(np.square(exact).sum() / np.square(near - exact).sum()))


def median_ms(timing: dict[str, object]) -> float:
    """Return the median time of an inference in the result of `net-run --json`."""
    graphs = timing["graphs"]
    if not isinstance(graphs, list):
        raise TypeError("net-run printed no list of graphs")
    return float(graphs[0]["inference_ms"]["median"])


if __name__ == "__main__":
    main()
