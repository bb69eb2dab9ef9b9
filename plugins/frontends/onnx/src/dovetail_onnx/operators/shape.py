"""Changes of shape and order. Shapes are static, so every change of shape is a Reshape."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dovetail.ir import Shape, Spec
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Value


def _reshape(op: OpContext, shape: Shape) -> Value:
    x = op.spec(0)
    if math.prod(shape) != math.prod(x.shape):
        raise op.invalid(f"{x.shape} cannot be reshaped to {shape}")
    if shape == x.shape:
        return op.value(0)
    return op.emit("Reshape", [op.tensor(0)], spec=Spec(x.dtype, shape))


@ONNX.importer("Reshape", versions=(5, 13, 14, 19, 21, 23, 24, 25))
def reshape(op: OpContext) -> Value:
    """Reshape; 0 copies a size (unless allowzero), -1 is inferred."""
    x, wanted = op.spec(0).shape, list(op.need_ints(1, "shape"))
    if x and wanted:
        wanted[0] = op.rebatched(wanted[0], x[0])
    if not op.attr.integer("allowzero", 0):
        for i, extent in enumerate(wanted):
            if extent == 0 and i >= len(x):
                raise op.invalid(f"shape {wanted} copies dimension {i}, which {x} does not have")
            wanted[i] = x[i] if extent == 0 else extent
    if wanted.count(-1) > 1 or any(extent < -1 for extent in wanted):
        raise op.invalid(f"invalid shape {wanted}")
    if -1 in wanted:
        rest = math.prod(extent for extent in wanted if extent != -1)
        if rest == 0 or math.prod(x) % rest:
            raise op.invalid(f"{x} cannot be reshaped to {wanted}")
        wanted[wanted.index(-1)] = math.prod(x) // rest
    return _reshape(op, tuple(wanted))


@ONNX.importer("Flatten", versions=(1, 9, 11, 13, 21, 23, 24, 25))
def flatten(op: OpContext) -> Value:
    """Reshape to a matrix."""
    x, axis = op.spec(0).shape, op.attr.integer("axis", 1)
    if not -len(x) <= axis <= len(x):
        raise op.invalid(f"axis {axis} is out of range for rank {len(x)}")
    axis += len(x) if axis < 0 else 0
    return _reshape(op, (math.prod(x[:axis]), math.prod(x[axis:])))


def _axes(op: OpContext) -> tuple[int, ...] | None:
    """Return axes from the attribute of old versions or the input of new ones."""
    if op.version >= 13:
        return op.need_ints(1, "axes") if op.has(1) else None
    return op.attr.integers("axes")


@ONNX.importer("Squeeze", versions=(1, 11, 13, 21, 23, 24, 25))
def squeeze(op: OpContext) -> Value:
    """Reshape without dimensions of size 1."""
    x, given = op.spec(0).shape, _axes(op)
    if given is None:
        return _reshape(op, tuple(extent for extent in x if extent != 1))
    axes = {op.axis(axis, len(x)) for axis in given}
    if any(x[axis] != 1 for axis in axes):
        raise op.invalid(f"axes {given} of {x} must all have size 1")
    return _reshape(op, tuple(extent for i, extent in enumerate(x) if i not in axes))


@ONNX.importer("Unsqueeze", versions=(1, 11, 13, 21, 23, 24, 25))
def unsqueeze(op: OpContext) -> Value:
    """Reshape with new dimensions of size 1."""
    x, given = op.spec(0).shape, _axes(op)
    if given is None:
        raise op.invalid("missing axes")
    rank = len(x) + len(given)
    axes = {op.axis(axis, rank) for axis in given}
    if len(axes) < len(given):
        raise op.invalid(f"duplicate axis in axes {given}")
    extents = iter(x)
    return _reshape(op, tuple(1 if i in axes else next(extents) for i in range(rank)))


@ONNX.importer("Transpose", versions=(1, 13, 21, 23, 24, 25))
def transpose(op: OpContext) -> Value:
    """Transpose; without perm all axes are reversed."""
    rank = len(op.spec(0).shape)
    perm = op.attr.integers("perm")
    perm = tuple(reversed(range(rank))) if perm is None else perm
    if sorted(perm) != list(range(rank)):
        raise op.invalid(f"perm {perm} is not a permutation of {rank} axes")
    if perm == tuple(range(rank)):
        return op.value(0)
    return op.emit("Transpose", [op.tensor(0)], perm=perm)


@ONNX.importer("Concat", versions=(4, 11, 13))
def concat(op: OpContext) -> Value:
    """Concat."""
    axis = op.axis(op.attr.integer("axis", 0), len(op.spec(0).shape))
    if op.count == 1:
        return op.value(0)
    return op.emit("Concat", [op.tensor(i) for i in range(op.count)], axis=axis)


@ONNX.importer("Split", versions=(2, 11, 13, 18))
def split(op: OpContext) -> Sequence[Value]:
    """Split, by given sizes or into equal parts."""
    x = op.spec(0).shape
    axis = op.axis(op.attr.integer("axis", 0), len(x))
    sizes = _sizes(op, x[axis])
    if len(sizes) != len(op.node.outputs) or sum(sizes) != x[axis] or min(sizes) < 0:
        raise op.invalid(
            f"sizes {sizes} do not divide {x[axis]} elements among {len(op.node.outputs)} outputs"
        )
    if len(sizes) == 1:
        return [op.value(0)]
    return op.emit_all("Split", [op.tensor(0)], axis=axis, split_index=np.cumsum(sizes)[:-1])


def _sizes(op: OpContext, extent: int) -> tuple[int, ...]:
    if op.version >= 13 and op.has(1):
        return op.need_ints(1, "sizes")
    if (given := op.attr.integers("split")) is not None:
        return given
    count = op.attr.integer("num_outputs", len(op.node.outputs))
    if count != len(op.node.outputs):
        raise op.invalid(f"num_outputs is {count}, but the node has {len(op.node.outputs)} outputs")
    if op.version < 18 and extent % count:
        raise op.invalid(f"{extent} elements do not divide into {count} equal parts")
    each = -(-extent // count)  # since version 18 the last part may be smaller
    return (*(each,) * (count - 1), extent - each * (count - 1))
