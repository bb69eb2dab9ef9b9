"""What conversion leaves of whole networks: no transposes between layers, no written-out ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import networks
import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper

import dovetail
from dovetail.ir import Graph, Node

LIGHT = (
    *("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet"),
    *("squeezenet", "vgg19", "zfnet512"),
)
# The network, and how many transposes there are at its inputs and outputs.
NETWORKS: dict[str, tuple[Callable[[], ModelProto], int]] = {
    **{name: ((lambda name=name: networks.light(name, hidden=64)), 1) for name in LIGHT},
    "MobileNetV2": (lambda: networks.mobilenet_v2(size=64), 1),
    "MobileNetV3": (lambda: networks.mobilenet_v3(size=64), 1),
    "U-Net": (networks.unet, 2),
}


def convert(model: ModelProto, folder: Path) -> Graph:
    onnx.save(model, folder / "net.onnx")
    (graph,) = dovetail.convert(folder / "net.onnx").graphs.values()
    return graph


def is_at_the_edge(node: Node) -> bool:
    (read,), (written,) = node.inputs, node.outputs
    return read is not None and (read.kind.is_input or written.kind.is_output)


@pytest.mark.parametrize("name", NETWORKS)
def test_no_transposes_between_layers(name: str, tmp_path: Path) -> None:
    make, count = NETWORKS[name]
    graph = convert(make(), tmp_path)
    transposes = [node for node in graph.nodes if node.op_type == "Transpose"]
    assert len(transposes) == count
    assert all(map(is_at_the_edge, transposes))
    reshapes = [node for node in graph.nodes if node.op_type == "Reshape"]
    assert len(reshapes) <= 1, "the classifier's; others come between a layer and its activation"


def test_attention_has_the_copies_of_its_heads_and_no_scale(tmp_path: Path) -> None:
    ops = Counter(node.op_type for node in convert(networks.encoder(layers=1), tmp_path).nodes)
    assert ops["Transpose"] == 4  # of queries, keys, values and back
    assert ops["ElementWiseDivide"] + ops["ElementWiseMultiply"] == 0
    assert ops["Softmax"] == 1


def test_scale_layers_of_densenet_join_its_batchnorms(tmp_path: Path) -> None:
    ops = Counter(node.op_type for node in convert(networks.light("densenet121"), tmp_path).nodes)
    assert ops["ElementWiseMultiply"] + ops["ElementWiseAdd"] == 0


def written_out(model: ModelProto, form: str) -> ModelProto:
    """Return a network with every HardSwish in the small ops of an older exporter."""
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for name, value in (("three", 3), ("zero", 0), ("six", 6), ("sixth", 1 / 6)):
        constant = numpy_helper.from_array(np.array(value, np.float32), name)
        model.graph.initializer.append(constant)
    for node in nodes:
        model.graph.node.extend(_parts(node, form) if node.op_type == "HardSwish" else [node])
    return model


def _parts(node: onnx.NodeProto, form: str) -> list[onnx.NodeProto]:
    (x,), (y,), n = node.input, node.output, helper.make_node
    if form == "gate":
        gate = n("HardSigmoid", [x], [f"{y}.gate"], f"{y}.gate", alpha=1 / 6, beta=0.5)
        return [gate, n("Mul", [x, f"{y}.gate"], [y], node.name)]
    shifted = n("Add", [x, "three"], [f"{y}.a"], f"{y}.a")
    clipped = n("Clip", [f"{y}.a", "zero", "six"], [f"{y}.c"], f"{y}.c")
    if form == "sixth of the gate":
        gate = n("Mul", [f"{y}.c", "sixth"], [f"{y}.g"], f"{y}.g")
        return [shifted, clipped, gate, n("Mul", [x, f"{y}.g"], [y], node.name)]
    product = n("Mul", [x, f"{y}.c"], [f"{y}.p"], f"{y}.p")
    return [shifted, clipped, product, n("Div", [f"{y}.p", "six"], [y], node.name)]


@pytest.mark.parametrize("form", ["gate", "sixth of the gate", "product over six"])
def test_hard_swish_of_older_exporters_is_the_op(form: str, tmp_path: Path) -> None:
    wanted = Counter(n.op_type for n in convert(networks.mobilenet_v3(size=64), tmp_path).nodes)
    model = written_out(networks.mobilenet_v3(size=64), form)
    assert not any(node.op_type == "HardSwish" for node in model.graph.node)
    assert Counter(node.op_type for node in convert(model, tmp_path).nodes) == wanted
    assert wanted["HardSwish"] == 20
