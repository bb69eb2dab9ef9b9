"""Exports under ONNX Runtime's option for exact integer kernels, x64quantprecision."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from exported import export, feeds_of, stored_outputs
from onnx import ModelProto
from reference_values import values_of

from dovetail.ir import Array, AxisScaleOffset, DType, Graph, ScaleOffset, Tensor, TensorKind
from dovetail.ops import OpRegistry
from dovetail_opset import PACKAGE
from dovetail_opset.build import add, static

U8, S8, S32 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.SFIXED_POINT_32


def network(rng: np.random.Generator, *, by_channel: bool) -> Graph:
    """Three layers whose weights have the same zero points, as all symmetric ones of a size do."""
    graph = Graph("network")
    coding = ScaleOffset(0.02, -128)
    x = graph.add_tensor(Tensor("x", U8, (4, 8), TensorKind.APP_WRITE, encoding=coding))
    for i in range(3):
        scales = rng.uniform(0.01, 0.03, 8).astype(np.float32)
        encoding = AxisScaleOffset(0, scales) if by_channel else ScaleOffset(0.02)
        values = rng.integers(-127, 128, (8, 8)).astype(np.int32)
        weight = static(graph, f"w{i}", values, S8, encoding=encoding)
        kind = TensorKind.APP_READ if i == 2 else TensorKind.NATIVE
        y = Tensor(f"y{i}", U8, (4, 8), kind, encoding=ScaleOffset(0.04, -128))
        x = add(graph, "FullyConnected", [x, weight], name=f"fc{i}", outputs=y)
    return graph


def precise(model: ModelProto, feeds: dict[str, Array]) -> list[Array]:
    """Run a model with the option, which works at full optimization only."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [np.asarray(y) for y in session.run(None, feeds)]


def test_every_weight_has_a_zero_point_of_its_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for by_channel in (True, False):
        graph = network(rng, by_channel=by_channel)
        model = export(graph, tmp_path / "model.onnx")
        points = [
            node.input[2]
            for node in model.graph.node
            if node.op_type == "DequantizeLinear" and node.input[0].startswith("w")
        ]
        assert len(points) == len(set(points)) == 3
        x = rng.integers(0, 256, (4, 8)).astype(np.uint8)
        found = stored_outputs(graph, precise(model, feeds_of(graph, {"x": x})))["y2"]
        # each of three layers may round a value half-way between two steps the other way
        expected = values_of(graph, {"x": x}, OpRegistry.of(PACKAGE))["y2"]
        distance = np.abs(found.astype(int) - expected.astype(int))
        assert distance.max() <= 2
