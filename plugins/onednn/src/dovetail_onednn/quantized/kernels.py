"""The registry of the kernels on oneDNN for quantized nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dovetail.runtime.plan import Branch, KernelRegistry, Make
from dovetail_numpy.kernels.integer_layer import can_fuse as can_fuse_direction
from dovetail_onednn.kernels import alone_if_small
from dovetail_onednn.known_answer import Kind, is_right
from dovetail_onednn.quantized.chains import can_fuse
from dovetail_onednn.quantized.conversions import can_fuse_dequantize, quantize
from dovetail_onednn.quantized.convolution import (
    convolution,
    depthwise_convolution,
    transposed_convolution,
)
from dovetail_onednn.quantized.functions import FUNCTIONS
from dovetail_onednn.quantized.matrix import fully_connected, matmul
from dovetail_onednn.quantized.normalization import batchnorm
from dovetail_onednn.quantized.recurrent import gru, lstm
from dovetail_opset import STANDARD

_PRODUCTS: Mapping[str, Make] = {
    "Batchnorm": batchnorm,
    **{f"Conv{axes}d": convolution for axes in (1, 2, 3)},
    **{f"DepthWiseConv{axes}d": depthwise_convolution for axes in (1, 2)},
    "FullyConnected": fully_connected,
    "MatMul": matmul,
    **{f"TransposeConv{axes}d": transposed_convolution for axes in (1, 2, 3)},
}
_LAYERS: Mapping[str, Make] = {"Lstm": lstm, "Gru": gru}


def quantized_kernels(backend: str, *, strict: bool) -> KernelRegistry:
    """Return the kernels for quantized nodes; see `onednn_kernels`."""
    kernels = KernelRegistry(backend)

    def register(makes: Mapping[str, Make], **how: Any) -> None:
        for op_type, make in makes.items():
            kernels.register(STANDARD, op_type, quantized=True, **how)(make)

    register(alone_if_small(FUNCTIONS))
    register(alone_if_small({"Quantize": quantize}), can_fuse=can_fuse_dequantize)
    if all(is_right(kind, strict=strict) for kind in (Kind.CONVOLUTION, Kind.INTEGER)):
        register(_PRODUCTS, can_fuse=can_fuse)
        register(_LAYERS, can_fuse=can_fuse_direction, branch=Branch.SIBLING)
    return kernels
