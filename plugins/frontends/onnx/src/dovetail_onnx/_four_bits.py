"""4-bit integers, which the IR stores as bytes: the nodes that read them and that write them."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import TensorProto

from dovetail.errors import UnsupportedOpError
from dovetail_onnx._attributes import Attributes
from dovetail_onnx._dtypes import PACKED, element_type_name
from dovetail_onnx._source import SourceNode

# Elements move unchanged from the first input to the output; unrolled loops over 4-bit tensors
# use Concat and Gather.
_MOVING = frozenset(
    (
        "Concat", "Flatten", "Gather", "Identity", "Pad", "Reshape", "Squeeze", "Transpose",
        "Unsqueeze",
    )
)  # fmt: skip
_READING = frozenset(
    (
        "Cast", "CastLike", "DequantizeLinear", "GatherBlockQuantized", "QuantizeLinear", "Shape",
        "Size",
    )
)  # fmt: skip
_SUPPORTING = _MOVING | _READING


def moves(node: SourceNode) -> bool:
    """Return whether a node's output consists of elements of its first input, uninterpreted."""
    return node.domain == "" and node.op_type in _MOVING


def check_reads(node: SourceNode, types: Mapping[str, int | None]) -> None:
    """Raise if a node reads 4-bit integers that its operator does not support.

    Args:
        node: The node.
        types: The element types of its inputs that are of 4 bits by name, None for the others.

    Raises:
        UnsupportedOpError: It reads some.
    """
    if node.domain in ("", "com.microsoft") and node.op_type in _SUPPORTING:
        return
    for name, code in types.items():
        if code is not None and not node.has_subgraphs:  # whose nodes are checked one by one
            raise UnsupportedOpError(
                f"unsupported element type {element_type_name(code)} of '{name}' for this operator",
                where=node.where,
                hint="dequantize it first with DequantizeLinear, or widen it with Cast",
            )


def output_type(node: SourceNode, types: Mapping[str, int | None]) -> int | None:
    """Return the element type of a node's output if that is of 4 bits, else None.

    Args:
        node: The node.
        types: As in `check_reads`.
    """
    code: int | None = None
    if moves(node):
        code = types.get(node.inputs[0]) if node.inputs else None
    elif node.op_type == "QuantizeLinear" and node.domain in ("", "com.microsoft"):
        by_zero = len(node.inputs) > 2 and node.inputs[2]
        code = types.get(node.inputs[2]) if by_zero else _number(node, "output_dtype")
    elif node.domain == "":
        code = _said(node, types)
    return code if code in PACKED else None


def _number(node: SourceNode, name: str) -> int:
    return Attributes(node.proto).integer(name, TensorProto.UNDEFINED)


def _said(node: SourceNode, types: Mapping[str, int | None]) -> int | None:
    match node.op_type:
        case "Cast":
            return _number(node, "to")
        case "CastLike":
            return types.get(node.inputs[1]) if len(node.inputs) > 1 else None
        case "ConstantOfShape":
            proto = Attributes(node.proto).tensor("value")
            return None if proto is None else int(proto.data_type)
    return None
