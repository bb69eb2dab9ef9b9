"""Constant folding: a node whose inputs are all known is computed at import.

ONNX's own reference evaluator computes it, so every operator and version means what ONNX says.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np
import onnx.defs
from msgspec.structs import replace
from onnx import GraphProto, TypeProto, helper, numpy_helper, shape_inference
from onnx.checker import ValidationError

from dovetail.errors import FrontendError
from dovetail.ir import Array, Shape
from dovetail_onnx._dtypes import DTYPES, ELEMENT_TYPES, like_onnx
from dovetail_onnx._effort import allows
from dovetail_onnx._four_bits import moves, output_type
from dovetail_onnx._grids import on_grids
from dovetail_onnx._source import SourceNode
from dovetail_opset.importing.budget import Budget
from dovetail_opset.importing.constant import MAX_BYTES, Constant

# Values of up to this many elements are used in shape inference: shapes, axes, pads.
_SMALL = 4096
# Results are kept if neither they nor the inputs, of which keys are copies, have more elements.
_MOST_KEPT = 64
# Not functions of their inputs alone, or converted without computing anything, or (the last ones)
# computed by their importers, which keep the grid.
_NOT_FOLDED = frozenset(
    (
        "RandomNormalLike",
        "RandomUniformLike",
        "Bernoulli",
        "Multinomial",
        "Dropout",
        "Identity",
        "QuantizeLinear",
        "DequantizeLinear",
    )
)
# Exceptions of the evaluator's Python code for inputs that do not match.
_FAILURES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
# Results by what they depend on.
Folded = dict[Hashable, list[Array]]
# Operators whose second input is a scalar or one element; the evaluator needs a scalar.
_ON_SCALARS = frozenset(("CumSum", "OneHot", "Trilu"))
# Operators that can be converted only by computing them at import.
_ONLY_FOLDED = frozenset(("ConstantOfShape", "Range", "MelWeightMatrix"))


def can_fold(node: SourceNode) -> bool:
    """Return whether a node may be computed at import once all its inputs are known."""
    return (
        node.domain == ""
        and any(node.inputs)
        and not node.has_subgraphs
        and node.op_type not in _NOT_FOLDED
    )


def fold(
    node: SourceNode,
    ins: dict[str, Constant],
    ir_version: int,
    budget: Budget,
    known: Folded,
) -> list[Constant] | None:
    """Compute a node.

    Args:
        node: One that may be folded.
        ins: Its inputs by name.
        ir_version: IR version of the model.
        budget: The limits of computation at import.
        known: Small results of nodes, which are not computed again: windowed attention that
            PyTorch traced has thousands of nodes for shapes, and a tenth as many different ones.

    Returns:
        Its outputs in order, or None if the evaluator has no such operator, the IR no type for
        a result, it takes more than is left of the budget, or it makes integers of 4 bits.

    Raises:
        FrontendError: The result would be too large, or the inputs do not go together.
    """
    packed = output_type(node, {name: value.packed for name, value in ins.items()})
    if packed is not None and not moves(node):
        return None  # releases of onnx convert numbers beyond 4 bits differently
    if _crops(node, ins):
        return None  # which the evaluator rejects
    key = _key(node, ins)
    found = None if key is None else known.get(key)
    if found is None:
        found = _computed(node, ins, ir_version, budget)
        if found is None:
            return None
        if key is not None and all(array.size <= _MOST_KEPT for array in found):
            known[key] = found
    return on_grids(node, ins, _constants(node, found, packed))


def _key(node: SourceNode, ins: dict[str, Constant]) -> Hashable | None:
    """Return all that a result depends on; None where that is large."""
    if any(constant.values.size > _MOST_KEPT for constant in ins.values()):
        return None
    values = {n: (c.dtype, c.packed, c.shape, c.values.tobytes()) for n, c in ins.items()}
    attributes = sorted(each.SerializeToString() for each in node.proto.attribute)
    return (
        *(node.op_type, node.opset, tuple(attributes)),
        *(tuple(values.get(name) for name in node.inputs), tuple(map(bool, node.outputs))),
    )


def _computed(
    node: SourceNode, ins: dict[str, Constant], ir_version: int, budget: Budget
) -> list[Array] | None:
    """Return the results of a node; None if that takes too much, or there is no such operator.

    Raises:
        FrontendError: As `fold`.
    """
    outs = _sizes(node, ins, ir_version)
    if outs is None or not allows(
        budget, node.proto, [c.shape for c in ins.values()], [shape for shape, _ in outs]
    ):
        return None
    made, read = sum(nbytes for _, nbytes in outs), sum(c.values.nbytes for c in ins.values())
    if not budget.has(made, read):
        if node.op_type in _ONLY_FOLDED:
            raise _too_large(node, f"would take {made} bytes more than all the others")
        return None
    return _evaluated(node, ins)


def _evaluated(node: SourceNode, ins: dict[str, Constant]) -> list[Array] | None:
    """Return the results of a node; None if the evaluator has no such operator.

    Raises:
        FrontendError: The inputs do not go together.
    """
    if node.op_type == "GatherElements" and (gathered := _gathered(node, ins)) is not None:
        return [gathered]
    # imported when a node is computed: this takes longer than the conversion of a small model
    from onnx.reference import ReferenceEvaluator

    try:
        evaluator = ReferenceEvaluator(_as_graph(node, list(ins)), opsets={"": node.opset})
    except ValueError as error:
        raise _uncomputed(node, error) from error
    except (RuntimeError, NotImplementedError, TypeError, LookupError):
        return None
    feeds = {name: like_onnx(constant) for name, constant in ins.items()}
    scalar = node.inputs[1] if node.op_type in _ON_SCALARS and len(node.inputs) > 1 else ""
    if scalar and feeds[scalar].size == 1:
        feeds[scalar] = feeds[scalar].reshape(())
    try:
        found: list[Array] = evaluator.run(None, feeds)  # type: ignore[assignment]
    except NotImplementedError:
        return None
    except _FAILURES as error:
        raise _uncomputed(node, error) from error
    return found


def _crops(node: SourceNode, ins: dict[str, Constant]) -> bool:
    """Return whether a node is a Pad that cuts off elements."""
    if node.op_type != "Pad":
        return False
    pads = next((list(a.ints) for a in node.proto.attribute if a.name in ("pads", "paddings")), [])
    if len(node.inputs) > 1 and node.inputs[1]:
        pads = ins[node.inputs[1]].values.reshape(-1).tolist()
    return min(pads, default=0) < 0


def _gathered(node: SourceNode, ins: dict[str, Constant]) -> Array | None:
    """Return the result of a GatherElements; None if its inputs do not go together.

    The evaluator wraps indices that are out of range, and fails for one row of many elements.
    """
    data, indices = (ins[name].values for name in node.inputs)
    axis = next((a.i for a in node.proto.attribute if a.name == "axis"), 0)
    if data.ndim != indices.ndim or not -data.ndim <= axis < data.ndim:
        return None
    size = data.shape[axis]
    if indices.size and (indices.min() < -size or indices.max() >= size):
        ends = f"{indices.min()} to {indices.max()}"
        why = f"indices range from {ends}, but there are {size} elements"
        raise _uncomputed(node, ValueError(why))
    index = list(np.ogrid[tuple(slice(count) for count in indices.shape)])
    index[axis] = np.where(indices < 0, indices + size, indices)
    try:
        found: Array = data[tuple(index)]
    except IndexError as error:
        raise _uncomputed(node, error) from error
    return found


def _uncomputed(node: SourceNode, error: Exception) -> FrontendError:
    return FrontendError(
        f"cannot compute the node from its constant inputs: {_first_line(error)}",
        where=node.where,
        hint="the model is wrong there; export it again",
    )


def _too_large(node: SourceNode, why: str) -> FrontendError:
    return FrontendError(
        f"the constant output {why}",
        where=node.where,
        hint="the model is damaged, or made to exhaust memory",
    )


def _as_graph(node: SourceNode, ins: list[str]) -> GraphProto:
    # without a version, a node would be read as one of the newest opset
    graph = GraphProto(name="fold", node=[node.proto])
    for name in ins:
        graph.input.add().name = name
    for name in filter(None, node.outputs):
        graph.output.add().name = name
    return graph


def _constants(node: SourceNode, found: list[Array], packed: int | None) -> list[Constant] | None:
    names = [name for name in node.outputs if name]
    try:
        by_name = {
            name: replace(Constant.of(_as_array(values), name), packed=packed)
            for name, values in zip(names, found, strict=True)
        }
    except (KeyError, AttributeError):
        return None
    return [by_name[name] for name in names]


def _as_array(values: Array) -> Array:
    array: Array = values if values.shape else values.reshape(())
    return array


def _sizes(
    node: SourceNode, ins: dict[str, Constant], ir_version: int
) -> list[tuple[Shape, int]] | None:
    """Return shapes and bytes of the outputs, as far as they are known before the computation.

    Return None if nothing bounds the evaluator's work: it computes operators of a version
    that has none, and resizes to no elements along axes of any size, which ONNX infers no shape
    for.
    """
    if node.op_type == "Range":  # ONNX requires scalars, but its own functions pass other shapes
        return [_range_size(node, ins)]
    found: list[tuple[Shape, int]] = []
    kinds = _inferred(node, ins, ir_version)
    if kinds is None:
        return None
    for kind in kinds.values():
        dims = kind.tensor_type.shape.dim
        if not all(dim.HasField("dim_value") for dim in dims):
            continue
        shape = tuple(dim.dim_value for dim in dims)
        dtype = DTYPES.get(kind.tensor_type.elem_type)
        nbytes = math.prod(shape) * (1 if dtype is None else dtype.storage.itemsize)
        if nbytes > MAX_BYTES or any(extent < 0 for extent in shape):
            raise _too_large(node, f"would have {math.prod(shape)} elements, of shape {shape}")
        found.append((shape, nbytes))
    return found if found or node.op_type != "Resize" else None


def _range_size(node: SourceNode, ins: dict[str, Constant]) -> tuple[Shape, int]:
    bounds = [ins[name].values for name in node.inputs if name]
    if len(bounds) != 3 or any(bound.size != 1 for bound in bounds):
        raise _uncomputed(node, ValueError("start, limit and delta must be single numbers"))
    start, limit, delta = (bound.reshape(()).item() for bound in bounds)
    try:
        count = max(0, math.ceil((limit - start) / delta))
    except (ArithmeticError, ValueError, TypeError) as error:  # a delta of 0, or not a number
        raise _uncomputed(node, error) from error
    nbytes = count * bounds[0].itemsize
    if nbytes > MAX_BYTES:
        raise _too_large(node, f"would have {count} elements")
    return (count,), nbytes


def _inferred(
    node: SourceNode, ins: dict[str, Constant], ir_version: int
) -> dict[str, TypeProto] | None:
    """Return the types of outputs whose shapes ONNX infers; None for operators that it lacks."""
    types = {
        name: helper.make_tensor_type_proto(ELEMENT_TYPES[c.dtype], c.shape)
        for name, c in ins.items()
    }
    small = {
        name: numpy_helper.from_array(like_onnx(c), name)
        for name, c in ins.items()
        if c.values.size <= _SMALL
    }
    try:
        schema = onnx.defs.get_schema(node.op_type, node.opset, "")
        found = shape_inference.infer_node_outputs(
            schema,
            node.proto,
            types,
            small,
            opset_imports=[helper.make_opsetid("", node.opset)],
            ir_version=ir_version,
        )
    except onnx.defs.SchemaError:
        return None
    except (ValidationError, shape_inference.InferenceError, RuntimeError, ValueError) as error:
        raise _uncomputed(node, error) from error
    return {name: kind for name, kind in found.items() if kind.tensor_type.HasField("shape")}


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
