"""The kernels on oneDNN, for a backend to take into its own registry."""

from __future__ import annotations

from dovetail.runtime.plan import KernelRegistry
from dovetail_onednn import movement
from dovetail_onednn.convolution import conv2d, depthwise_conv2d
from dovetail_onednn.matrix import fully_connected, matmul
from dovetail_onednn.post_ops import absorbs
from dovetail_onednn.recurrent import gru, lstm

OPSET = "qti.aisw"


def onednn_kernels(backend: str) -> KernelRegistry:
    """Gives the kernels for ops of the standard op set.

    Args:
        backend: Name of the backend that they are for.
    """
    kernels = KernelRegistry(backend)
    kernels.register(OPSET, "Conv2d", absorbs=absorbs)(conv2d)
    kernels.register(OPSET, "DepthWiseConv2d", absorbs=absorbs)(depthwise_conv2d)
    kernels.register(OPSET, "FullyConnected", absorbs=absorbs)(fully_connected)
    kernels.register(OPSET, "MatMul", absorbs=absorbs)(matmul)
    kernels.register(OPSET, "Lstm")(lstm)
    kernels.register(OPSET, "Gru")(gru)
    kernels.register(OPSET, "Transpose")(movement.transpose)
    kernels.register(OPSET, "ChannelShuffle")(movement.channel_shuffle)
    kernels.register(OPSET, "Concat")(movement.concat)
    return kernels
