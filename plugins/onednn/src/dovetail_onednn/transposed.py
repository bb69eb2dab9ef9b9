"""Transposed convolution with its bias and fused nodes."""

from __future__ import annotations

from dovetail.ir import Shape
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_onednn.convolution import convolution_step, ints
from dovetail_onednn.geometry import Geometry
from dovetail_onednn.layouts import images, transposed_filters, vector


def transposed_convolution(call: KernelCall) -> Step | None:
    """Run TransposeConv1d to 3d and fused nodes as one primitive; see `Kernel.make`."""
    return convolution_step(call, transposed_geometry(call)) if is_float32(call) else None


def transposed_geometry(call: KernelCall) -> Geometry:
    """Return the geometry of a call of TransposeConv1d to 3d."""
    op, source, weights = call.op, call.spec(0).shape, call.spec(1).shape
    target, axes = call.outputs[0].shape, len(source) - 2
    stride, before = ints(op.stride), ints(op.pad_amount)[::2]
    # only TransposeConv3d has dilation
    dilation = ints(getattr(op, "dilation", (1,) * axes))
    return Geometry(
        images(source),
        transposed_filters(weights, op.group),
        vector(target[-1]) if call.has(2) else None,
        images(target),
        stride,
        dilation,
        before,
        _after(source, weights, target, stride, dilation, before),
        is_transposed=True,
    )


def _after(
    source: Shape,
    weights: Shape,
    target: Shape,
    stride: Shape,
    dilation: Shape,
    before: Shape,
) -> Shape:
    """Return the padding after each axis: the op's, minus its output_padding."""
    spatial = zip(source[1:-1], weights[:-2], target[1:-1], stride, dilation, before, strict=True)
    return tuple(
        step * (inputs - 1) + (taps - 1) * apart + 1 - pad - outputs
        for inputs, taps, outputs, step, apart, pad in spatial
    )
