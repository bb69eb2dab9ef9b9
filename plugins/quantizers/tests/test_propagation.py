"""Encodings that follow from given ones: enough without samples, or all that lack are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quantizing import encoding, model_of, new_graph, output, quantized

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.errors import QuantizationError
from dovetail.ir import DType, Graph, ScaleOffset
from dovetail_opset.build import add, static

RNG = np.random.default_rng(17)


def network() -> Graph:
    """x -> fc -> cut (Relu) -> flat -> cap (clip), and fc + x -> sum, with fc read by both."""
    graph, x = new_graph((1, 4))
    weight = static(graph, "w", RNG.standard_normal((4, 4)).astype(np.float32))
    bias = static(graph, "b", RNG.standard_normal(4).astype(np.float32))
    made = add(graph, "FullyConnected", [x, weight, bias], name="fc")
    cut = add(graph, "Relu", [made], name="cut")
    flat = add(graph, "Transpose", [cut], name="flat", perm=[1, 0])
    limits = {"min_value": 0.0, "max_value": 1.0}
    output(add(graph, "ReluMinMax", [flat], name="cap", **limits))
    output(add(graph, "ElementWiseAdd", [made, x], name="sum"))
    return graph


def written(path: Path, **scales: tuple[float, int]) -> str:
    file = path / "given.encodings"
    entries = {n: {"bitwidth": 8, "scale": s, "offset": o} for n, (s, o) in scales.items()}
    file.write_text(json.dumps({"activation_encodings": entries, "param_encodings": {}}))
    return str(file)


FULL = {"x": (0.05, -128), "fc": (0.1, -120), "sum": (0.1, -125)}


def test_what_clips_keeps_the_encoding_of_its_input(tmp_path: Path) -> None:
    path = written(tmp_path, **FULL)
    made = quantize_with_report(
        model_of(network()), None, quantization_overrides=path, bias_bitwidth=32
    )
    graph = made.model.graphs["net"]
    assert {n: encoding(graph, n) for n in ("fc", "cut", "flat", "cap")} == dict.fromkeys(
        ("fc", "cut", "flat", "cap"), ScaleOffset(float(np.float32(0.1)), -120)
    )
    assert graph.tensor("b").dtype is DType.SFIXED_POINT_32
    whys = {d.tensor: d.why for d in made.report.tensors["net"]}
    assert "only clips" in whys["cap"]
    # the integers of `fc` pass unchanged, except for those below zero
    with dt.Session(made.model) as session:
        found = session.run({"x": RNG.standard_normal((1, 4)).astype(np.float32)})
    steps = found["cap"] / np.float32(0.1)
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-5)  # products of float32


def test_samples_come_before_what_follows(tmp_path: Path) -> None:
    path = written(tmp_path, **FULL)
    samples = RNG.standard_normal((4, 1, 4)).astype(np.float32)
    made = quantized(network(), samples, quantization_overrides=path)
    assert encoding(made, "cut").offset == 0


def test_every_tensor_without_an_encoding_is_named(tmp_path: Path) -> None:
    with pytest.raises(QuantizationError, match="3 tensors without an encoding") as caught:
        quantized(network(), None, quantization_overrides=written(tmp_path, x=FULL["x"]))
    assert caught.value.code == "CALIBRATION_EMPTY"
    assert [p.where for p in caught.value.problems] == [
        "tensor 'fc'", "tensor 'cap'", "tensor 'sum'",
    ]  # fmt: skip
    assert "--float-fallback" in caught.value.hint


def test_another_bitwidth_needs_a_range(tmp_path: Path) -> None:
    path = written(tmp_path, **FULL)
    data = json.loads(Path(path).read_text())
    data["activation_encodings"]["cap"] = {"bitwidth": 16}
    Path(path).write_text(json.dumps(data))
    with pytest.raises(QuantizationError, match="1 tensor without") as caught:
        quantized(network(), None, quantization_overrides=path)
    assert [p.where for p in caught.value.problems] == ["tensor 'cap'"]


def test_what_follows_spares_nodes_of_the_fallback(tmp_path: Path) -> None:
    path = written(tmp_path, x=FULL["x"], fc=FULL["fc"])
    data: Any = json.loads(Path(path).read_text())
    data["param_encodings"]["w"] = {"bitwidth": 8, "scale": 0.02, "offset": -128}
    Path(path).write_text(json.dumps(data))
    made = quantized(network(), None, quantization_overrides=path, float_fallback=True)
    assert made.tensor("cap").dtype is DType.UFIXED_POINT_8
    assert made.tensor("sum").dtype is DType.FLOAT_32


def test_joined_results_of_one_encoding(tmp_path: Path) -> None:
    def joined() -> Graph:
        graph, x = new_graph((1, 4))
        other = add(graph, "ElementWiseNeg", [x], name="other")
        parts = [add(graph, "Relu", [t], name=f"cut{i}") for i, t in enumerate((x, other))]
        output(add(graph, "Concat", parts, name="y", axis=1))
        output(add(graph, "ElementWiseAdd", [x, other], name="z"))
        return graph

    same = {"x": (0.5, -128), "other": (0.5, -128), "z": (0.5, -128)}
    made = quantized(joined(), None, quantization_overrides=written(tmp_path, **same))
    assert encoding(made, "y") == ScaleOffset(0.5, -128)
    path = written(tmp_path, **same | {"other": (0.25, -128)})
    with pytest.raises(QuantizationError) as caught:
        quantized(joined(), None, quantization_overrides=path)
    assert [p.where for p in caught.value.problems] == ["tensor 'cut0' and 'cut1'"]
