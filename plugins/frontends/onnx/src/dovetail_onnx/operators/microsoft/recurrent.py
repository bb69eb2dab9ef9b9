"""Recurrent layers whose weights are stored as integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import Array, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._recurrence import read_layer
from dovetail_onnx.operators.microsoft._table import MICROSOFT
from dovetail_onnx.operators.recurrent import LSTM_FUNCTIONS, lstm_of

# The inputs that are scale and zero point of W and of R.
_CODINGS = {1: (8, 9), 2: (10, 11)}


@MICROSOFT.importer("DynamicQuantizeLSTM", versions=(1,))
def dynamic_quantize_lstm(op: OpContext) -> Sequence[Tensor | None]:
    """Lstm with real weights: inputs and states are not rounded at run time, as they are there."""
    return lstm_of(read_layer(op, 4, functions=LSTM_FUNCTIONS, weights=_real))


def _real(op: OpContext, i: int, what: str) -> Array:
    """Return the weights of an input that has them (directions, inputs, gates * hidden)."""
    stored = op.need_constant(i, what)
    if stored.ndim != 3:
        raise op.invalid(f"{what} must have rank 3, got shape {stored.shape}")
    scale, zero = (
        _coding(op, k, name, stored.shape)
        for k, name in zip(_CODINGS[i], ("scale", "zero point"), strict=True)
    )
    return ((stored.astype(np.float32) - zero) * scale).transpose(0, 2, 1)


def _coding(op: OpContext, i: int, what: str, stored: tuple[int, ...]) -> Array:
    """Return one number per direction, or per column of it, broadcastable to the weights."""
    directions, _, columns = stored
    values = op.need_constant(i, what).astype(np.float32)
    if values.shape not in ((directions,), (directions, columns)):
        raise op.invalid(
            f"{what} has shape {values.shape}; expected ({directions},) or "
            f"({directions}, {columns})"
        )
    return values.reshape(directions, 1, -1)
