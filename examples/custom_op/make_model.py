"""Write a small ONNX model with the custom op, and an input for it.

    python make_model.py FOLDER [--log-scale]

The files in FOLDER are wave.onnx (a convolution, Snake, a convolution; random weights with a fixed
seed), wave.raw (one input) and inputs.txt (the input list for `dovetail net-run`). With --log-scale
the model has the logarithm of alpha, which only the importer of this dist supports.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CHANNELS, SAMPLES = 8, 64
DOMAIN = "com.example.audio"


def wave_model(*, log_scale: bool = False) -> onnx.ModelProto:
    """Return the model; its input `wave` is (1, 1, 64), its output `out` too."""
    rng = np.random.default_rng(1)
    alpha = rng.uniform(0.5, 2, (1, CHANNELS, 1)).astype(np.float32)
    weights = {
        "first.w": rng.normal(0, 1 / 3**0.5, (CHANNELS, 1, 3)).astype(np.float32),
        "alpha": np.log(alpha) if log_scale else alpha,
        "last.w": rng.normal(0, 1 / (3 * CHANNELS) ** 0.5, (1, CHANNELS, 3)).astype(np.float32),
    }
    attributes = {"log_scale": 1} if log_scale else {}
    nodes = [
        helper.make_node("Conv", ["wave", "first.w"], ["a"], "first", pads=[1, 1]),
        helper.make_node("Snake", ["a", "alpha"], ["b"], "snake", domain=DOMAIN, **attributes),
        helper.make_node("Conv", ["b", "last.w"], ["out"], "last", pads=[1, 1]),
    ]
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 1, SAMPLES])
        for n in ("wave", "out")
    ]
    constants = [numpy_helper.from_array(w, name) for name, w in weights.items()]
    graph = helper.make_graph(nodes, "wave", ends[:1], ends[1:], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--log-scale", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    onnx.save(wave_model(log_scale=options.log_scale), options.folder / "wave.onnx")
    np.sin(np.arange(SAMPLES, dtype=np.float32) / 3).tofile(options.folder / "wave.raw")
    (options.folder / "inputs.txt").write_text("wave:=wave.raw\n")


if __name__ == "__main__":
    main()
