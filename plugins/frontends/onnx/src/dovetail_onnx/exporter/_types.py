"""The types that ONNX's operators accept: necessary casts, and remaining mismatches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx import TensorProto, defs

from dovetail.errors import Problem
from dovetail_onnx.exporter._model import OPSET, PLACEHOLDER, ModelBuilder, OnnxNode

# A type that holds all values of a type that many operators do not accept.
_WIDER: dict[int, int] = {
    TensorProto.INT8: TensorProto.INT32,
    TensorProto.INT16: TensorProto.INT32,
    TensorProto.UINT8: TensorProto.INT32,
    TensorProto.UINT16: TensorProto.INT32,
    TensorProto.UINT32: TensorProto.INT64,
    TensorProto.BFLOAT16: TensorProto.FLOAT,
}


def taken_types(op_type: str, codes: Sequence[int]) -> list[int]:
    """Return the types to which inputs of an operator must be cast; their own if it accepts those.

    Args:
        op_type: The operator.
        codes: Element types of its inputs, UNDEFINED for one that is left out.
    """
    found = list(codes)
    formals = _formals(op_type, len(codes))
    for i, (code, formal) in enumerate(zip(codes, formals, strict=True)):
        wider = _WIDER.get(code)
        if wider is not None and _text(code) not in formal.types and _text(wider) in formal.types:
            found[i] = wider
    pairs = zip(formals, codes, found, strict=True)
    widened = {formal.type_str: new for formal, old, new in pairs if old != new}
    # inputs that share the type of a widened one are widened too
    return [
        widened.get(formal.type_str, code) if code != TensorProto.UNDEFINED else code
        for formal, code in zip(formals, found, strict=True)
    ]


def type_problems(builder: ModelBuilder) -> list[Problem]:
    """Return every node with an input of a type that its operator does not accept."""
    found: dict[Problem, None] = {}
    for node in builder.nodes:
        # one replaces a node whose problem is already reported; other domains have no schemas
        if node.op_type != PLACEHOLDER and not node.domain:
            found |= dict.fromkeys(_problems(node, builder))
    return list(found)


def _problems(node: OnnxNode, builder: ModelBuilder) -> Iterator[Problem]:
    for name, formal in zip(node.inputs, _formals(node.op_type, len(node.inputs)), strict=True):
        code = builder.types[name]
        if name and _text(code) not in formal.types:
            yield Problem(
                f"ONNX's {node.op_type} does not take {TensorProto.DataType.Name(code)}",
                where=node.where,
            )


def _formals(op_type: str, count: int) -> list[defs.OpSchema.FormalParameter]:
    inputs = defs.get_schema(op_type, OPSET).inputs
    return [inputs[min(i, len(inputs) - 1)] for i in range(count)]


def _text(code: int) -> str:
    return f"tensor({TensorProto.DataType.Name(code).lower()})"
