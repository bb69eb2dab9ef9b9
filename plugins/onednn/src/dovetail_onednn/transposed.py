"""Transposed convolution with its bias and fused nodes.

oneDNN 3.2 is wrong or slow at what follows the sums of some transposed convolutions. Another
primitive then adds the bias and computes the fused nodes.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec.structs import replace

from dovetail.ir import Shape
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_onednn._api import Arg, BinaryAlgorithm
from dovetail_onednn.attributes import Slopes
from dovetail_onednn.convolution import convolution_step, ints, read_filters
from dovetail_onednn.elementwise import binary_description
from dovetail_onednn.folding import Folding
from dovetail_onednn.geometry import Geometry, convolution_desc
from dovetail_onednn.layouts import FLOAT_BYTES, images, transposed_filters, vector
from dovetail_onednn.post_ops import chain_of
from dovetail_onednn.precision import factor_type
from dovetail_onednn.primitives import PrimitiveDesc
from dovetail_onednn.steps import Arguments, execute, is_by_convolution, is_slow
from dovetail_onednn.threads import threads_for

_STRIDED = "brgconv_strided"
_BLOCK = 64  # channels of the result that are computed at once, at most
# Bytes of filters that fit into the second cache of every processor, half of 256 KiB. All of 28
# wrong results among 440 geometries had at least 1 MiB for a block, the size of that cache there.
_FITTING = 1 << 17


def transposed_convolution(call: KernelCall) -> Step | None:
    """Run TransposeConv1d to 3d and fused nodes as one or two primitives; see `Kernel.make`."""
    if not is_float32(call):
        return None
    geometry = transposed_geometry(call)
    if geometry.bias is not None or call.fused:
        kind = factor_type()
        ends = geometry.source.of_type(kind), geometry.target.of_type(kind)
        with convolution_desc(replace(geometry, bias=None), (), ends) as sums:
            if _fails_after(geometry, sums):
                return _in_two(call, geometry, sums)
    return convolution_step(call, geometry)


def _fails_after(geometry: Geometry, sums: PrimitiveDesc) -> bool:
    """Return whether the library is wrong or slow at what follows the sums.

    With strides, sums over the rows of a window may be computed in parts if the filters exceed a
    cache, and bias and post-ops then follow each part: 4x4 with stride 2 from 512 channels to 256,
    with a Relu, was wrong by 0.4 of the largest element. The code that runs as the gradient of a
    convolution computes what follows element by element: 18x20 by 32 channels with as many groups
    took 0.04 ms, with a bias 0.16, and with a Relu 3.3.
    """
    if is_by_convolution(sums):
        return True
    outputs, inputs, *window = geometry.weights.dims[-len(geometry.stride) - 2 :]
    size = math.prod(window) * inputs * min(outputs, _BLOCK) * FLOAT_BYTES
    return _STRIDED in sums.implementation and math.prod(window[:-1]) > 1 and size > _FITTING


def _in_two(call: KernelCall, geometry: Geometry, sums: PrimitiveDesc) -> Step | None:
    """Return the step of a convolution without a bias and of a function of its result.

    Args:
        call: The call.
        geometry: The convolution.
        sums: Its primitive without a bias; source and result are dense.

    Returns:
        The step; None if the library only has generic code for the function.
    """
    result, kind = call.outputs[0].shape, sums.desc(Arg.DESTINATION).type
    indices = [index for node in call.fused for index in node.operands if index is not None]
    has_bias = geometry.bias is not None
    added = result[-1:] if has_bias else ()
    folding = Folding.of(result, [added, *(call.spec(index).shape for index in indices)])
    full, other = folding.desc(result), folding.desc(added)
    chain = chain_of(call, folding.desc, kind)
    if any(isinstance(op, Slopes) for op in chain.ops):
        return None  # functions of two tensors have no such post-op
    algorithm = BinaryAlgorithm.ADD if has_bias else BinaryAlgorithm.MULTIPLY
    described = binary_description(algorithm, full.of_type(kind), other, chain)
    with threads_for(geometry.work), PrimitiveDesc(described) as function:
        if is_slow(function):
            return None
        first, last = Arguments(call, sums), Arguments(call, function)
        first.read(Arg.SOURCE, 0, geometry.source)
        read_filters(call, first, sums, geometry)
        first.write(Arg.DESTINATION, 0, geometry.target)
        last.write_after(first)
        if has_bias:
            last.read(Arg.OTHER, 2, other)
        else:
            last.constant(Arg.OTHER, call.constant(np.ones(1, np.float32)), other)
        last.read_chain(chain)
        return execute(call, first.work(), last.work())


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
