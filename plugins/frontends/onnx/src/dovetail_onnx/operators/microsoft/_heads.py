"""Heads of attention: (batch, rows, heads * size) to (batch, heads, rows, size), and back."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.ir import Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_opset.importing.layout import reshaped


def split_heads(op: OpContext, suffix: str, x: Tensor, heads: int) -> Tensor:
    """Return (batch, rows, heads * size) as (batch, heads, rows, size).

    Raises:
        FrontendError: It has another rank, or the heads do not divide the last dimension.
    """
    if len(x.shape) != 3 or heads < 1 or x.shape[2] % heads:
        raise op.invalid(f"{suffix} {x.shape} must be (batch, rows, {heads} heads * size)")
    batch, rows, width = x.shape
    apart = reshaped(op, f"{suffix}_apart", x, (batch, rows, heads, width // heads))
    return op.step(f"{suffix}_heads", "Transpose", [apart], perm=(0, 2, 1, 3))


def emit_joined(op: OpContext, x: Tensor) -> Tensor:
    """Emit (batch, heads, rows, size) as the node's output, (batch, rows, heads * size)."""
    batch, heads, rows, size = x.shape
    apart = op.step("rows", "Transpose", [x], perm=(0, 2, 1, 3))
    return op.emit("Reshape", [apart], spec=Spec(x.dtype, (batch, rows, heads * size)))


def cut(op: OpContext, suffix: str, x: Tensor, axis: int, sizes: Sequence[int]) -> list[Tensor]:
    """Return the pieces of these sizes along an axis.

    Raises:
        FrontendError: They do not add up to its size.
    """
    if len(x.shape) <= axis or sum(sizes) != x.shape[axis] or min(sizes) < 0:
        raise op.invalid(f"{suffix} {x.shape} cannot be split into pieces of {list(sizes)}")
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]
    names = ["" for _ in sizes]
    return list(op.step_all(suffix, "Split", [x], names, axis=axis, split_index=ends))


def with_past(op: OpContext, suffix: str, past: Tensor | None, x: Tensor, output: int) -> Tensor:
    """Return (batch, heads, rows, size) after its past; also as an output if one is requested.

    Raises:
        FrontendError: The past has another rank.
    """
    if past is not None and len(past.shape) != 4:
        raise op.invalid(f"past {suffix} {past.shape} must be (batch, heads, rows, size)")
    parts = [x] if past is None or past.shape[2] == 0 else [past, x]
    if len(parts) == 2:
        if op.is_output_used(output):
            return op.emit("Concat", parts, output=output, axis=2)
        return op.step(suffix, "Concat", parts, axis=2)
    return op.emit("Reshape", parts, output=output, spec=x.spec) if op.is_output_used(output) else x
