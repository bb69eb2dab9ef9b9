"""Small models that are quantized already: fake, stored, and with dynamic products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto

from fuzz.models import F32, I64, N, model

_FAKE = ("qonnx.custom_op.general", "org.openvinotoolkit", "org.pytorch.aten")
_MICROSOFT = "com.microsoft"


def models() -> Iterator[tuple[str, ModelProto]]:
    """Yield names and models."""
    yield "fake", _fake()
    yield "stored", _stored()
    yield "stored matrices", _stored_matrices()
    yield "dynamic", _dynamic()


def _numbers(**values: Any) -> dict[str, Any]:
    """Return float32 constants, and the weights that all these models have."""
    made = {name: np.asarray(value, F32) for name, value in values.items()}
    return made | {"w": np.linspace(-1, 1, 12, dtype=F32).reshape(4, 3)}


def _bytes(*shape: int, dtype: Any = np.uint8) -> Any:
    return (np.arange(int(np.prod(shape))) * 5 % 97).astype(dtype).reshape(shape)


def _fake() -> ModelProto:
    qonnx, openvino, aten = _FAKE
    torch = "fake_quantize_per_channel_affine"
    nodes = [
        N("Quant", ["w", "s", "z", "bits"], ["a"], domain=qonnx, signed=1, narrow=0),
        N("FakeQuantize", ["w", "low", "high", "low", "high"], ["b"], domain=openvino, levels=256),
        N("ATen", ["w", "t", "tz", "axis", "from", "to"], ["c"], domain=aten, operator=torch),
        N("Sum", ["a", "b", "c"], ["d"]),
        N("MatMul", ["x", "d"], ["e"]),
        N("Quant", ["e", "one", "z", "bits"], ["f"], domain=qonnx, signed=0),
        N(
            "FakeQuantize",
            ["f", "zero", "high", "zero", "high"],
            ["y"],
            domain=openvino,
            levels=128,
        ),
    ]
    constants = _numbers(s=np.full((4, 1), 0.1), z=0, bits=8, low=-1.28, high=1.27, one=1, zero=0)
    constants |= {"t": np.full(4, 0.1, F32), "tz": np.zeros(4, I64)}
    constants |= {name: np.array(v, I64) for name, v in (("axis", 0), ("from", -128), ("to", 127))}
    return model(nodes, {"x": [2, 4]}, ["y"], constants, domains=_FAKE)


def _stored() -> ModelProto:
    nodes = [
        N("QuantizeLinear", ["x", "s", "z"], ["q"]),
        N("QLinearConv", ["q", "s", "z", "k", "ks", "kz", "s", "z", "b"], ["c"], pads=[1, 1, 1, 1]),
        N("QLinearAdd", ["c", "s", "z", "c", "s", "z", "s", "z"], ["d"], domain=_MICROSOFT),
        N("DequantizeLinear", ["d", "s", "z"], ["e"]),
        N("DequantizeLinear", ["w", "blocks"], ["f"], axis=0, block_size=2),
        N("MatMul", ["e", "f"], ["y"]),
    ]
    constants: dict[str, Any] = _numbers(s=0.1, ks=np.full(3, 0.1), blocks=np.full((2, 3), 0.1))
    constants |= {"z": _bytes(), "k": _bytes(3, 2, 3, 3, dtype=np.int8)}
    constants |= {"kz": np.zeros(3, np.int8), "b": _bytes(3, dtype=np.int32)}
    constants["w"] = _bytes(4, 3, dtype=np.int8)
    return model(nodes, {"x": [1, 2, 4, 4]}, ["y"], constants, opset=21, domains=[_MICROSOFT])


def _stored_matrices() -> ModelProto:
    stored = ["q", "s", "z", "k", "ks", "kz"]
    nodes = [
        N("QuantizeLinear", ["x", "s", "z"], ["q"]),
        N("QLinearMatMul", [*stored, "s", "z"], ["a"]),
        N("QGemm", [*stored, "b", "s", "z"], ["c"], domain=_MICROSOFT, transB=0),
        N("DequantizeLinear", ["a", "s", "z"], ["d"]),
        N("DequantizeLinear", ["c", "s", "z"], ["e"]),
        N("MatMulIntegerToFloat", ["q", "k", "s", "ks", "z", "kz"], ["f"], domain=_MICROSOFT),
        N("Sum", ["d", "e", "f"], ["y"]),
    ]
    constants: dict[str, Any] = _numbers(s=0.1, ks=np.full(3, 0.1))
    constants |= {"z": _bytes(), "k": _bytes(4, 3, dtype=np.int8)}
    constants |= {"kz": np.zeros(3, np.int8), "b": _bytes(3, dtype=np.int32)}
    return model(nodes, {"x": [2, 4]}, ["y"], constants, domains=[_MICROSOFT])


def _dynamic() -> ModelProto:
    nodes = [
        N("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]),
        N("MatMulInteger", ["q", "k", "qz", "kz"], ["i"]),
        N("Cast", ["i"], ["c"], to=TensorProto.FLOAT),
        N("Mul", ["qs", "ks"], ["s"]),
        N("Mul", ["c", "s"], ["d"]),
        N("ConvInteger", ["q", "l", "qz", "kz"], ["j"], kernel_shape=[1, 1]),
        N("Cast", ["j"], ["e"], to=TensorProto.FLOAT),
        N("Mul", ["e", "qs"], ["f"]),
        N("Mul", ["f", "one"], ["g"]),
        N("ReduceMax", ["g"], ["h"], keepdims=0),
        N("Add", ["d", "h"], ["y"]),
    ]
    constants = _numbers(ks=np.full(3, 0.1), one=1)
    constants |= {"k": _bytes(4, 3), "l": _bytes(3, 2, 1, 1), "kz": _bytes()}
    return model(nodes, {"x": [1, 2, 5, 4]}, ["y"], constants)
