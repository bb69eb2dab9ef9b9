"""Whole networks on the backend `gpu` and on `cpu`: in float32 and in half precision."""

from __future__ import annotations

from pathlib import Path

import networks
import numpy as np
import onnx
import pytest
from opencl_driver import ALL, require_opencl

import dovetail

CASES = {
    "MobileNetV2": lambda: networks.mobilenet_v2(size=96),
    "transformer encoder": networks.encoder,
}
SLOW = {
    "MobileNetV3": lambda: networks.mobilenet_v3(size=96),
    "U-Net": networks.unet,
    "LSTM": networks.lstm,
    "gates": networks.gated,
    "squeezenet": lambda: networks.light("squeezenet", seed=1, logits=True),
    "resnet50": lambda: networks.light("resnet50", seed=2, logits=True),
    "shufflenet": lambda: networks.light("shufflenet", seed=3, logits=True),
}
# float32 sums in another order; half precision has 11 bits, through up to 53 layers
RELATIVE = {"fp32": 1e-4, "hybrid": 2e-2}


def worst(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> float:
    """Return the largest difference, relative to the largest number of its output."""
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert np.abs(array).max() > 0, "a network that gives zeros shows nothing"
        assert np.isfinite(found[name]).all(), name
    return max(float(np.abs(found[n] - w).max() / np.abs(w).max()) for n, w in wanted.items())


@pytest.mark.parametrize("case", [*CASES, *(SLOW if ALL else ())])
def test_a_network_computes_the_same_as_on_cpu(case: str, tmp_path: Path) -> None:
    require_opencl()
    onnx.save((CASES | SLOW)[case](), tmp_path / "net.onnx")
    model = dovetail.convert(tmp_path / "net.onnx")
    rng = np.random.default_rng(0)
    with dovetail.Session(model) as session:
        (graph,) = session.graphs.values()
        inputs = {t.name: rng.normal(0, 1, t.shape).astype(np.float32) for t in graph.inputs}
        wanted = session.run(inputs)
    for mode, relative in RELATIVE.items():
        config = {"graph": [{"graph_name": graph.name, "precision_mode": mode}]}
        with dovetail.Session(model, backend="gpu", config=config) as session:
            assert worst(session.run(inputs), wanted) <= relative, mode
