"""The registry of the kernels on oneDNN."""

from __future__ import annotations

import functools
import math

from dovetail.runtime.plan import Branch, KernelCall, KernelRegistry, Make, Step
from dovetail_onednn import movement
from dovetail_onednn.banded import banded_resize
from dovetail_onednn.convolution import convolution, depthwise_convolution
from dovetail_onednn.elementwise import FUNCTIONS, binary, eltwise, power
from dovetail_onednn.item_norm import can_fuse_after_norm, group_norm, instance_norm
from dovetail_onednn.known_answer import Kind, is_right
from dovetail_onednn.local_response import lrn
from dovetail_onednn.matrix import fully_connected, matmul
from dovetail_onednn.normalization import batchnorm, layer_norm
from dovetail_onednn.pooling import can_fuse_after_maximum, pool_avg, pool_max
from dovetail_onednn.post_ops import BINARY, can_fuse
from dovetail_onednn.quantized import PRODUCTS
from dovetail_onednn.quantized import can_fuse as can_fuse_integers
from dovetail_onednn.quantized.conversions import can_fuse_dequantize, quantize
from dovetail_onednn.quantized.functions import FUNCTIONS as OF_INTEGERS
from dovetail_onednn.recurrent import gru, lstm
from dovetail_onednn.reduction import reduce_mean, reduce_sum
from dovetail_onednn.resampling import resize_bilinear, resize_nearest_neighbor
from dovetail_onednn.softmax import can_fuse_test, softmax
from dovetail_onednn.threads import LEAST_SHARED_ELEMENTS, threads
from dovetail_onednn.transposed import transposed_convolution
from dovetail_onednn.winograd import winograd_convolution
from dovetail_opset import STANDARD
from dovetail_opset.directions import can_fuse_sibling


def onednn_kernels(backend: str, *, strict: bool = True) -> KernelRegistry:
    """Return the kernels for ops of the standard op set.

    The library must have passed its check of products. Convolutions are checked here.

    Args:
        backend: Name of the backend that uses the kernels.
        strict: Whether a failed check is an error; if not, there are no kernels of convolutions.

    Raises:
        PluginError: A check failed, and `strict`.
    """
    kernels = KernelRegistry(backend)
    sums_of_products: dict[str, Make] = {"FullyConnected": fully_connected, "MatMul": matmul}
    has_convolutions = is_right(Kind.CONVOLUTION, strict=strict)
    if has_convolutions:
        sums_of_products |= {
            "Conv1d": convolution,
            "Conv2d": _first_of(winograd_convolution, convolution),
            "Conv3d": convolution,
            **{f"DepthWiseConv{axes}d": depthwise_convolution for axes in (1, 2)},
            **{f"TransposeConv{axes}d": transposed_convolution for axes in (1, 2, 3)},
        }
    for op_type, make in sums_of_products.items():
        kernels.register(STANDARD, op_type, can_fuse=can_fuse, branch=Branch.GATE)(make)
    for op_type, make in {"Lstm": lstm, "Gru": gru}.items():
        kernels.register(STANDARD, op_type, can_fuse=can_fuse_sibling, branch=Branch.SIBLING)(make)
    fusing: dict[str, Make] = {
        **dict.fromkeys(BINARY, binary),
        **dict.fromkeys(FUNCTIONS, eltwise),
        **{f"PoolAvg{axes}d": pool_avg for axes in (2, 3)},
        "Batchnorm": batchnorm,
        "ElementWisePower": power,
    }
    for op_type, make in fusing.items():
        kernels.register(STANDARD, op_type, can_fuse=can_fuse)(_alone_if_small(make))
    by_item = functools.partial(kernels.register, can_fuse=can_fuse_after_norm, branch=Branch.GATE)
    by_item(STANDARD, "GroupNorm")(_alone_if_small(group_norm))
    by_item(STANDARD, "InstanceNorm")(_alone_if_small(instance_norm))
    kernels.register(STANDARD, "Softmax", can_fuse=can_fuse_test, branch=Branch.GATE)(
        _alone_if_small(softmax)
    )
    for axes in (2, 3):
        register = kernels.register(STANDARD, f"PoolMax{axes}d", can_fuse=can_fuse_after_maximum)
        register(_alone_if_small(pool_max))
    others: dict[str, Make] = {
        "ChannelShuffle": movement.channel_shuffle,
        "Concat": movement.concat,
        **dict.fromkeys(("ExpandDims", "Reshape", "Squeeze"), movement.reshape),
        "LayerNorm": layer_norm,
        "Lrn": lrn,
        "ReduceMean": reduce_mean,
        "ReduceSum": reduce_sum,
        "Resize": banded_resize,
        "ResizeBilinear": resize_bilinear,
        "ResizeNearestNeighbor": resize_nearest_neighbor,
        "Transpose": movement.transpose,
    }
    for op_type, make in others.items():
        kernels.register(STANDARD, op_type)(_alone_if_small(make))
    for op_type, make in OF_INTEGERS.items():
        kernels.register(STANDARD, op_type, quantized=True)(_alone_if_small(make))
    kernels.register(STANDARD, "Quantize", can_fuse=can_fuse_dequantize, quantized=True)(
        _alone_if_small(quantize)
    )
    if has_convolutions and is_right(Kind.INTEGER, strict=strict):
        for op_type, make in PRODUCTS.items():
            kernels.register(STANDARD, op_type, can_fuse=can_fuse_integers, quantized=True)(make)
    return kernels


def _first_of(*makes: Make) -> Make:
    """Return a kernel that tries several in order and returns the first step."""
    return lambda call: next((step for make in makes if (step := make(call)) is not None), None)


def _alone_if_small(make: Make) -> Make:
    """Return a kernel that uses one thread for small tensors."""

    def make_step(call: KernelCall) -> Step | None:
        tensors = (*call.tensors, *call.outputs)
        elements = max(math.prod(t.shape) for t in tensors if t is not None)
        with threads(1 if elements < LEAST_SHARED_ELEMENTS else 0):
            return make(call)

    return make_step
