"""Normalizations."""

from __future__ import annotations

import functools
import math

import numpy as np
from msgspec.structs import replace

from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_onednn._api import FORWARD_INFERENCE, Arg, BinaryAlgorithm, NormalizationFlag
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.elementwise import Second, joined
from dovetail_onednn.layouts import dense, input_type, vector
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.steps import Arguments, is_slow


def batchnorm(call: KernelCall) -> Step | None:
    """Run Batchnorm and fused nodes as one primitive; see `Kernel.make`.

    It runs as a product followed by a sum. That is up to twice as fast as the library's batch
    normalization, which supports no post-op but Relu, and 30 times if channels fill no vector.
    """
    if not is_float32(call):
        return None
    sums = (Second(BinaryAlgorithm.ADD, 2),) if call.has(2) else ()
    return joined(call, 0, Second(BinaryAlgorithm.MULTIPLY, 1), sums)


def layer_norm(call: KernelCall) -> Step | None:
    """Run LayerNorm over the last axes in order; see `Kernel.make`."""
    rows = _rows(call)
    if rows is None:
        return None
    form = rows.of_type(input_type(call))
    with PrimitiveDesc(_norm_of_rows(form, call.op.epsilon, flags_of(call))) as desc:
        return norm_step(call, desc, rows, rows.dims[1])


def rms_norm(call: KernelCall) -> Step | None:
    """Run RmsNorm over the last axes in order; see `Kernel.make`.

    It runs as LayerNorm whose means are 0 and whose variances are means of squares, from NumPy.
    """
    rows = _rows(call)
    if rows is None:
        return None
    height, width = rows.dims
    flags = flags_of(call) | NormalizationFlag.GIVEN_STATISTICS
    with PrimitiveDesc(_norm_of_rows(rows, call.op.epsilon, flags)) as desc:
        if is_slow(desc):
            return None
        arguments, squares = _norm_arguments(call, desc, rows, width), call.scratch(height * 4)
        arguments.numbers(Arg.MEAN, np.zeros(height, np.float32))
        arguments.constant(Arg.VARIANCE, squares, desc.desc(Arg.VARIANCE))
        step = arguments.step(in_place=[(0, 0)])
    x, count = step.reads[0], np.asarray(width, np.float32)

    def bind(buffers: Buffers) -> Bound:
        values = buffers.array(x).reshape(height, width)
        means = buffers.array(squares).view(np.float32)
        add = functools.partial(np.vecdot, values, values, out=means)
        divide = functools.partial(np.divide, means, count, out=means)
        return call_sequence([add, divide, step.bind(buffers)])

    return replace(step, bind=bind)


def _rows(call: KernelCall) -> MemoryDesc | None:
    """Describe the rows that a norm is over; None if its axes are not the last ones in order."""
    shape, axes = call.spec(0).shape, [int(axis) for axis in call.op.axes]
    first = len(shape) - len(axes)
    if not is_float32(call) or not axes or axes != list(range(first, len(shape))):
        return None
    return dense((math.prod(shape[:first]), math.prod(shape[first:])))


def _norm_of_rows(rows: MemoryDesc, epsilon: float, flags: NormalizationFlag) -> Description:
    return Description(
        "layer_normalization_forward",
        (ENGINE, FORWARD_INFERENCE, rows, rows, None, float(epsilon), flags),
        lambda: f"a {rows.type.text} layer normalization of the rows of {rows.key}",
    )


def flags_of(call: KernelCall) -> NormalizationFlag:
    """Return which of gamma and beta a call has."""
    flags = NormalizationFlag(0)
    if call.has(1):
        flags |= NormalizationFlag.SCALE
    if call.has(2):
        flags |= NormalizationFlag.SHIFT
    return flags


def norm_step(call: KernelCall, desc: PrimitiveDesc, form: MemoryDesc, width: int) -> Step | None:
    """Return the step of a normalization that is one primitive; None if the library is slow.

    Args:
        call: Reads x, gamma and beta, writes the result.
        desc: Descriptor of the primitive, made with `flags_of` the call.
        form: Dense form of x and of the result.
        width: Elements of gamma and beta.
    """
    if is_slow(desc):
        return None
    return _norm_arguments(call, desc, form, width).step(in_place=[(0, 0)])


def _norm_arguments(
    call: KernelCall, desc: PrimitiveDesc, form: MemoryDesc, width: int
) -> Arguments:
    """Return the arguments of a normalization: x, gamma, beta and the result; see `norm_step`."""
    arguments = Arguments(call, desc)
    arguments.read(Arg.SOURCE, 0, form)
    for arg, index in ((Arg.SCALE, 1), (Arg.SHIFT, 2)):
        if call.has(index):
            arguments.read(arg, index, vector(width))
    arguments.write(Arg.DESTINATION, 0, form)
    return arguments
