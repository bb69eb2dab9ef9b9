"""Operators composed of ONNX's own, which their importers convert, and of arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dovetail.ir import DType, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx._fold import can_fold, fold
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.constant import Constant, Value

# The IR version of onnx's newest files; only folding needs it.
_IR_VERSION = 10


def apply_operator(
    op: OpContext,
    suffix: str,
    op_type: str,
    inputs: Sequence[Value | None],
    *,
    version: int = 0,
    output: int | None = None,
    **attributes: Any,
) -> Value:
    """Apply one of ONNX's own operators to values; at import if all of them are constants.

    Args:
        op: The node that it is a part of.
        suffix: Names it, after the node's name.
        op_type: The operator.
        inputs: Its inputs, None for one that is left out.
        version: Version of its schema, by default the newest that is known.
        output: Index of the node's output that it writes; None for none.
        attributes: Its attributes; None leaves one out.
    """
    version = version or ONNX.versions(op_type)[-1]
    part = op.part(suffix, op_type, version, inputs, output=output, **attributes)
    given = {name: x for name, x in zip(part.node.inputs, inputs, strict=True) if x is not None}
    known = {name: x for name, x in given.items() if isinstance(x, Constant)}
    if len(known) == len(given) and can_fold(part.node):
        folded = fold(part.node, known, _IR_VERSION, op.budget, {})
        if folded:
            return folded[0]
    importer = ONNX.find(op_type, version)
    if importer is None:
        raise AssertionError(f"no importer of version {version} of {op_type}")
    result = importer(part)
    first = result if isinstance(result, Tensor | Constant | np.ndarray) else result[0]
    if first is None:
        raise AssertionError(f"the importer of {op_type} returned nothing")
    return Constant.of(first, part.node.name) if isinstance(first, np.ndarray) else first


def constant(op: OpContext, suffix: str, values: Any, dtype: DType) -> Constant:
    """Return known values of a type, named after the node.

    Raises:
        FrontendError: The type cannot hold them.
    """
    held = np.float32 if dtype is DType.BFLOAT_16 else dtype.storage
    made = np.asarray(np.asarray(values), held)
    if not dtype.is_float and not np.array_equal(made, values):
        raise op.invalid(f"constant {values} does not fit {dtype.name}")
    return Constant(made, dtype, f"{op.node.name}.{suffix}")


def value(op: OpContext, i: int) -> Value | None:
    """Return an input, as a tensor or a constant; None if it is omitted."""
    return op.value(i) if op.has(i) else None


def reject_inputs(op: OpContext, names: Mapping[int, str], hint: str) -> None:
    """Raise if a node has one of these inputs.

    Args:
        op: The node.
        names: Names of the inputs, by number.
        hint: What to do.

    Raises:
        UnsupportedOpError: It has some; the message lists them.
    """
    given = [f"{name} ('{op.node.inputs[i]}')" for i, name in names.items() if op.has(i)]
    if given:
        raise op.unsupported(f"unsupported input {' and '.join(given)}", hint)


def reject_attributes(op: OpContext, neutral: Mapping[str, int | str], hint: str) -> None:
    """Raise if a node has one of these attributes with another value than the neutral one.

    Args:
        op: The node.
        neutral: The values that have no effect, by attribute.
        hint: What to do.

    Raises:
        UnsupportedOpError: It has some; the message lists them.
    """
    found: list[str] = []
    for name, nothing in neutral.items():
        getter = op.attr.text if isinstance(nothing, str) else op.attr.integer
        given = getter(name, nothing)  # type: ignore[arg-type]
        if given != nothing:
            found.append(f"{name} = {given}")
    if found:
        raise op.unsupported(f"unsupported attribute {' and '.join(found)}", hint)


def given(op: OpContext, names: Sequence[str]) -> dict[str, Any]:
    """Return the named attributes that the node has, to pass them on."""
    found = op.attr.plain()
    return {name: found[name] for name in names if name in found}
