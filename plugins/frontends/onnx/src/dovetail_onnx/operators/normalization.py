"""Normalizations."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._layout import to_first, to_last
from dovetail_onnx.operators._table import ONNX


@ONNX.importer("BatchNormalization", versions=(7, 9, 14, 15))
def batch_normalization(op: OpContext) -> Tensor:
    """Batchnorm: mean, variance, scale and shift folded into one weight and bias per channel."""
    if op.attr.integer("training_mode", 0) or any(op.wants(i) for i in range(1, 5)):
        raise op.refuse(
            "it is in training mode", hint="export the model for inference (model.eval())"
        )
    if op.attr.integer("spatial", 1) == 0:
        raise op.refuse("its attribute spatial is 0; only statistics by channel can be converted")
    spec = op.spec(0)
    rank = len(spec.shape)
    if rank < 2:
        raise op.invalid(f"its input {spec.shape} has no channels")
    weight, bias = _folded(op, spec.shape[1])
    statics = [op.static("weight", weight, spec.dtype), op.static("bias", bias, spec.dtype)]
    if rank == 2:
        return op.emit("Batchnorm", [op.tensor(0), *statics])
    name = op.node.outputs[0]
    y = op.step(
        "channels_last",
        "Batchnorm",
        [op.arranged(0, to_last(rank)), *statics],
        source=(name, to_last(rank)),
    )
    return op.emit("Transpose", [y], perm=to_first(rank))


def _folded(op: OpContext, channels: int) -> tuple[Array, Array]:
    words = ("scale", "shift", "mean", "variance")
    found = [op.need_constant(i, word) for i, word in enumerate(words, 1)]
    for word, values in zip(words, found, strict=True):
        if values.shape != (channels,):
            raise op.invalid(f"its {word} has shape {values.shape}, its input {channels} channels")
    scale, shift, mean, variance = (values.astype(np.float64) for values in found)
    with np.errstate(all="ignore"):  # a variance below 0 gives NaN, as at run time
        weight = scale / np.sqrt(variance + op.attr.number("epsilon", 1e-5))
    return weight, shift - mean * weight


@ONNX.importer("LayerNormalization", versions=(17,))
def layer_normalization(op: OpContext) -> Tensor:
    """LayerNorm over the last dimensions, from `axis` on."""
    if op.wants(1) or op.wants(2):
        raise op.refuse("its outputs for training, mean and deviation, cannot be converted")
    spec = op.spec(0)
    axis = op.axis(op.attr.integer("axis", -1), len(spec.shape))
    over = spec.shape[axis:]
    return op.emit(
        "LayerNorm",
        [op.tensor(0), _spread(op, 1, "scale", over), _spread(op, 2, "shift", over)],
        epsilon=op.attr.number("epsilon", 1e-5),
        axes=list(range(axis, len(spec.shape))),
    )


def _spread(op: OpContext, i: int, word: str, shape: tuple[int, ...]) -> Tensor | None:
    """Gives scale or shift with exactly the normalized shape."""
    if not op.has(i) or op.spec(i).shape == shape:
        return op.optional(i)
    values = op.need_constant(i, word)
    try:
        spread = np.broadcast_to(values, shape)
    except ValueError as error:
        raise op.invalid(f"its {word} {values.shape} does not broadcast to {shape}") from error
    return op.static(word, spread, op.spec(i).dtype)
