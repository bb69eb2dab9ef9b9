"""The kernels on oneDNN for real values."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

from dovetail.runtime.plan import Branch, KernelCall, KernelRegistry, Make, Step
from dovetail_onednn import movement
from dovetail_onednn.banded import banded_resize
from dovetail_onednn.convolution import convolution, depthwise_convolution
from dovetail_onednn.dynamic_ops import PACKAGE as DYNAMIC
from dovetail_onednn.elementwise import (
    FUNCTIONS,
    binary,
    can_fuse_binary,
    eltwise,
    exponential,
    power,
)
from dovetail_onednn.item_norm import can_fuse_after_norm, group_norm, instance_norm
from dovetail_onednn.known_answer import Kind, is_right
from dovetail_onednn.local_response import lrn
from dovetail_onednn.matrix import fully_connected, matmul
from dovetail_onednn.normalization import batchnorm, layer_norm, rms_norm
from dovetail_onednn.pooling import can_fuse_after_maximum, pool_avg, pool_max
from dovetail_onednn.post_ops import BINARY, can_fuse
from dovetail_onednn.recurrent import gru, lstm
from dovetail_onednn.reduction import reduce_max, reduce_mean, reduce_min, reduce_sum
from dovetail_onednn.resampling import resize_bilinear, resize_nearest_neighbor
from dovetail_onednn.softmax import can_fuse_test, softmax
from dovetail_onednn.threads import LEAST_SHARED_ELEMENTS, threads
from dovetail_onednn.transposed import transposed_convolution
from dovetail_onednn.winograd import winograd_convolution
from dovetail_opset import STANDARD
from dovetail_opset.directions import can_fuse_sibling


def _first_of(*makes: Make) -> Make:
    """Return a kernel that tries several in order and returns the first step."""
    return lambda call: next((step for make in makes if (step := make(call)) is not None), None)


_MATRICES: Mapping[str, Make] = {"FullyConnected": fully_connected, "MatMul": matmul}
_CONVOLUTIONS: Mapping[str, Make] = {
    "Conv1d": convolution,
    "Conv2d": _first_of(winograd_convolution, convolution),
    "Conv3d": convolution,
    **{f"DepthWiseConv{axes}d": depthwise_convolution for axes in (1, 2)},
    **{f"TransposeConv{axes}d": transposed_convolution for axes in (1, 2, 3)},
}
_RECURRENT: Mapping[str, Make] = {"Lstm": lstm, "Gru": gru}
# The kernels below use one thread for small tensors. Some fuse the nodes after them.
_FUSING: Mapping[str, Make] = {
    **dict.fromkeys(FUNCTIONS, eltwise),
    **{f"PoolAvg{axes}d": pool_avg for axes in (2, 3)},
    "Batchnorm": batchnorm,
    "ElementWiseExp": exponential,
    "ElementWisePower": power,
}
_MAXIMA: Mapping[str, Make] = {f"PoolMax{axes}d": pool_max for axes in (2, 3)}
_NORMS_BY_ITEM: Mapping[str, Make] = {"GroupNorm": group_norm, "InstanceNorm": instance_norm}
_OTHERS: Mapping[str, Make] = {
    "ChannelShuffle": movement.channel_shuffle,
    "Concat": movement.concat,
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), movement.exchange),
    **dict.fromkeys(("ExpandDims", "Reshape", "Squeeze"), movement.reshape),
    "LayerNorm": layer_norm,
    "Lrn": lrn,
    "ReduceMax": reduce_max,
    "ReduceMean": reduce_mean,
    "ReduceMin": reduce_min,
    "ReduceSum": reduce_sum,
    "Resize": banded_resize,
    "ResizeBilinear": resize_bilinear,
    "ResizeNearestNeighbor": resize_nearest_neighbor,
    "RmsNorm": rms_norm,
    "Transpose": movement.transpose,
}


def real_kernels(backend: str, *, strict: bool) -> KernelRegistry:
    """Return the kernels for real values; see `onednn_kernels`."""
    kernels = KernelRegistry(backend)

    def register(makes: Mapping[str, Make], package: str = STANDARD, **how: Any) -> None:
        for op_type, make in makes.items():
            kernels.register(package, op_type, **how)(make)

    register(_MATRICES, can_fuse=can_fuse, branch=Branch.GATE)
    if is_right(Kind.CONVOLUTION, strict=strict):
        register(_CONVOLUTIONS, can_fuse=can_fuse, branch=Branch.GATE)
    register(_RECURRENT, can_fuse=can_fuse_sibling, branch=Branch.SIBLING)
    register(alone_if_small(dict.fromkeys(BINARY, binary)), can_fuse=can_fuse_binary)
    register(alone_if_small(_FUSING), can_fuse=can_fuse)
    register(alone_if_small(_NORMS_BY_ITEM), can_fuse=can_fuse_after_norm, branch=Branch.GATE)
    register(alone_if_small({"Softmax": softmax}), can_fuse=can_fuse_test, branch=Branch.GATE)
    register(alone_if_small(_MAXIMA), can_fuse=can_fuse_after_maximum)
    register(alone_if_small(_OTHERS))
    dynamic = {"DynamicMatMul": _dynamic_matmul}
    register(dynamic, DYNAMIC.name, can_fuse=can_fuse, branch=Branch.GATE)
    register(alone_if_small({"DynamicQuantize": _dynamic_quantize}), DYNAMIC.name)
    return kernels


# Most graphs do without these and what they import.
def _dynamic_matmul(call: KernelCall) -> Step | None:
    from dovetail_onednn.quantized.dynamic import dynamic_matmul

    return dynamic_matmul(call)


def _dynamic_quantize(call: KernelCall) -> Step | None:
    from dovetail_onednn.quantized.dynamic import dynamic_quantize

    return dynamic_quantize(call)


def alone_if_small(makes: Mapping[str, Make]) -> Mapping[str, Make]:
    """Return kernels that use one thread for small tensors."""
    return {op_type: functools.partial(_make_alone, make) for op_type, make in makes.items()}


def _make_alone(make: Make, call: KernelCall) -> Step | None:
    tensors = (*call.tensors, *call.outputs)
    elements = max(math.prod(t.shape) for t in tensors if t is not None)
    with threads(1 if elements < LEAST_SHARED_ELEMENTS else 0):
        return make(call)
