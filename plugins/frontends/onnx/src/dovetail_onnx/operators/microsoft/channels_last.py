"""Convolutions and normalizations of images whose channels are the last axis."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.errors import counted
from dovetail.ir import Shape
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, value_of
from dovetail_onnx.operators._parts import given, value
from dovetail_onnx.operators.convolution import CONV_ATTRIBUTES
from dovetail_onnx.operators.microsoft._fused import activated
from dovetail_onnx.operators.microsoft._table import MICROSOFT
from dovetail_opset.importing.constant import Value


@MICROSOFT.importer("NhwcConv", versions=(1,))
def nhwc_conv(op: OpContext) -> Value:
    """Emit a convolution of an image and filters whose channels are the last axis."""
    return _moved_back(_convolution(op, _moved_forward(value_of(op, 1)))).emit()


@MICROSOFT.importer("NhwcFusedConv", versions=(1,))
def nhwc_fused_conv(op: OpContext) -> Value:
    """Emit a convolution of such an image, plus a tensor of its shape, and an activation.

    Its filters are those of Conv.
    """
    y = _moved_back(_convolution(op, value_of(op, 1)))
    if op.has(3):
        y += op.value(3)
    numbers = op.attr.numbers("activation_params") or ()
    return activated(op, y, op.attr.text("activation", ""), numbers).emit()


def _convolution(op: OpContext, filters: Expr) -> Expr:
    image = _moved_forward(value_of(op, 0))
    return image.apply("Conv", filters, value(op, 2), **given(op, CONV_ATTRIBUTES))


@MICROSOFT.importer("GroupNorm", versions=(1,))
def group_norm(op: OpContext) -> Value:
    """Emit a GroupNorm, and Swish where the node has an activation."""
    return _normalized(op, value_of(op, 0)).emit()


@MICROSOFT.importer("SkipGroupNorm", versions=(1,))
def skip_group_norm(op: OpContext) -> Sequence[Value]:
    """Emit a GroupNorm of a sum, which is also the second output if that is used."""
    image = op.spec(0).shape
    total = value_of(op, 0) + value_of(op, 3).reshaped(_skip_shape(op, image, op.spec(3).shape))
    if op.has(4):
        bias = op.spec(4).shape
        if bias != (_channels(op, image),):
            raise op.invalid(f"bias {bias} does not match the input {image}")
        total += value_of(op, 4).reshaped(_by_channel(op, image, 1))
    added = total.emit(1 if op.is_output_used(1) else None)
    return [_normalized(op, Expr(op, added)).emit(), added]


def _skip_shape(op: OpContext, image: Shape, skip: Shape) -> Shape:
    """Return the shape in which what is added fits the image: all of it, or one row a batch."""
    row = _by_channel(op, image, image[0])
    if skip in ((image[0], _channels(op, image)), row):
        return row
    if skip != image:
        raise op.invalid(f"skip {skip} does not match the input {image}")
    return skip


def _normalized(op: OpContext, x: Expr) -> Expr:
    last = _is_channels_last(op)
    channels = _channels(op, x.shape)
    for i, name in ((1, "gamma"), (2, "beta")):
        if op.spec(i).shape != (channels,):
            raise op.invalid(
                f"{name} {op.spec(i).shape} does not match the {counted(channels, 'channel')}"
            )
    factors = [value_of(op, i).cast(x.dtype) for i in (1, 2)]
    y = (_moved_forward(x) if last else x).apply(
        "GroupNormalization",
        *factors,
        num_groups=op.attr.integer("groups", 0),
        epsilon=op.attr.number("epsilon", 1e-5),
    )
    activation = op.attr.integer("activation", 0)
    if activation not in (0, 1):
        raise op.invalid(f"unsupported activation {activation}; expected 0 (none) or 1 (SiLU)")
    if activation:
        y = y.apply("Swish")
    return _moved_back(y) if last else y


def _is_channels_last(op: OpContext) -> bool:
    return bool(op.attr.integer("channels_last", 1))


def _channels(op: OpContext, image: Shape) -> int:
    """Return the number of an image's channels.

    Raises:
        FrontendError: It is no image.
    """
    if len(image) != 4:
        raise op.invalid(f"input {image} must have 4 axes")
    return image[-1] if _is_channels_last(op) else image[1]


def _by_channel(op: OpContext, image: Shape, batch: int) -> Shape:
    channels = _channels(op, image)
    return (batch, 1, 1, channels) if _is_channels_last(op) else (batch, channels, 1, 1)


def _moved_forward(x: Expr) -> Expr:
    """Return a tensor with its last axis as the second."""
    rank = len(x.shape)
    return x.apply("Transpose", perm=[0, rank - 1, *range(1, rank - 1)]).named("nchw")


def _moved_back(x: Expr) -> Expr:
    """Return a tensor with its second axis as the last."""
    return x.apply("Transpose", perm=[0, *range(2, len(x.shape)), 1]).named("nhwc")
