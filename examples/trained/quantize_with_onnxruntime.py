"""Quantize the trained networks with onnxruntime and print their accuracies, to compare.

In the repository's root, after ``pip install onnx onnxruntime``::

    python examples/trained/quantize_with_onnxruntime.py [NETWORK ...] [--scheme SCHEME ...]

Each is calibrated with 100 images (MinMax) and written as QDQ, which onnxruntime then runs node by
node: it quantizes and dequantizes, and computes in float. The last column is the
signal-to-quantization-noise ratio of the scores of the 360 held-out images.
"""

import argparse
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

EXAMPLES = Path(__file__).resolve().parents[1]
NETWORKS = {
    "digits": EXAMPLES / "digits" / "digits.onnx",
    **{
        name: EXAMPLES / "trained" / f"{name}.onnx"
        for name in ("depthwise", "scaled", "attention", "recurrent")
    },
}
CALIBRATION_IMAGES = 100
EIGHT_BITS = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
SCHEMES: dict[str, dict[str, Any]] = {
    "per-tensor": {**EIGHT_BITS, "per_channel": False},
    "per-channel": {**EIGHT_BITS, "per_channel": True},
    "int4-per-tensor": {**EIGHT_BITS, "weight_type": QuantType.QInt4, "per_channel": False},
    "int4-per-channel": {**EIGHT_BITS, "weight_type": QuantType.QInt4, "per_channel": True},
}
Images = NDArray[np.float32]


class Reader(CalibrationDataReader):
    """Returns the images one by one."""

    def __init__(self, images: Images) -> None:
        """Store the images ``(n, 1, 8, 8)``."""
        self.images: Iterator[Images] = iter(images)

    def get_next(self) -> dict[str, Images] | None:
        """Return the next inputs, or None after the last."""
        image = next(self.images, None)
        return None if image is None else {"image": image[None]}


def load_images(path: Path) -> tuple[Images, NDArray[np.uint8]]:
    """Load the networks' inputs, ``(n, 1, 8, 8)`` in 0..1, and the labels."""
    with np.load(path) as file:
        return file["images"][:, None].astype(np.float32) / 16, file["labels"]


def scores_of(model: Path, images: Images) -> Images:
    """Run a model on all images; return scores ``(n, 10)``."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    # Without fusion: fused integer kernels saturate on some processors, and figures would differ.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(["scores"], {"image": images})[0])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="onnxruntime's accuracies after quantization.")
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), metavar="NETWORK")
    parser.add_argument("--scheme", action="append", choices=SCHEMES)
    arguments = parser.parse_args()
    if unknown := set(arguments.networks) - set(NETWORKS):
        parser.error(
            f"unknown network {', '.join(sorted(unknown))}; expected one of {', '.join(NETWORKS)}"
        )
    logging.disable(logging.WARNING)  # its tools log every tensor that they skip
    images, labels = load_images(EXAMPLES / "digits" / "heldout.npz")
    samples, _ = load_images(EXAMPLES / "trained" / "calibration.npz")

    for name in arguments.networks:
        expected = scores_of(NETWORKS[name], images)
        right = np.sum(expected.argmax(axis=1) == labels)
        print(f"{name:<10} {'float32':<16} {right} of {len(labels)}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            prepared, quantized = Path(folder) / "prepared.onnx", Path(folder) / "quantized.onnx"
            quant_pre_process(NETWORKS[name], prepared, skip_symbolic_shape=True)
            for scheme in arguments.scheme or SCHEMES:
                quantize_static(
                    prepared,
                    quantized,
                    Reader(samples[:CALIBRATION_IMAGES]),
                    quant_format=QuantFormat.QDQ,
                    calibrate_method=CalibrationMethod.MinMax,
                    **SCHEMES[scheme],
                )
                scores = scores_of(quantized, images)
                right = np.sum(scores.argmax(axis=1) == labels)
                noise = np.square(scores - expected).sum() / np.square(expected).sum()
                sqnr_db = -10 * np.log10(noise)
                print(f"{name:<10} {scheme:<16} {right} of {len(labels)}  {sqnr_db:5.1f} dB")


if __name__ == "__main__":
    main()
