"""Single nodes against ONNX's schemas: number of inputs and outputs, attributes and their types."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import onnx.checker
import onnx.defs
from onnx import NodeProto

from dovetail.errors import Problem
from dovetail_onnx._control import CONTROL
from dovetail_onnx._source import SourceNode

# onnx's type stubs lack the definitions.
OpSchema = Any


class NodeChecker:
    """Checks nodes against the schemas of their operators.

    Args:
        ir_version: IR version of the model.
    """

    def __init__(self, ir_version: int) -> None:
        self._context = onnx.checker.C.CheckerContext()
        self._context.ir_version = ir_version
        self._opset = 0  # that of the context
        self._newest = onnx.defs.onnx_opset_version()

    def fault(self, node: SourceNode, *, converted: bool) -> Problem | None:
        """Return the fault of a node; None if it has none, or if that is unknown.

        Args:
            node: The node.
            converted: Whether there is an importer for it, or something else that reads it.
        """
        text = self._text(node, converted)
        return Problem(text, node.where, "export the model again") if text else None

    def _text(self, node: SourceNode, converted: bool) -> str:
        if node.domain:
            return ""
        if node.op_type == "Constant":  # its value is checked when it is read; copies take time
            return "" if len(node.outputs) == 1 else f"expected one output, got {len(node.outputs)}"
        if node.op_type in CONTROL:  # its subgraphs are checked when they are read
            return ""
        # an operator set newer than ONNX knows is read as the newest known one
        opset = min(node.opset, self._newest)
        schema = schema_of(node.op_type, opset)
        if schema is None or (converted and schema.deprecated):
            return ""  # the survey says that there is none; or it is converted all the same
        if wrong := breaks_inference(node.proto):
            return wrong
        if opset != self._opset:
            self._context.opset_imports, self._opset = {"": opset}, opset
        try:
            onnx.checker.check_node(node.proto, self._context)
        except UnicodeDecodeError:
            return "the node is invalid, and the explanation is not UTF-8: the file is damaged"
        except onnx.checker.ValidationError as error:
            return str(error).strip().splitlines()[0]
        return ""


def breaks_inference(node: NodeProto) -> str:
    """Return the fault that keeps a node from ONNX's own shape inference; empty if there is none.

    It splits into any number of parts that a Split declares, even if they fill the memory, and
    accepts a negative number of batch dimensions.
    """
    if node.op_type not in ("Split", "GatherND"):
        return ""
    for attribute in node.attribute:
        if (node.op_type, attribute.name) == ("Split", "num_outputs"):
            if attribute.i != len(node.output):
                return f"num_outputs is {attribute.i}, but the node has {len(node.output)} outputs"
        elif (node.op_type, attribute.name) == ("GatherND", "batch_dims") and attribute.i < 0:
            return f"batch_dims must not be negative, got {attribute.i}"
    return ""


@lru_cache(maxsize=1024)  # of a model's thousands of nodes, only few differ in this
def schema_of(op_type: str, opset: int) -> OpSchema | None:
    """Return the schema of ONNX's own operator in an operator set; None if it has none there."""
    try:
        return onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError:
        return None
