"""Cases of matrix products and convolutions with what is fused into them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.ir import Array
from microsoft_cases._case import F32, Case, Data, Known, case

# How activations are told their numbers: all of a convolution's, by name of a Gemm's.
_CONV: dict[str, list[float]] = {
    "Relu": [],
    "Tanh": [],
    "Sigmoid": [],
    "HardSwish": [],
    "LeakyRelu": [0.3],
    "Clip": [-0.5, 0.75],
    "HardSigmoid": [0.3, 0.4],
}
_GEMM: dict[str, list[float]] = {
    "Relu": [],
    "Tanh": [],
    "Sigmoid": [],
    "Softplus": [],
    "Softsign": [],
    "LeakyRelu": [0.3],
    "Elu": [0.5],
    "ThresholdedRelu": [0.5],
    "HardSigmoid": [0.3, 0.4],
}


def cases() -> Iterator[Case]:
    """Return the cases."""
    rng = np.random.default_rng(2)

    def data(*shape: int) -> Array:
        return rng.normal(size=shape).astype(F32)

    yield from _convolutions(data)
    yield from _gemms(data)
    yield from _products(data)


def _convolutions(data: Data) -> Iterator[Case]:
    x, w, b = data(2, 4, 7, 6), Known(data(6, 4, 3, 3)), Known(data(6))
    for name, numbers in _CONV.items():
        given = {"activation_params": numbers} if numbers else {}
        yield case("FusedConv", name, [x, w, b], activation=name, pads=[1, 1, 1, 1], **given)
    yield case("FusedConv", "no activation", [x, w])
    grouped, z = Known(data(6, 2, 3, 3)), data(2, 6, 3, 3)
    strided = {"group": 2, "strides": [2, 2], "pads": [0, 1, 0, 1]}
    yield case("FusedConv", "groups and strides", [x, grouped, b], activation="Relu", **strided)
    yield case("FusedConv", "an addend", [x, grouped, b, z], activation="Relu", **strided)
    yield case("FusedConv", "an addend alone", [x, grouped, None, z], **strided)
    depthwise = Known(data(4, 1, 3, 3))
    yield case("FusedConv", "depthwise", [x, depthwise], activation="Relu", group=4)
    same = {"auto_pad": "SAME_UPPER", "activation": "Relu"}
    yield case("FusedConv", "automatic padding", [x, w], **same)
    yield case("FusedConv", "dilations", [x, w, b], activation="Tanh", dilations=[2, 1])
    yield case(
        "FusedConv", "one dimension", [data(1, 4, 9), Known(data(3, 4, 2))], activation="Relu"
    )


def _gemms(data: Data) -> Iterator[Case]:
    a, b, c = data(3, 4), data(4, 5), data(5)
    for name, numbers in _GEMM.items():
        named = dict(zip(("activation_alpha", "activation_beta"), numbers, strict=False))
        yield case("FusedGemm", name, [a, Known(b), Known(c)], activation=name, **named)
    scaled = {"alpha": 0.5, "beta": 2.0, "transA": 1, "transB": 1, "activation": "Relu"}
    yield case("FusedGemm", "scaled and transposed", [data(4, 3), data(5, 4), c], **scaled)


def _products(data: Data) -> Iterator[Case]:
    a, b = data(2, 3, 4, 5), data(2, 3, 5, 6)
    turned = {"transA": 1, "transB": 1}
    swapped = [data(2, 3, 5, 4), data(2, 3, 6, 5)]
    yield case("FusedMatMul", "plain", [a, b])
    yield case("FusedMatMul", "a factor", [a, b], alpha=0.125)
    yield case("FusedMatMul", "known weights", [data(3, 4), Known(data(6, 4))], transB=1, alpha=2.0)
    yield case("FusedMatMul", "both transposed", swapped, alpha=0.5, **turned)
    batches = [data(4, 2, 3, 5), data(5, 2, 3, 6)]
    yield case("FusedMatMul", "batches behind", batches, transBatchA=1, transBatchB=1)
    both = [data(5, 2, 3, 4), data(6, 2, 3, 5)]
    everything = {"transBatchA": 1, "transBatchB": 1, **turned}
    yield case("FusedMatMul", "batches behind, transposed", both, **everything)
    yield case("FusedMatMul", "a vector", [data(4), data(4, 3)], alpha=3.0)
    yield case("FusedMatMul", "broadcast", [data(2, 1, 3, 4), data(5, 4, 6)])
    yield case("TransposeMatMul", "the older name", [a, data(2, 3, 6, 5)], transB=1)
