"""Normalizations."""

from __future__ import annotations

import math

from dovetail.runtime.plan import KernelCall, Step
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
    shape, axes = call.spec(0).shape, [int(axis) for axis in call.op.axes]
    first = len(shape) - len(axes)
    if not is_float32(call) or not axes or axes != list(range(first, len(shape))):
        return None
    width = math.prod(shape[first:])
    rows = dense((math.prod(shape[:first]), width))
    form = rows.of_type(input_type(call))
    description = Description(
        "layer_normalization_forward",
        (ENGINE, FORWARD_INFERENCE, form, form, None, float(call.op.epsilon), flags_of(call)),
        lambda: f"a {form.type.text} layer normalization of the rows of {form.key}",
    )
    with PrimitiveDesc(description) as desc:
        return norm_step(call, desc, rows, width)


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
    arguments = Arguments(call, desc)
    arguments.read(Arg.SOURCE, 0, form)
    for arg, index in ((Arg.SCALE, 1), (Arg.SHIFT, 2)):
        if call.has(index):
            arguments.read(arg, index, vector(width))
    arguments.write(Arg.DESTINATION, 0, form)
    return arguments.step(in_place=[(0, 0)])
