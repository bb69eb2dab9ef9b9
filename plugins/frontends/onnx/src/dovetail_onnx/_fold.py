"""Constant folding: a node whose inputs are all known is computed at import.

ONNX's own reference evaluator computes it, so every operator and version means what ONNX says.
"""

from __future__ import annotations

import math

import numpy as np
import onnx.defs
from onnx import GraphProto, NodeProto, TypeProto, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from dovetail.errors import FrontendError
from dovetail.ir import Array
from dovetail_onnx._dtypes import DTYPES, ELEMENT_TYPES, MAX_BYTES, Constant
from dovetail_onnx._source import SourceNode

# Values up to this many elements take part in shape inference: shapes, axes, pads.
_SMALL = 4096
# Not functions of their inputs alone, or (the last ones) converted without computing anything.
_NOT_FOLDED = frozenset(
    ("RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout", "Identity")
)
# What the evaluator's Python code raises on inputs that do not go together.
_FAILURES = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError)


def can_fold(node: SourceNode) -> bool:
    """Whether a node may be computed at import once all its inputs are known."""
    return (
        node.domain == ""
        and any(node.inputs)
        and not node.has_subgraphs
        and node.op_type not in _NOT_FOLDED
    )


def fold(node: SourceNode, ins: dict[str, Constant], ir_version: int) -> list[Constant] | None:
    """Computes a node.

    Args:
        node: One that may be folded.
        ins: Its inputs by name.
        ir_version: Of the model.

    Returns:
        Its outputs in order, or None where the evaluator has no such operator or the IR no type
        for a result.

    Raises:
        FrontendError: The result would be too large, or the inputs do not go together.
    """
    _check_size(node, ins, ir_version)
    try:
        evaluator = ReferenceEvaluator(_as_graph(node, list(ins)), opsets={"": node.opset})
    except (RuntimeError, NotImplementedError, TypeError, LookupError):
        return None
    feeds = {name: constant.like_onnx() for name, constant in ins.items()}
    try:
        with np.errstate(all="ignore"):  # inf and nan are results, as at run time
            found: list[Array] = evaluator.run(None, feeds)  # type: ignore[assignment]
    except NotImplementedError:
        return None
    except (*_FAILURES, ValueError) as error:
        raise FrontendError(
            f"its inputs are constant, but it cannot be computed: {_first_line(error)}",
            where=node.where,
            hint="the model is wrong there; export it again",
        ) from error
    return _constants(node, found)


def _as_graph(node: SourceNode, ins: list[str]) -> GraphProto:
    # a bare node would be taken to mean what it means in the newest opset
    graph = GraphProto(name="fold", node=[node.proto])
    for name in ins:
        graph.input.add().name = name
    for name in filter(None, node.outputs):
        graph.output.add().name = name
    return graph


def _constants(node: SourceNode, found: list[Array]) -> list[Constant] | None:
    names = [name for name in node.outputs if name]
    try:
        by_name = {
            name: Constant.of(_as_array(values), name)
            for name, values in zip(names, found, strict=True)
        }
    except (KeyError, AttributeError):
        return None
    return [by_name[name] for name in names]


def _as_array(values: Array) -> Array:
    array: Array = values if values.shape else values.reshape(())
    return array


def _check_size(node: SourceNode, ins: dict[str, Constant], ir_version: int) -> None:
    for name, kind in _inferred(node.proto, node.opset, ins, ir_version).items():
        dims = kind.tensor_type.shape.dim
        if all(dim.HasField("dim_value") for dim in dims):
            count = math.prod(dim.dim_value for dim in dims)
            dtype = DTYPES.get(kind.tensor_type.elem_type)
            if count * (1 if dtype is None else dtype.storage.itemsize) > MAX_BYTES:
                raise FrontendError(
                    f"its output '{name}' is constant and would have {count} elements",
                    where=node.where,
                    hint="the model is damaged, or made to exhaust memory",
                )


def _inferred(
    proto: NodeProto, opset: int, ins: dict[str, Constant], ir_version: int
) -> dict[str, TypeProto]:
    types = {
        name: helper.make_tensor_type_proto(ELEMENT_TYPES[c.dtype], c.shape)
        for name, c in ins.items()
    }
    small = {
        name: numpy_helper.from_array(c.like_onnx(), name)
        for name, c in ins.items()
        if c.values.size <= _SMALL
    }
    try:
        schema = onnx.defs.get_schema(proto.op_type, opset, "")
        found = shape_inference.infer_node_outputs(
            schema,
            proto,
            types,
            small,
            opset_imports=[helper.make_opsetid("", opset)],
            ir_version=ir_version,
        )
    except (onnx.defs.SchemaError, shape_inference.InferenceError, RuntimeError, ValueError):
        return {}  # the evaluator finds out what is wrong and says it better
    return {name: kind for name, kind in found.items() if kind.tensor_type.HasField("shape")}


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
