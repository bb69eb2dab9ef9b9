"""Branches of convolutions, as RepVGG trains them: apart by default, one on request."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import dovetail as dt

CHANNELS, BLOCKS = 16, 3


@pytest.fixture(name="path", scope="module")
def fixture_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Blocks of a 3x3 and a 1x1 convolution of one tensor, each with a norm, and a norm of it."""
    rng = np.random.default_rng(5)
    nodes, constants, x = [], {}, "x"

    def norm(source: str, name: str) -> str:
        mean, scale = np.zeros(CHANNELS), np.ones(CHANNELS)
        values = {"s": scale, "b": mean, "m": mean, "v": scale}
        constants.update({f"{name}.{key}": value for key, value in values.items()})
        inputs = [source, *(f"{name}.{key}" for key in values)]
        nodes.append(helper.make_node("BatchNormalization", inputs, [name], name))
        return name

    for block in range(BLOCKS):
        parts = []
        for size in (3, 1):
            name = f"conv{block}.{size}"
            shape = (CHANNELS, CHANNELS, size, size)
            constants[f"{name}.w"] = rng.standard_normal(shape) * 0.3 / (size * CHANNELS**0.5)
            pads = [size // 2] * 4
            nodes.append(helper.make_node("Conv", [x, f"{name}.w"], [name], name, pads=pads))
            parts.append(norm(name, f"{name}.norm"))
        parts.append(norm(x, f"own{block}"))
        for i, part in enumerate(parts[1:]):
            total = f"sum{block}.{i}"
            nodes.append(helper.make_node("Add", [parts[0], part], [total], total))
            parts[0] = total
        x = f"act{block}" if block < BLOCKS - 1 else "y"
        nodes.append(helper.make_node("Relu", [parts[0]], [x], x))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, CHANNELS, 8, 8))
        for name in ("x", "y")
    ]
    stored = [numpy_helper.from_array(v.astype(np.float32), n) for n, v in constants.items()]
    graph = helper.make_graph(nodes, "branches", ends[:1], ends[1:], stored)
    found = tmp_path_factory.mktemp("models") / "branches.onnx"
    save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), found)
    return found


def test_merged_branches_need_more_bits(path: Path) -> None:
    samples = np.random.default_rng(1).standard_normal((4, 1, CHANNELS, 8, 8), np.float32)
    with dt.Session(path) as session:
        wanted = session.run({"x": samples[0]})["y"]
    noise_db = []
    for passes, convolutions in (("", 2 * BLOCKS), ("+merge-convolutions", BLOCKS)):
        model = dt.convert(path, passes=passes)
        (graph,) = model.graphs.values()
        assert [node.op_type for node in graph.nodes].count("Conv2d") == convolutions
        with dt.Session(model) as session:
            np.testing.assert_allclose(session.run({"x": samples[0]})["y"], wanted, atol=1e-5)
        made = dt.quantize(model, samples, act_bitwidth=16, use_per_channel_quantization=True)
        with dt.Session(made, backend="htp") as session:
            error = session.run({"x": samples[0]})["y"] - wanted
        noise_db.append(10 * np.log10(np.square(error).sum() / np.square(wanted).sum()))
    apart, merged = noise_db
    assert apart < merged - 6
