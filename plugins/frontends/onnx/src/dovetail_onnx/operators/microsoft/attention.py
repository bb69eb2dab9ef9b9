"""Attention of one sequence to itself, with the projections of its weights."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.ir import Shape, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import value_of
from dovetail_onnx.operators._parts import reject_attributes, reject_inputs, value
from dovetail_onnx.operators.microsoft._attended import attended
from dovetail_onnx.operators.microsoft._heads import cut, emit_joined, split_heads
from dovetail_onnx.operators.microsoft._masks import AttentionSizes, causal_bias, padding_bias
from dovetail_onnx.operators.microsoft._stored import integer_product, need_one
from dovetail_onnx.operators.microsoft._table import MICROSOFT
from dovetail_opset.importing.constant import Value
from dovetail_opset.importing.layout import reshaped

_FUSE_LESS = "export or fuse the model for MultiHeadAttention, or without fusing attention"


@MICROSOFT.importer("Attention", versions=(1,))
def attention(op: OpContext) -> Sequence[Tensor | None]:
    """MatMul for all projections, then products and Softmax for each head; a past is put before."""
    reject_attributes(op, {"do_rotary": 0, "past_present_share_buffer": 0}, _FUSE_LESS)
    reject_inputs(op, {6: "past_sequence_length"}, _FUSE_LESS)
    x, weights = op.spec(0).shape, op.spec(1).shape
    if len(x) != 3 or len(weights) != 2 or weights[0] != x[2]:
        raise op.invalid(f"input {x} and weights {weights} do not match")
    product = op.step("qkv", "MatMul", [op.tensor(0), op.tensor(1), op.optional(2)])
    return attended_to_itself(op, product, mask=3, past=4, bias=5)


@MICROSOFT.importer("QAttention", versions=(1,))
def quantized_attention(op: OpContext) -> Sequence[Tensor | None]:
    """Compute Attention after exact projections of integers."""
    reject_attributes(op, {"do_rotary": 0, "past_present_share_buffer": 0}, _FUSE_LESS)
    need_one(op, 3, "input_scale")
    need_one(op, 6, "input_zero_point")
    sums = integer_product(op, value_of(op, 0), value_of(op, 1), (6, 7))
    scales = value_of(op, 3) * op.value(4)
    product = sums * scales + op.value(2)
    return attended_to_itself(op, product.tensor, mask=5, past=8, bias=None)


def attended_to_itself(
    op: OpContext, product: Tensor, *, mask: int, past: int, bias: int | None
) -> Sequence[Tensor | None]:
    """Return the outputs of an attention after its projections.

    Args:
        op: The node.
        product: (batch, rows, all projections).
        mask: The number of the input that is the mask.
        past: The number of the input that is the past.
        bias: The number of the input that is added to the scores.

    Raises:
        FrontendError: The node's attributes or inputs do not fit.
    """
    if len(product.shape) != 3:
        raise op.invalid(f"input {op.spec(0).shape} must be (batch, rows, elements)")
    heads, width = op.attr.integer("num_heads", 0), product.shape[2]
    sizes = op.attr.integers("qkv_hidden_sizes") or (width // 3,) * 3
    if len(sizes) != 3 or sizes[0] != sizes[1]:
        raise op.invalid(
            f"qkv_hidden_sizes must be three numbers, the first two equal, got {sizes}"
        )
    pieces = cut(op, "projections", product, 2, sizes)
    names = ("query", "key", "value")
    query, key, values = (split_heads(op, n, p, heads) for n, p in zip(names, pieces, strict=True))
    if op.has(past):
        key, values = _after_past(op, op.tensor(past), key, values)
    present = _present(op, key, values) if op.is_output_used(1) else None
    masked = AttentionSizes(query.shape[0], query.shape[2], key.shape[2])
    biases: list[Value | None] = [value(op, bias)] if bias is not None else []
    if op.has(mask) and not _stands_for_none(op.spec(mask).shape, masked.keys):
        biases.append(padding_bias(op, mask, masked, query.dtype))
    if op.attr.integer("unidirectional", 0) and masked.queries > 1:
        biases.append(causal_bias(op, masked, query.dtype))
    return [emit_joined(op, attended(op, query, key, values, biases)), present]


def _stands_for_none(mask: Shape, keys: int) -> bool:
    """Return whether a mask is (batch, 1), which has no effect."""
    return len(mask) == 2 and mask[1] == 1 != keys


def _after_past(op: OpContext, past: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys and values after those of a past, (2, batch, heads, rows, size)."""
    batch, heads, _, size = key.shape
    shape = past.shape
    if key.shape != value.shape or shape[:3] != (2, batch, heads) or shape[4:] != (size,):
        raise op.invalid(f"past {shape} does not match keys {key.shape}, values {value.shape}")
    if shape[3] == 0:
        return key, value
    halves = cut(op, "past", past, 0, (1, 1))
    flat = [reshaped(op, "past_heads", half, shape[1:]) for half in halves]
    return (
        op.step("keys", "Concat", [flat[0], key], axis=2),
        op.step("values", "Concat", [flat[1], value], axis=2),
    )


def _present(op: OpContext, key: Tensor, value: Tensor) -> Tensor:
    """Emit the second output, (2, batch, heads, rows, size)."""
    if key.shape != value.shape:
        raise op.invalid(
            f"keys {key.shape} and values {value.shape} must have one shape for the present output"
        )
    both = [reshaped(op, "present_half", t, (1, *t.shape)) for t in (key, value)]
    return op.emit("Concat", both, output=1, axis=0)
