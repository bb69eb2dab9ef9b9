"""Operators that quantize and make real in one: their tools, and their refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto
from quantized_models import (
    RNG,
    converted,
    node,
    only_graph,
    ops_of,
    results,
    saved,
    weights,
)

import dovetail as dt
from dovetail.ir import (
    Array,
    AxisScaleOffset,
    DType,
    ScaleOffset,
)


def fake(x: Array, scale: Any, zero: int, low: int, high: int) -> Array:
    """What any fake quantization gives."""
    return np.asarray((np.clip(np.rint(x / scale) + zero, low, high) - zero) * scale, np.float32)


def openvino(levels: int, low: float, high: float) -> tuple[list[NodeProto], dict[str, Any]]:
    names = "low high low high"
    numbers: dict[str, Any] = {"low": np.float32(low), "high": np.float32(high)}
    how: dict[str, Any] = {"domain": "org.openvinotoolkit", "levels": levels}
    wide = RNG.uniform(0.5, 2, (6, 1)).astype(np.float32)
    numbers |= {"wlow": -wide, "whigh": wide}
    return [
        node("FakeQuantize", f"x {names}", "a", **how),
        node("FakeQuantize", "w wlow whigh wlow whigh", "wd", domain="org.openvinotoolkit",
             levels=255),
        node("Gemm", "a wd", "m", transB=1),
        node("FakeQuantize", f"m {names}", "y", **how),
    ], numbers  # fmt: skip


def qonnx(
    bits: int, signed: int, scale: float, zero: int, narrow: int = 0
) -> tuple[list[NodeProto], dict[str, Any]]:
    how: dict[str, Any] = {"domain": "qonnx.custom_op.general", "rounding_mode": "ROUND"}
    wide = RNG.uniform(0.02, 0.05, (6, 1)).astype(np.float32)
    numbers = {
        "s": np.float32(scale), "z": np.float32(zero), "b": np.float32(bits), "ws": wide,
        "wz": np.float32(0), "wb": np.float32(4),
    }  # fmt: skip
    return [
        node("Quant", "x s z b", "a", signed=signed, narrow=narrow, **how),
        node("Quant", "w ws wz wb", "wd", signed=1, narrow=1, **how),
        node("Gemm", "a wd", "m", transB=1),
        node("Quant", "m s z b", "y", signed=signed, narrow=narrow, **how),
    ], numbers


def torch(name: str, zero: int) -> tuple[list[NodeProto], dict[str, Any]]:
    """What torch's exporter leaves where it has no other form; learnable ones have a last input."""
    wide = RNG.uniform(0.01, 0.02, (6, 1)).astype(np.float32)
    more = " one" if "learnable" in name else ""
    how = {"domain": "org.pytorch.aten"}
    tensor = how | {"operator": f"{name}_per_tensor_affine"}
    numbers = {
        "s": np.float32(0.01), "z": np.int64(zero), "low": np.int64(0), "high": np.int64(255),
        "ws": wide, "wf": wide.reshape(-1), "wz": np.zeros(6, np.float32), "wl": np.int64(-128),
        "wh": np.int64(127), "axis": np.int64(0), "one": np.float32(1),
    }  # fmt: skip
    return [
        node("ATen", f"x s z low high{more}", "a", **tensor),
        node("ATen", f"w wf wz axis wl wh{more}", "wd", operator=f"{name}_per_channel_affine",
             **how),
        node("Gemm", "a wd", "m", transB=1),
        node("ATen", f"m s z low high{more}", "y", **tensor),
    ], numbers  # fmt: skip


FAKES: dict[str, tuple[Any, tuple[float, int, int, int], DType, int, int]] = {
    # made with, then scale, zero point, ends; type of activations; bits of weights, and ends
    "openvino unsigned": (lambda: openvino(256, 0, 2.55), (0.01, 0, 0, 255), DType.UFIXED_POINT_8,
                          8, 127),
    "openvino signed": (lambda: openvino(256, -1.28, 1.27), (0.01, 0, -128, 127),
                        DType.SFIXED_POINT_8, 8, 127),
    "openvino between": (lambda: openvino(256, -1, 1.55), (0.01, 100, 0, 255),
                         DType.UFIXED_POINT_8, 8, 127),
    "torch": (lambda: torch("fake_quantize", 100), (0.01, 100, 0, 255), DType.UFIXED_POINT_8,
              8, 127),
    "torch learned": (lambda: torch("_fake_quantize_learnable", 0), (0.01, 0, 0, 255),
                      DType.UFIXED_POINT_8, 8, 127),
    "qonnx": (lambda: qonnx(8, 1, 0.01, 0), (0.01, 0, -128, 127), DType.SFIXED_POINT_8, 4, 7),
    "qonnx narrow": (lambda: qonnx(8, 1, 0.01, 0, 1), (0.01, 0, -127, 127), DType.SFIXED_POINT_8,
                     4, 7),
    "qonnx unsigned": (lambda: qonnx(6, 0, 0.05, 20), (0.05, 20, 0, 63), DType.UFIXED_POINT_8,
                       4, 7),
}  # fmt: skip


@pytest.mark.parametrize("form", FAKES)
def test_fake_quantization_becomes_encodings(tmp_path: Path, form: str) -> None:
    make, (scale, zero, low, high), dtype, bits, most = FAKES[form]
    nodes, numbers = make()
    w = RNG.standard_normal((6, 12)).astype(np.float32)
    path = saved(tmp_path / "net.onnx", nodes, (2, 12), numbers | {"w": w})
    x = RNG.standard_normal((3, 2, 12)).astype(np.float32)
    wide = numbers["whigh"] / 127 if "whigh" in numbers else numbers["ws"]
    # those of torch go down to -128, the others leave it out
    lowest = -most - ("torch" in form)
    wanted = fake(fake(x, np.float32(scale), zero, low, high) @ fake(w, wide, 0, lowest, most).T,
                  np.float32(scale), zero, low, high)  # fmt: skip
    converted_only = results(dt.convert(path), x)
    # sums in another order, which may fall on the other side of a step
    assert np.abs(converted_only - wanted).max() <= 1.01 * scale
    assert np.mean(np.abs(converted_only - wanted) < scale / 2) > 0.9
    made = converted(path)
    graph = only_graph(made.model)
    assert set(ops_of(made)) <= {"FullyConnected", "Relu"}
    for name in ("x", "y"):
        assert graph.tensor(name).dtype is dtype
        encoding = graph.tensor(name).encoding
        assert isinstance(encoding, ScaleOffset)
        assert encoding.scale == pytest.approx(scale, rel=1e-6)
        assert encoding.offset == -zero
    (weight,) = weights(graph)
    assert isinstance(weight.encoding, AxisScaleOffset)
    assert (weight.encoding.bitwidth or weight.dtype.bits) == bits
    np.testing.assert_allclose(weight.encoding.scales, wide[:, 0], rtol=1e-6)
    np.testing.assert_array_equal(weight.stored(), np.clip(np.rint(w / wide), lowest, most))
    assert np.abs(results(made.model, x) - wanted).max() <= 1.01 * scale


@pytest.mark.parametrize(
    ("nodes", "numbers", "why"),
    [
        (
            [node("FakeQuantize", "x a b a c", "y", domain="org.openvinotoolkit", levels=256)],
            {"a": np.float32(-1), "b": np.float32(1), "c": np.float32(2)},
            "output range that differs from the input range",
        ),
        (
            [node("FakeQuantize", "x a b a b", "y", domain="org.openvinotoolkit", levels=256)],
            {"a": np.float32(-1), "b": np.float32(1)},
            "not one of the levels",
        ),
        (
            [node("Quant", "x a b c", "y", domain="qonnx.custom_op.general",
                  rounding_mode="FLOOR")],
            {"a": np.float32(1), "b": np.float32(0), "c": np.float32(8)},
            "unsupported rounding mode FLOOR",
        ),
        (
            [node("Quant", "x a b c", "y", domain="qonnx.custom_op.general")],
            {"a": np.float32(1), "b": np.float32(0), "c": np.float32(1)},
            "unsupported bit width 1",
        ),
        (
            [node("ATen", "x", "y", domain="org.pytorch.aten", operator="index_put")],
            {},
            "index_put",
        ),
    ],
)  # fmt: skip
def test_fake_quantization_that_cannot_be_converted(
    tmp_path: Path, nodes: list[NodeProto], numbers: dict[str, Any], why: str
) -> None:
    path = saved(tmp_path / "net.onnx", nodes, (2, 3), numbers)
    with pytest.raises(dt.DovetailError) as caught:
        dt.convert(path)
    assert why in str(caught.value)
