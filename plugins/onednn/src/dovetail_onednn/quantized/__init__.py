"""Kernels that compute on stored integers, with the same bits as `dovetail_numpy.integer`."""

from collections.abc import Mapping

from dovetail.runtime.plan import Make
from dovetail_onednn.quantized.chains import can_fuse
from dovetail_onednn.quantized.convolution import (
    convolution,
    depthwise_convolution,
    transposed_convolution,
)
from dovetail_onednn.quantized.matrix import fully_connected, matmul
from dovetail_onednn.quantized.normalization import batchnorm
from dovetail_onednn.quantized.recurrent import gru, lstm

PRODUCTS: Mapping[str, Make] = {
    "Batchnorm": batchnorm,
    **{f"Conv{axes}d": convolution for axes in (1, 2, 3)},
    **{f"DepthWiseConv{axes}d": depthwise_convolution for axes in (1, 2)},
    "FullyConnected": fully_connected,
    "MatMul": matmul,
    **{f"TransposeConv{axes}d": transposed_convolution for axes in (1, 2, 3)},
}
LAYERS: Mapping[str, Make] = {"Lstm": lstm, "Gru": gru}

__all__ = ["LAYERS", "PRODUCTS", "can_fuse"]
