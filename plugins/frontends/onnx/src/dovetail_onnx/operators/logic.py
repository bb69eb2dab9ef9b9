"""Comparisons, logic and selection."""

from __future__ import annotations

from dovetail.ir import Shape, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Importer
from dovetail_onnx.operators._broadcast import aligned
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Value


def _binary(op_type: str) -> Importer:
    return lambda op: op.emit(op_type, aligned(op))


for _name, _op_type, _versions in (
    ("And", "ElementWiseAnd", (1, 7)),
    ("Equal", "ElementWiseEqual", (1, 7, 11, 13, 19)),
    ("Greater", "ElementWiseGreater", (1, 7, 9, 13)),
    ("GreaterOrEqual", "ElementWiseGreaterEqual", (12, 16)),
    ("Less", "ElementWiseLess", (1, 7, 9, 13)),
    ("LessOrEqual", "ElementWiseLessEqual", (12, 16)),
    ("Or", "ElementWiseOr", (1, 7)),
    ("Xor", "ElementWiseXor", (1, 7)),
):
    ONNX.importer(_name, versions=_versions)(_binary(_op_type))


@ONNX.importer("Not", versions=(1,))
def logical_not(op: OpContext) -> Tensor:
    """ElementWiseNot."""
    return op.emit("ElementWiseNot", [op.tensor(0)])


@ONNX.importer("Where", versions=(9, 16))
def where(op: OpContext) -> Value:
    """ElementWiseSelect; an input that a known condition chooses as a whole is the result.

    JAX exports a variance so, with NaN for data without elements.
    """
    condition = op.constant(0)
    if condition is not None and condition.size and (condition == condition.flat[0]).all():
        chosen = 1 if condition.flat[0] else 2
        shapes = [op.spec(i).shape for i in range(3)]
        if all(_spreads(shape, shapes[chosen]) for shape in shapes):
            return op.value(chosen)
    return op.emit("ElementWiseSelect", [op.tensor(i) for i in range(3)])


def _spreads(shape: Shape, to: Shape) -> bool:
    """Return whether a tensor broadcasts to a shape."""
    pairs = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(n in (1, size) for n, size in pairs)
