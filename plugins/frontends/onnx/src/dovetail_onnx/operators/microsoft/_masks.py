"""Masks of attention: numbers that are added to scores so that some keys are ignored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.ir import DType, Shape
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, value_of
from dovetail_onnx.operators._parts import constant
from dovetail_opset.importing.constant import Constant, Value

FILTER = -10000.0
# Well below the number for padding, and a float16: later keys are never attended to, even if all
# earlier ones are padding.
_AHEAD = -60000.0


@dataclass(frozen=True, slots=True)
class AttentionSizes:
    """The sizes of a mask.

    Attributes:
        batch: Number of sequences.
        queries: Rows that attend.
        keys: Rows that can be attended to, those of the past included.
    """

    batch: int
    queries: int
    keys: int

    @property
    def past(self) -> int:
        """The number of keys before the first query's own."""
        return max(self.keys - self.queries, 0)


def padding_bias(op: OpContext, i: int, sizes: AttentionSizes, dtype: DType) -> Value:
    """Return the numbers that a mask input adds to scores.

    It may be (batch, keys) or (batch, queries, keys), above 0 for keys to attend to; or positions:
    (batch,) ends, (2 * batch,) ends and then starts, (3 * batch + 2,) ends and then unused numbers.

    Args:
        op: The node.
        i: The input.
        sizes: The sizes.
        dtype: Data type of the scores.

    Raises:
        FrontendError: It has none of these shapes.
        UnsupportedOpError: It has four dimensions.
    """
    shape, batch = op.spec(i).shape, sizes.batch
    if len(shape) == 4:
        raise op.unsupported(
            f"unsupported mask of shape {shape}, with four dimensions",
            hint="pass it as (batch, queries, keys), or add it as attention_bias",
        )
    mask = value_of(op, i)
    if shape == (batch, sizes.keys):
        looks = _reshaped(op, mask, (batch, 1, 1, sizes.keys)) > 0
    elif shape == (batch, sizes.queries, sizes.keys):
        looks = _reshaped(op, mask, (batch, 1, *shape[1:])) > 0
    elif shape in ((batch,), (2 * batch,), (3 * batch + 2,)):
        looks = _between(op, mask, sizes)
    else:
        raise op.invalid(
            f"mask of shape {shape} does not match a batch of {batch} with {sizes.queries} "
            f"queries and {sizes.keys} keys"
        )
    filtered = op.attr.number("mask_filter_value", FILTER)
    values = [constant(op, f"mask_{v}", v, dtype) for v in (0.0, filtered)]
    return looks.apply("Where", *values).value


def causal_bias(
    op: OpContext, sizes: AttentionSizes, dtype: DType, *, window: int = -1
) -> Constant:
    """Return the numbers to add, (queries, keys), so that no query attends to a later key.

    Args:
        op: The node.
        sizes: The sizes.
        dtype: Data type of the scores.
        window: The number of keys attended to, the query's own being the last; below 1 for all.

    Raises:
        FrontendError: It would be too large.
    """
    least = -65504.0 if dtype is DType.FLOAT_16 else float(np.finfo(np.float32).min)
    ahead = max(min(_AHEAD, 6 * op.attr.number("mask_filter_value", FILTER)), least)

    def make() -> Constant:
        op.reserve_constant((sizes.queries, sizes.keys))
        own = np.arange(sizes.queries)[:, None] + sizes.past
        keys = np.arange(sizes.keys)
        hidden = keys > own
        if window > 0:
            hidden |= keys <= own - window
        return constant(op, "causal_bias", np.where(hidden, ahead, 0.0), dtype)

    # it is the largest constant, and the same for all layers
    shape = sizes.queries, sizes.keys
    return op.shared(("causal", shape, window, ahead, dtype), make)


def _between(op: OpContext, numbers: Expr, sizes: AttentionSizes) -> Expr:
    """Return the keys to attend to, (batch, 1, 1, keys): from the starts to before the ends."""
    batch = sizes.batch
    op.reserve_constant((2, sizes.keys))  # of 64 bits
    keys = Expr(op, constant(op, "keys", np.arange(sizes.keys), numbers.dtype))
    looks = keys < _numbers(op, numbers, 0, batch)
    if numbers.shape != (2 * batch,):
        return looks
    return looks & (keys >= _numbers(op, numbers, batch, 2 * batch))


def _numbers(op: OpContext, numbers: Expr, begin: int, end: int) -> Expr:
    bounds = [constant(op, "bound", [n], DType.INT_64) for n in (begin, end)]
    if numbers.shape != (end - begin,):
        numbers = numbers.apply("Slice", *bounds)
    return _reshaped(op, numbers, (end - begin, 1, 1, 1))


def _reshaped(op: OpContext, x: Expr, shape: Shape) -> Expr:
    return x.apply("Reshape", constant(op, "shape", shape, DType.INT_64))
