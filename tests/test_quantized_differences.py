"""The list of what differs between a quantized model and its conversion."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto
from quantized_models import (
    NUMBERS,
    RNG,
    converted,
    drawn,
    kinds,
    node,
    ops_of,
    pair,
    results,
    saved,
    scales,
)

from dovetail.cli import main
from dovetail.errors import QuantizationError


def mixed(path: Path) -> Path:
    """One layer quantized, a Sin without, a bias of 8 bits, and weights in float."""
    nodes = [
        *pair("x", "a"),
        node("DequantizeLinear", "w ws", "wd", axis=1),
        node("DequantizeLinear", "b bs", "bd"),
        node("Gemm", "a wd bd", "m"),
        *pair("m", "n"),
        node("Sin", "n", "t"),
        node("MatMul", "t v", "y"),
    ]
    numbers = {
        "w": drawn(TensorProto.INT8, 12, 6), "ws": scales(6), "b": np.arange(6).astype(np.int8),
        "bs": np.float32(0.1), "v": RNG.standard_normal((6, 3)).astype(np.float32),
    }  # fmt: skip
    return saved(path, nodes, (2, 12), NUMBERS | numbers)


def test_what_differs_is_listed(tmp_path: Path) -> None:
    samples = RNG.standard_normal((4, 2, 12)).astype(np.float32)
    made = converted(mixed(tmp_path / "net.onnx"), calibration=samples)
    found = {kind: [each.tensor for each in them] for kind, them in kinds(made).items()}
    assert found == {
        "encoding": ["x", "m"],
        "weight": ["wd", "v"],
        "bias": ["bd"],
        "fixed": ["y", "t"],
    }
    texts = {each.tensor: each.text for them in kinds(made).values() for each in them}
    assert "keeps its integers" in texts["wd"]
    assert "quantized as float weights are" in texts["v"]
    assert "in 32 bits, where the model has SFIXED_POINT_8" in texts["bd"]
    assert "float in the model" in texts["t"]
    (note,) = [each for each in made.report.notes if "was quantized before" in each]
    assert "2 activations keep their encodings" in note
    assert json.loads(json.dumps(made.report.to_builtins()))["differences"]["net"]


def test_what_stays_float_is_listed(tmp_path: Path) -> None:
    made = converted(mixed(tmp_path / "net.onnx"), float_fallback=True)
    found = kinds(made)
    assert [each.tensor for each in found["float"]] == ["t", "y"]
    (convert,) = found["convert"]
    assert convert.tensor == "m"
    assert "UFIXED_POINT_8 to FLOAT_32, for ElementWiseSin node" in convert.text


def test_what_is_left_out_is_listed(tmp_path: Path) -> None:
    samples = RNG.standard_normal((4, 2, 12)).astype(np.float32)
    made = converted(mixed(tmp_path / "net.onnx"), calibration=samples, ignore_encodings=True)
    found = kinds(made)
    assert [each.tensor for each in found["dropped"]] == ["x", "m", "wd", "bd", "v"]
    assert [each.tensor for each in found["fixed"]] == ["x", "y", "m", "t"]


def test_quantizing_that_is_not_understood_stays_and_is_listed(tmp_path: Path) -> None:
    """A scale for each column of an activation, of which QNN has none."""
    nodes = [
        *pair("x", "a"),
        node("QuantizeLinear", "a cs cz", "q", axis=1),
        node("DequantizeLinear", "q cs cz", "b", axis=1),
        node("Tanh", "b", "t"),
        *pair("t", "y"),
    ]
    numbers = {"cs": scales(3), "cz": np.zeros(3, np.uint8)}
    path = saved(tmp_path / "net.onnx", nodes, (2, 3), NUMBERS | numbers)
    samples = RNG.standard_normal((4, 2, 3)).astype(np.float32)
    made = converted(path, calibration=samples)
    (kept,) = kinds(made)["kept"]
    assert kept.tensor == "x"
    assert "Quantize node" in kept.text
    assert "several scales" in kept.text
    assert {"Quantize", "Dequantize"} < set(ops_of(made))
    # the integers that stay are no obstacle
    assert "kept" in kinds(converted(path, calibration=samples, algorithms=["cle"]))


def test_integers_of_the_application_with_several_scales_are_listed(tmp_path: Path) -> None:
    nodes = [
        node("DequantizeLinear", "x cs cz", "a", axis=1),
        node("Tanh", "a", "t"),
        *pair("t", "y"),
    ]
    numbers = {"cs": scales(3), "cz": np.zeros(3, np.uint8)}
    path = saved(tmp_path / "net.onnx", nodes, (2, 3), NUMBERS | numbers, x=TensorProto.UINT8)
    samples = RNG.integers(0, 256, (4, 2, 3)).astype(np.uint8)
    made = converted(path, calibration=samples)
    (kept,) = kinds(made)["kept"]
    assert (kept.tensor, "the application gives UINT_8" in kept.text) == ("x", True)


def test_a_float_model_has_no_such_list(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", [node("Sin", "x", "y")], (2, 3), {})
    made = converted(path, calibration=RNG.standard_normal((4, 2, 3)).astype(np.float32))
    assert made.report.differences == {}
    assert not made.report.notes


def test_the_command_line_says_it_in_a_line_and_lists_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = mixed(tmp_path / "net.onnx")
    words = ["convert", "--input-network", str(path), "--output-path", str(tmp_path / "net.dvt")]
    assert main([*words, "--float-fallback", "--report"]) == 0
    text = "".join(capsys.readouterr())
    assert "was quantized before: 2 activations keep their encodings" in text
    assert "keeps its integers: SFIXED_POINT_8, 6 scales" in text


def test_a_scale_that_is_not_finite_is_left_out_and_named(tmp_path: Path) -> None:
    """As quantizers write it that average the ranges of a mask of the smallest float32."""
    nodes = [
        *pair("x", "a"),
        node("Where", "hidden lowest a", "m"),
        node("QuantizeLinear", "m wide end", "q"),
        node("DequantizeLinear", "q wide end", "b"),
        node("Softmax", "b", "y"),
    ]
    hidden = np.arange(12) % 3 == 0
    numbers = {
        "hidden": hidden,
        "lowest": np.float32(np.finfo(np.float32).min),
        "wide": np.float32(np.inf),
        "end": np.uint8(255),
    }
    path = saved(tmp_path / "net.onnx", nodes, (2, 12), NUMBERS | numbers)
    with pytest.raises(QuantizationError) as caught:
        converted(path)
    problems = {each.where: each.message for each in caught.value.problems}
    assert "scale is not finite" in problems["tensor 'm'"]
    samples = RNG.standard_normal((4, 2, 12)).astype(np.float32)
    made = converted(path, calibration=samples)
    (left,) = kinds(made)["dropped"]
    assert left.tensor == "m"
    assert "scale is not finite" in left.text
    raised = np.where(hidden, 0, np.exp(samples))
    wanted = raised / raised.sum(axis=-1, keepdims=True)
    # half a step of the 8-bit input, 0.015, moves a share by less; 0.010 was the most
    np.testing.assert_allclose(results(made.model, samples), wanted, atol=0.02)


def test_a_constant_with_an_infinite_scale_is_explained(tmp_path: Path) -> None:
    nodes = [
        node("QuantizeLinear", "mask wide end", "q"),
        node("DequantizeLinear", "q wide end", "b"),
        node("Add", "x b", "t"),
        node("Softmax", "t", "y"),
    ]
    lowest = np.where(np.arange(12) % 3 == 0, np.finfo(np.float32).min, np.float32(0))
    numbers = {"mask": lowest, "wide": np.float32(np.inf), "end": np.uint8(255)}
    path = saved(tmp_path / "net.onnx", nodes, (2, 12), numbers)
    with pytest.raises(QuantizationError, match="cannot be quantized") as caught:
        converted(path, calibration=RNG.standard_normal((4, 2, 12)).astype(np.float32))
    assert "a scale is infinite" in (caught.value.hint or "")
