"""Encodings of 16-bit results that ops prescribe: Sigmoid and Tanh."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quantizing import decisions, encoding, new_graph, output, quantized

from dovetail.ir import DType, Graph, ScaleOffset, Spec, Tensor
from dovetail_opset.build import add, static

SAMPLES = [np.linspace(-3, 3, 8, dtype=np.float32)]
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16
PRESCRIBED = {
    ("Sigmoid", U16): ScaleOffset(1 / 65536),
    ("Sigmoid", S16): ScaleOffset(1 / 32768),
    ("Tanh", U16): ScaleOffset(1 / 32768, -32768),
    ("Tanh", S16): ScaleOffset(1 / 32768),
}


def function(op_type: str) -> tuple[Graph, Tensor]:
    graph, x = new_graph((8,))
    return graph, add(graph, op_type, [x], name="y")


@pytest.mark.parametrize(("op_type", "dtype"), PRESCRIBED)
def test_of_16_bits(op_type: str, dtype: DType) -> None:
    graph, y = function(op_type)
    output(y)
    schema = "symmetric" if dtype is S16 else "asymmetric"
    made = quantized(graph, SAMPLES, act_bitwidth=16, act_quantizer_schema=schema)
    assert made.tensor("y").spec == Spec(dtype, (8,), PRESCRIBED[op_type, dtype])


def test_of_a_function_that_a_param_selects() -> None:
    graph, x = new_graph((8,))
    output(add(graph, "ElementWiseNeuron", [x], name="y", operation=6))  # sigmoid
    made = quantized(graph, SAMPLES, act_bitwidth=16)
    assert encoding(made, "y") == PRESCRIBED["Sigmoid", U16]


@pytest.mark.parametrize(
    ("op_type", "options", "wanted"),
    [
        ("Sigmoid", {}, ScaleOffset(1 / 255)),
        ("Tanh", {}, ScaleOffset(2 / 255, -128)),
        ("Softmax", {"act_bitwidth": 16}, ScaleOffset(1 / 65535)),
        # the largest stored integer that the option allows is smaller
        (
            "Tanh",
            {
                "act_bitwidth": 16,
                "act_quantizer_schema": "symmetric",
                "restrict_quantization_steps": "-0x7F00 0x7F00",
            },
            ScaleOffset(1 / 0x7F00),
        ),
    ],
    ids=["sigmoid-8", "tanh-8", "softmax", "steps"],
)
def test_what_is_not_prescribed(op_type: str, options: dict[str, Any], wanted: ScaleOffset) -> None:
    graph, y = function(op_type)
    output(y)
    found = encoding(quantized(graph, SAMPLES, **options), "y")
    assert found.scale == pytest.approx(wanted.scale, rel=1e-6)
    assert found.offset == wanted.offset


def test_a_given_encoding_stays(tmp_path: Path) -> None:
    graph, y = function("Sigmoid")
    output(y)
    path = tmp_path / "given.json"
    entry = {"bitwidth": 16, "min": 0.0, "max": 1.0, "is_symmetric": "False"}
    path.write_text(json.dumps({"activation_encodings": {"y": [entry]}, "param_encodings": {}}))
    found = quantized(graph, SAMPLES, act_bitwidth=16, quantization_overrides=path)
    assert encoding(found, "y").scale == pytest.approx(1 / 65535, rel=1e-6)


@pytest.mark.parametrize(
    ("largest", "is_shared"), [(0.9, True), (1.0, True), (1.01, False)], ids=str
)
def test_a_convert_follows_where_others_need_a_wider_one(largest: float, is_shared: bool) -> None:
    graph, y = function("Sigmoid")
    more = static(graph, "more", np.array([0.1, largest], np.float32))
    output(add(graph, "Concat", [y, more], name="all", axis=0))
    made = quantized(graph, SAMPLES, act_bitwidth=16)
    assert encoding(made, "y") == PRESCRIBED["Sigmoid", U16]
    assert [node.op_type for node in made.nodes if node.op_type == "Convert"] == (
        [] if is_shared else ["Convert"]
    )
    scale = 2**-16 if is_shared else largest / 65535
    assert encoding(made, "all").scale == pytest.approx(scale, rel=1e-6)


def test_two_prescribed_encodings_are_converted() -> None:
    graph, y = function("Sigmoid")
    (x,) = graph.inputs
    z = add(graph, "Tanh", [x], name="z")
    output(add(graph, "Concat", [y, z], name="all", axis=0))
    made = quantized(graph, SAMPLES, act_bitwidth=16)
    assert encoding(made, "y") == PRESCRIBED["Sigmoid", U16]
    assert encoding(made, "z") == PRESCRIBED["Tanh", U16]
    assert encoding(made, "all").scale == pytest.approx(2 / 65535, rel=1e-6)
    told = decisions(graph, SAMPLES, act_bitwidth=16)
    assert told["z"].why == "prescribed by Tanh"
