"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dovetail.ir import Array, DType, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, maximum, operand, rsqrt
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Constant, Value
from dovetail_opset.importing.layout import reshaped
from dovetail_opset.perms import to_first, to_last

# The smallest float32 of full precision: the minimum of a norm that divides.
_LEAST = float(np.finfo(np.float32).tiny)


@ONNX.importer("BatchNormalization", versions=(1, 6, 7, 9, 14, 15))
def batch_normalization(op: OpContext) -> Value:
    """Batchnorm: mean, variance, scale and shift folded into one weight and bias per channel.

    They are folded at import where all four are known.
    """
    training = op.attr.integer("training_mode", 0)
    if op.version < 7:
        training = not op.attr.integer("is_test", 0)
    if training or any(op.is_output_used(i) for i in range(1, 5)):
        raise op.unsupported(
            "unsupported training mode", hint="export the model for inference (model.eval())"
        )
    x, channels = op.spec(0), _channels(op)
    by_place = op.attr.integer("spatial", 1) == 0  # which version 9 gave up
    wanted = x.shape[1:] if by_place else (channels,)
    factors = [op.value(i) for i in range(1, 5)]
    for word, value in zip(("scale", "shift", "mean", "variance"), factors, strict=True):
        if value.shape != wanted:
            raise op.invalid(
                f"{word} has shape {value.shape}; for the input {x.shape} it must be {wanted}"
            )
    known = [value.values for value in factors if isinstance(value, Constant)]
    weight, bias = _folded(op, known) if len(known) == len(factors) else _computed(op)
    if by_place:
        return (operand(op, 0) * weight + bias).emit()
    if len(x.shape) == 1:
        return _of_row(op, weight, bias)
    return _by_channel(op, "Batchnorm", [weight, bias])


def _folded(op: OpContext, known: Sequence[Array]) -> tuple[Tensor, Tensor]:
    """Return weight and bias as constants."""
    scale, shift, mean, variance = (values.astype(np.float64) for values in known)
    weight = scale / np.sqrt(variance + op.attr.number("epsilon", 1e-5))
    dtype = op.spec(0).dtype
    bias = op.static("bias", shift - mean * weight, dtype)
    return op.static("weight", weight, dtype), bias


def _computed(op: OpContext) -> tuple[Tensor, Tensor]:
    """Return weight and bias as tensors that a run computes."""
    scale, shift, mean, variance = (operand(op, i) for i in range(1, 5))
    weight = scale * rsqrt(variance + op.attr.number("epsilon", 1e-5))
    bias = shift - mean * weight
    return weight.tensor, bias.tensor


def _of_row(op: OpContext, weight: Tensor, bias: Tensor) -> Tensor:
    """Emit the Batchnorm of (n,), which is n items of one channel."""
    x = op.tensor(0)
    column = reshaped(op, "column", x, (*x.shape, 1))
    y = op.step("by_channel", "Batchnorm", [column, weight, bias])
    return op.emit("Reshape", [y], spec=x.spec)


@ONNX.importer("InstanceNormalization", versions=(1, 6, 22))
def instance_normalization(op: OpContext) -> Tensor:
    """InstanceNorm over the spatial dimensions."""
    if len(op.spec(0).shape) < 3:
        raise op.invalid(f"input {op.spec(0).shape} has no spatial dimensions")
    epsilon = op.attr.number("epsilon", 1e-5)
    return _by_channel(op, "InstanceNorm", [op.tensor(1), op.tensor(2)], epsilon=epsilon)


@ONNX.importer("GroupNormalization", versions=(18, 21))
def group_normalization(op: OpContext) -> Tensor:
    """GroupNorm; before version 21 each group has one scale and shift for all its channels."""
    channels, groups = _channels(op), op.attr.integer("num_groups", 0)
    if groups < 1 or channels % groups:
        raise op.invalid(f"{channels} channels cannot be split into {groups} groups")
    factors = [op.tensor(1), op.tensor(2)]
    if op.version < 21:
        factors = [
            _repeated(op, i, word, channels // groups) for i, word in ((1, "scale"), (2, "shift"))
        ]
    epsilon = op.attr.number("epsilon", 1e-5)
    return _by_channel(op, "GroupNorm", factors, epsilon=epsilon, group=groups)


def _repeated(op: OpContext, i: int, word: str, times: int) -> Tensor:
    """Return a vector with each of its elements several times."""
    op.reserve_constant((*op.spec(i).shape, times))
    known = op.constant(i)
    if known is not None:
        return op.static(word, np.repeat(known, times), op.spec(i).dtype)
    places = np.repeat(np.arange(op.spec(i).shape[0], dtype=np.int32), times)
    indices = op.static(f"{word}_places", places, DType.INT_32)
    return op.step(word, "Gather", [op.tensor(i), indices], axis=0)


@ONNX.importer("LRN", versions=(1, 13))
def local_response_normalization(op: OpContext) -> Tensor:
    """Lrn, whose alpha is for the sum of squares, while ONNX's is for their mean."""
    _channels(op)
    size = op.attr.integer("size", 0)
    if size < 1:
        raise op.invalid(f"size must be above 0, got {size}")
    if size % 2 == 0:
        raise op.unsupported(f"unsupported even size {size}; expected an odd one")
    return _by_channel(
        op,
        "Lrn",
        [],
        radius=(size - 1) // 2,
        alpha=op.attr.number("alpha", 1e-4) / size,
        beta=op.attr.number("beta", 0.75),
        bias=op.attr.number("bias", 1.0),
    )


def _channels(op: OpContext) -> int:
    """Return the number of channels; of (n,) there is one."""
    shape = op.spec(0).shape
    if not shape:
        raise op.invalid("input is a scalar, which has no channels")
    return shape[1] if len(shape) > 1 else 1


def _by_channel(
    op: OpContext, op_type: str, factors: Sequence[Tensor | None], **params: Any
) -> Tensor:
    """Emit a channels-last op whose other inputs are vectors over the channels."""
    rank = len(op.spec(0).shape)
    if rank < 3:
        return op.emit(op_type, [op.tensor(0), *factors], **params)
    y = op.step(
        "channels_last",
        op_type,
        [op.arranged(0, to_last(rank)), *factors],
        source=(op.node.outputs[0], to_last(rank)),
        **params,
    )
    return op.emit("Transpose", [y], perm=to_first(rank))


@ONNX.importer("LayerNormalization", versions=(17,))
def layer_normalization(op: OpContext) -> Sequence[Value | None]:
    """LayerNorm over the last dimensions, from `axis` on; Moments where the statistics are used."""
    spec = op.spec(0)
    axis = op.axis(op.attr.integer("axis", -1), len(spec.shape))
    over, axes = spec.shape[axis:], list(range(axis, len(spec.shape)))
    epsilon = op.attr.number("epsilon", 1e-5)
    y = op.emit(
        "LayerNorm",
        [op.tensor(0), _spread(op, 1, "scale", over), _spread(op, 2, "shift", over)],
        epsilon=epsilon,
        axes=axes,
    )
    if not (op.is_output_used(1) or op.is_output_used(2)):
        return [y]
    return [y, *_statistics(op, axes, epsilon)]


def _statistics(op: OpContext, axes: list[int], epsilon: float) -> tuple[Tensor, Value | None]:
    """Emit the second and third output: the mean, and 1 over the deviation."""
    x = op.tensor(0)
    if x.dtype is not DType.FLOAT_32:
        raise op.unsupported(
            f"outputs mean and deviation are FLOAT_32, but the input is {x.dtype.name}",
            hint="cast the input to float",
        )
    names = [op.node.outputs[1], ""]
    mean, variance = op.step_all("moments", "Moments", [x], names, axes=axes, keep_dims=True)
    if not op.is_output_used(2):
        return mean, None
    return mean, rsqrt(Expr(op, variance) + epsilon).emit(2)


def _spread(op: OpContext, i: int, word: str, shape: tuple[int, ...]) -> Tensor | None:
    """Return scale or shift with exactly the normalized shape."""
    if not op.has(i) or op.spec(i).shape == shape:
        return op.optional(i)
    values = op.need_constant(i, word)
    op.reserve_constant(shape)
    try:
        spread = np.broadcast_to(values, shape)
    except ValueError as error:
        raise op.invalid(f"{word} {values.shape} does not broadcast to {shape}") from error
    return op.static(word, spread, op.spec(i).dtype)


@ONNX.importer("RMSNormalization", versions=(23,))
def rms_normalization(op: OpContext) -> Tensor:
    """RmsNorm over the last dimensions, from `axis` on."""
    shape = op.spec(0).shape
    axis = op.axis(op.attr.integer("axis", -1), len(shape))
    return op.emit(
        "RmsNorm",
        [op.tensor(0), _spread(op, 1, "scale", shape[axis:])],
        epsilon=op.attr.number("epsilon", 1e-5),
        axes=list(range(axis, len(shape))),
    )


@ONNX.importer("LpNormalization", versions=(1, 22))
def lp_normalization(op: OpContext) -> Value:
    """L2Norm, or the quotient by the sum of magnitudes; if the sum is 0, so is the result."""
    x, p = operand(op, 0), op.attr.integer("p", 2)
    axis = op.axis(op.attr.integer("axis", -1), len(x.shape))
    if p == 2:
        return x.step("L2Norm", axis=axis, epsilon=_LEAST).emit()
    if p != 1:
        raise op.invalid(f"p must be 1 or 2, got {p}")
    total = abs(x).step("ReduceSum", axes=[axis], keep_dims=True)
    smallest = np.finfo(np.float16).smallest_subnormal if x.dtype is DType.FLOAT_16 else _LEAST
    return (x / maximum(total, smallest)).emit()


@ONNX.importer("MeanVarianceNormalization", versions=(9, 13))
def mean_variance_normalization(op: OpContext) -> Tensor:
    """LayerNorm, whose epsilon is under the root, while ONNX adds 1e-9 to the root."""
    rank = len(op.spec(0).shape)
    given = op.attr.integers("axes") or (0, 2, 3)
    axes = sorted({op.axis(axis, rank) for axis in given})
    return op.emit("LayerNorm", [op.tensor(0)], axes=axes, epsilon=1e-18)
