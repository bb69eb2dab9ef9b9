"""How near the float results are to ONNX Runtime's, on the networks that the tests run.

    python benchmarks/parity.py

Prints, for each network and output, the largest difference relative to the largest magnitude.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import dovetail

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

import networks  # noqa: E402 - the tests' own networks, which lie outside every dist

TARGET = 1e-4


def main() -> None:
    """Measures and prints."""
    cases = {
        "digits": lambda: onnx.load(ROOT / "examples" / "digits" / "digits.onnx"),
        "squeezenet, constant fill": lambda: networks.light("squeezenet"),
        "squeezenet, constant fill, logits": lambda: networks.light("squeezenet", logits=True),
        "squeezenet, drawn, logits": lambda: networks.light("squeezenet", seed=1, logits=True),
        "resnet50, constant fill": lambda: networks.light("resnet50"),
        "resnet50, drawn, logits": lambda: networks.light("resnet50", seed=2, logits=True),
        "transformer encoder": networks.encoder,
    }
    for name, make in cases.items():
        worst = difference(make())
        print(f"{name:36} {worst:.1e}   {'ok' if worst <= TARGET else 'above the target'}")


def difference(model: onnx.ModelProto) -> float:
    """Gives the largest relative difference of all outputs, for one drawn input."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        onnx.save(model, path)
        with dovetail.Session(path) as session:
            (graph,) = session.graphs.values()
            rng = np.random.default_rng(0)
            inputs = {t.name: rng.normal(0, 1, t.shape).astype(np.float32) for t in graph.inputs}
            ours = session.run(inputs)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), options)
    results = zip(theirs.get_outputs(), theirs.run(None, inputs), strict=True)
    return max(float(np.abs(ours[o.name] - r).max() / np.abs(r).max()) for o, r in results)


if __name__ == "__main__":
    main()
