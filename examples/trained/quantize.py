"""Quantize the trained networks with Dovetail and print their accuracies.

In the repository's root, with Dovetail installed::

    python examples/trained/quantize.py [NETWORK ...]

Each is calibrated with 200 images, with biases of 32 bits. It runs twice on the 360 held-out
images: simulated in float on the CPU, and on integers on an emulated HTP, where the CPU runs the
nodes that an HTP does not take. Decibels are the signal-to-quantization-noise ratios of the scores.
In addition to ``quantize_with_onnxruntime.py`` it has bias correction and learned rounding.
"""

import argparse
import logging
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dovetail as dt
from dovetail.ops.frontend import FrontendOptions

EXAMPLES = Path(__file__).resolve().parents[1]
NETWORKS = {
    "digits": EXAMPLES / "digits" / "digits.onnx",
    **{
        name: EXAMPLES / "trained" / f"{name}.onnx"
        for name in ("depthwise", "scaled", "attention", "recurrent")
    },
}
# Its channels are badly scaled: without equalization, 8 bits do not span its activations.
BEFORE = {"scaled": ("cle",)}
PER_CHANNEL = {"use_per_channel_quantization": True, "use_per_row_quantization": True}
FOUR_BITS = {**PER_CHANNEL, "weights_bitwidth": 4}
SCHEMES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "per-tensor": ({}, ()),
    "per-channel": (PER_CHANNEL, ()),
    "int4": (FOUR_BITS, ()),
    "int4-bias-correction": (FOUR_BITS, ("bias-correction",)),
    "int4-adaround": (FOUR_BITS, ("adaround",)),
}
SIMULATED = {"backend": "cpu", "options": {"quantized": "simulate"}}
ON_INTEGERS = {"backend": "hetero:htp,cpu"}
BATCH = 20
Images = NDArray[np.float32]


def load_images(path: Path) -> tuple[list[Images], NDArray[np.uint8]]:
    """Load the networks' inputs, batches ``(20, 1, 8, 8)`` in 0..1, and the labels."""
    with np.load(path) as file:
        images = file["images"][:, None].astype(np.float32) / 16
        return [images[i : i + BATCH] for i in range(0, len(images), BATCH)], file["labels"]


def scores_of(model: dt.Model, batches: list[Images], **settings: Any) -> Images:
    """Run a model on all images, in a session with settings; return scores ``(n, 10)``."""
    with dt.Session(model, **settings) as session:
        return np.concatenate([session.run({"image": each})["scores"] for each in batches])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Dovetail's accuracies after quantization.")
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), metavar="NETWORK")
    arguments = parser.parse_args()
    if unknown := set(arguments.networks) - set(NETWORKS):
        parser.error(
            f"unknown network {', '.join(sorted(unknown))}; expected one of {', '.join(NETWORKS)}"
        )
    logging.disable(logging.WARNING)  # the batch size is set on purpose
    print(f"{'':<10} {'':<21} {'simulated':<22}on integers")
    batches, labels = load_images(EXAMPLES / "digits" / "heldout.npz")
    samples, _ = load_images(EXAMPLES / "trained" / "calibration.npz")

    apart = 0
    for name in arguments.networks:
        model = dt.convert(NETWORKS[name], FrontendOptions(batch=BATCH))
        expected = scores_of(model, batches)
        right = np.sum(expected.argmax(axis=1) == labels)
        print(f"{name:<10} {'float32':<21} {right} of {len(labels)}", flush=True)
        for scheme, (options, after) in SCHEMES.items():
            algorithms = (*BEFORE.get(name, ()), *after)
            made = dt.quantize(model, samples, bias_bitwidth=32, algorithms=algorithms, **options)
            columns, counts = [], []
            for settings in (SIMULATED, ON_INTEGERS):
                scores = scores_of(made, batches, **settings)
                counts.append(int(np.sum(scores.argmax(axis=1) == labels)))
                noise = np.square(scores - expected).sum() / np.square(expected).sum()
                columns.append(f"{counts[-1]} of {len(labels)}  {-10 * np.log10(noise):5.1f} dB")
            apart = max(apart, abs(counts[1] - counts[0]))
            print(f"{name:<10} {scheme:<21} {'   '.join(columns)}", flush=True)
    print(f"simulated and on integers: at most {100 * apart / len(labels):.2f} points apart")


if __name__ == "__main__":
    main()
