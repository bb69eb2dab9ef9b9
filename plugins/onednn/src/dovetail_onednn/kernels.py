"""The kernels on oneDNN, for a backend to take into its own registry."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable

from dovetail.errors import PluginError
from dovetail.runtime.plan import KernelRegistry, Make
from dovetail_onednn import movement
from dovetail_onednn.convolution import convolution, depthwise_convolution
from dovetail_onednn.elementwise import FUNCTIONS, binary, eltwise
from dovetail_onednn.known_answer import Kind, checked_library
from dovetail_onednn.local_response import lrn
from dovetail_onednn.matrix import fully_connected, matmul
from dovetail_onednn.normalization import batchnorm, instance_norm, layer_norm
from dovetail_onednn.pooling import absorbs_after_maximum, pool_avg, pool_max
from dovetail_onednn.post_ops import BINARY, absorbs
from dovetail_onednn.recurrent import gru, lstm
from dovetail_onednn.reduction import reduce_max, reduce_mean, reduce_sum
from dovetail_onednn.resampling import resize_bilinear, resize_nearest_neighbor
from dovetail_onednn.softmax import softmax
from dovetail_onednn.transposed import transposed_convolution
from dovetail_onednn.winograd import winograd_convolution

OPSET = "qti.aisw"

_LOG = logging.getLogger("dovetail.onednn")


def onednn_kernels(backend: str, *, strict: bool = True) -> KernelRegistry:
    """Gives the kernels for ops of the standard op set.

    The library must have passed its check of products; that of convolutions is made at the first
    one.

    Args:
        backend: Name of the backend that they are for.
        strict: Whether failing that is an error; else convolutions are declined.
    """
    kernels = KernelRegistry(backend)
    if_right = _if_right(Kind.CONVOLUTION, strict=strict)
    sums_of_products: dict[str, Make] = {
        "Conv1d": if_right(convolution),
        "Conv2d": if_right(_first_of(winograd_convolution, convolution)),
        "Conv3d": if_right(convolution),
        **{f"DepthWiseConv{axes}d": if_right(depthwise_convolution) for axes in (1, 2)},
        **{f"TransposeConv{axes}d": if_right(transposed_convolution) for axes in (1, 2, 3)},
        "FullyConnected": fully_connected,
        "MatMul": matmul,
    }
    for op_type, make in sums_of_products.items():
        kernels.register(OPSET, op_type, absorbs=absorbs, gates=True)(make)
    kernels.register(OPSET, "Lstm")(lstm)
    kernels.register(OPSET, "Gru")(gru)
    kernels.register(OPSET, "Transpose")(movement.transpose)
    kernels.register(OPSET, "ChannelShuffle")(movement.channel_shuffle)
    kernels.register(OPSET, "Concat")(movement.concat)
    for op_type in BINARY:
        kernels.register(OPSET, op_type, absorbs=absorbs)(binary)
    for op_type in FUNCTIONS:
        kernels.register(OPSET, op_type, absorbs=absorbs)(eltwise)
    kernels.register(OPSET, "Batchnorm", absorbs=absorbs)(batchnorm)
    kernels.register(OPSET, "InstanceNorm")(instance_norm)
    kernels.register(OPSET, "LayerNorm")(layer_norm)
    kernels.register(OPSET, "Lrn")(lrn)
    for axes in (2, 3):
        kernels.register(OPSET, f"PoolAvg{axes}d", absorbs=absorbs)(pool_avg)
        kernels.register(OPSET, f"PoolMax{axes}d", absorbs=absorbs_after_maximum)(pool_max)
    kernels.register(OPSET, "ReduceMax")(reduce_max)
    kernels.register(OPSET, "ReduceMean")(reduce_mean)
    kernels.register(OPSET, "ReduceSum")(reduce_sum)
    kernels.register(OPSET, "ResizeBilinear")(resize_bilinear)
    kernels.register(OPSET, "ResizeNearestNeighbor")(resize_nearest_neighbor)
    kernels.register(OPSET, "Softmax")(softmax)
    return kernels


def _first_of(*makes: Make) -> Make:
    """Gives what has the first kernel that is made for a call run it."""
    return lambda call: next((step for make in makes if (step := make(call)) is not None), None)


def _if_right(kind: Kind, *, strict: bool) -> Callable[[Make], Make]:
    """Gives what has a kernel wait for a check, and decline, or raise, where it fails."""

    @functools.cache  # asked for each node, and said once
    def is_right() -> bool:
        try:
            checked_library((kind,))
        except PluginError as error:
            if strict:
                raise
            _LOG.info("%s are left to other kernels: %s", kind.value, error.message)
            return False
        return True

    def guarded(make: Make) -> Make:
        return lambda call: make(call) if is_right() else None

    return guarded
