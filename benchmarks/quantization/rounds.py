"""The rounds: both quantizers on every network, in turns, and their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks import model_files
from benchmarks.process import ask
from benchmarks.quantization.subjects import TRAINED, Files

Tell = Callable[[str], None]
QUANTIZERS = ("dovetail", "onnxruntime")


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Accuracy of one quantizer's result.

    Attributes:
        sqnr_db: Signal to quantization noise of all outputs of all test images together.
        right: Number of correctly classified images of a trained network, else None.
        images: Number of images.
        run_s: Time of the simulation of all images.
    """

    sqnr_db: float
    right: int | None
    images: int
    run_s: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Time and memory of one calibration and quantization.

    Attributes:
        seconds: Time from the model file to the quantized file, without the imports.
        peak_mb: The largest resident size of the process, with the images.
        version: Version of the quantizer.
    """

    seconds: float
    peak_mb: float
    version: str


def prepare(
    name: str, folder: Path, scratch: Path, *, calibration: int, test: int, threads: int
) -> Files:
    """Return a network's files; those that depend on the settings are in the scratch folder.

    Raises:
        ProcessFailedError: A file could not be built.
    """
    if name in TRAINED:
        onnx, dvt = TRAINED[name], scratch / f"{name}.dvt"
        ask("preparation:convert", {"model": str(onnx), "output": str(dvt)}, threads=threads)
    else:
        built = model_files.prepare(name, folder, threads=threads)
        onnx, dvt = built.onnx, built.dvt
    files = Files(
        onnx=onnx,
        dvt=dvt,
        prepared=scratch / f"{name}.prepared.onnx",
        data=scratch / f"{name}.data.npz",
        reference=scratch / f"{name}.reference.npz",
    )
    counts = {"calibration": calibration, "test": test, "trained": name in TRAINED}
    asked = {"model": str(onnx), "output": str(files.data), **counts}
    ask("quantization.preparation:draw_images", asked, threads=threads)
    asked = {"model": str(onnx), "output": str(files.prepared)}
    ask("quantization.preparation:prepare_peer", asked, threads=threads)
    asked = {"model": str(onnx), "data": str(files.data), "output": str(files.reference)}
    ask("quantization.quantizers:run_all", {"quantizer": "float", **asked}, threads=threads)
    return files


def accuracy(quantizer: str, files: Files, scratch: Path, *, threads: int) -> Accuracy:
    """Quantize with all calibration images, and compare the outputs for all test images.

    Raises:
        ProcessFailedError: The network cannot be quantized or run.
    """
    target, outputs = scratch / f"quantized.{quantizer}", scratch / "outputs.npz"
    cost(quantizer, files, target, threads=threads)
    asked = {"model": str(target), "data": str(files.data), "output": str(outputs)}
    found = ask(
        "quantization.quantizers:run_all", {"quantizer": quantizer, **asked}, threads=threads
    )
    with np.load(files.reference) as exact, np.load(outputs) as near, np.load(files.data) as data:
        labels = data["labels"] if "labels" in data.files else None
        pairs = [(exact[name], near[name]) for name in exact.files]
    return Accuracy(sqnr_db(pairs), _right(labels, pairs), len(pairs[0][0]), found["seconds"])


def cost(quantizer: str, files: Files, target: Path, *, threads: int) -> Cost:
    """Calibrate with all images, quantize and write.

    Raises:
        ProcessFailedError: The network cannot be quantized.
    """
    model = files.dvt if quantizer == "dovetail" else files.prepared
    asked = {"model": str(model), "data": str(files.data), "output": str(target)}
    found = ask(
        "quantization.quantizers:quantize", {"quantizer": quantizer, **asked}, threads=threads
    )
    return Cost(**found)


def sqnr_db(pairs: Sequence[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]) -> float:
    """Return signal to noise in dB of pairs of exact and quantized values."""
    signal = noise = 0.0
    for exact, near in pairs:
        if exact.shape != near.shape:
            return float("-inf")
        signal += float(np.square(exact, dtype=np.float64).sum())
        noise += float(np.square(exact.astype(np.float64) - near).sum())
    return float(10 * np.log10(signal / noise)) if noise else float("inf")


def _right(
    labels: npt.NDArray[np.uint8] | None,
    pairs: Sequence[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]],
) -> int | None:
    if labels is None:
        return None
    ((_, near),) = pairs
    return int((near.reshape(len(labels), -1).argmax(axis=1) == labels).sum())


def accuracies(
    name: str, files: Files, scratch: Path, *, threads: int, tell: Tell
) -> dict[str, Accuracy]:
    """Measure both quantizers' accuracy on a network, once, since it is deterministic."""
    found = {}
    for quantizer in QUANTIZERS:
        got = found[quantizer] = accuracy(quantizer, files, scratch, threads=threads)
        tell(f"{name:14} {quantizer:12} {got.sqnr_db:6.2f} dB, simulated in {got.run_s:.1f} s")
    return found


def costs(
    name: str, files: Files, scratch: Path, *, rounds: int, threads: int, tell: Tell
) -> dict[str, list[Cost]]:
    """Measure both quantizers on a network in each round, in turns."""
    found: dict[str, list[Cost]] = {quantizer: [] for quantizer in QUANTIZERS}
    for turn in range(rounds):
        for quantizer in QUANTIZERS:
            got = cost(quantizer, files, scratch / "quantized", threads=threads)
            found[quantizer].append(got)
            tell(
                f"round {turn + 1}/{rounds}  {name:14} {quantizer:12} "
                f"{got.seconds:7.2f} s {got.peak_mb:6.0f} MB"
            )
    return found


def forget(scratch: Path) -> None:
    """Empty the scratch folder: the files of a network take up to 1.5 GB."""
    for path in scratch.iterdir():
        path.unlink()
