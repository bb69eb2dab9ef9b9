"""The files that quantizing needs: images, and the model that the peer quantizes."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import numpy.typing as npt
import onnx
from onnx import version_converter

from benchmarks.engines import write_arrays
from benchmarks.preparation import free_inputs, shape_of
from benchmarks.process import NETWORK_HELPERS

Images = npt.NDArray[np.float32]

# Number of points along each side of an image at each scale, from coarse to fine.
SCALES = (4, 16, 64)
SEEDS = {"calibration": 11, "test": 12}
# The first opset in which DequantizeLinear accepts a scale for each channel.
OPSET = 13
# From version 4 on, weights need not be inputs; the converter fails on older models.
IR_VERSION = 8


def drawn(shape: tuple[int, ...], count: int, seed: int) -> Images:
    """Draw smooth images with some noise, mean 0 and variance 1 over all of them.

    Args:
        shape: Shape of one input, (1, c, h, w).
        count: Number of images.
        seed: Seed of the generator.

    Returns:
        Images (count, 1, c, h, w).
    """
    rng = np.random.default_rng(seed)
    *lead, height, width = (count, *shape)
    made = rng.standard_normal((*lead, height, width), np.float32)
    for points in SCALES:
        coarse = rng.standard_normal((*lead, points, points), np.float32)
        made += _between(points, height) @ coarse @ _between(points, width).T
    return np.asarray((made - made.mean()) / made.std(), np.float32)


def _between(points: int, count: int) -> Images:
    """Return the matrix (count, points) that interpolates linearly between points."""
    places = np.linspace(0, points - 1, count)
    apart = np.abs(places[:, None] - np.arange(points))
    return np.asarray(np.maximum(0, 1 - apart), np.float32)


def _real(calibration: int, test: int) -> dict[str, Images]:
    """Return the trained networks' images, (n, 1, 1, 8, 8), and the labels (n,)."""
    sys.path.append(str(NETWORK_HELPERS))  # the tests' helpers, which no dist contains
    trained = importlib.import_module("trained")
    images, labels = trained.held_out()
    return {
        "calibration": trained.calibration(calibration)[:, None],
        "test": images[:test, None],
        "labels": labels[:test],
    }


def draw_images(*, model: str, output: str, calibration: int, test: int, trained: bool) -> None:
    """Write the images of a network: for calibration and for tests."""
    if trained:
        write_arrays(output, _real(calibration, test))
        return
    (given,) = free_inputs(onnx.load(model, load_external_data=False).graph)
    counts = {"calibration": calibration, "test": test}
    images = {name: drawn(shape_of(given), n, SEEDS[name]) for name, n in counts.items()}
    write_arrays(output, images)


def calibrate_with(*, inputs: str, output: str) -> None:
    """Write the input of a network with one input as the only one to calibrate with."""
    with np.load(inputs) as arrays:
        (name,) = arrays.files
        write_arrays(output, {"calibration": arrays[name][None]})


def prepare_peer(*, model: str, output: str) -> None:
    """Infer shapes and optimize; this folds batch normalizations into convolutions."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    loaded = onnx.load(model)
    loaded.ir_version = max(loaded.ir_version, IR_VERSION)
    if any(not each.domain and each.version < OPSET for each in loaded.opset_import):
        loaded = version_converter.convert_version(loaded, OPSET)
    # A weight that is an input may be overridden, so nothing would be folded into it.
    given = free_inputs(loaded.graph)
    del loaded.graph.input[:]
    loaded.graph.input.extend(given)
    onnx.save(loaded, output)  # the tools lose the weights of a model in memory
    quant_pre_process(output, output, skip_symbolic_shape=True)
