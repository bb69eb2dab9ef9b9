"""The kernels on oneDNN, for a backend to take into its own registry."""

from __future__ import annotations

from dovetail.runtime.plan import KernelRegistry
from dovetail_onednn import movement
from dovetail_onednn.convolution import convolution, depthwise_convolution
from dovetail_onednn.elementwise import FUNCTIONS, binary, eltwise
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

OPSET = "qti.aisw"


def onednn_kernels(backend: str) -> KernelRegistry:
    """Gives the kernels for ops of the standard op set.

    Args:
        backend: Name of the backend that they are for.
    """
    kernels = KernelRegistry(backend)
    for axes in (1, 2, 3):
        kernels.register(OPSET, f"Conv{axes}d", absorbs=absorbs)(convolution)
        kernels.register(OPSET, f"TransposeConv{axes}d", absorbs=absorbs)(transposed_convolution)
    for axes in (1, 2):
        kernels.register(OPSET, f"DepthWiseConv{axes}d", absorbs=absorbs)(depthwise_convolution)
    kernels.register(OPSET, "FullyConnected", absorbs=absorbs)(fully_connected)
    kernels.register(OPSET, "MatMul", absorbs=absorbs)(matmul)
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
