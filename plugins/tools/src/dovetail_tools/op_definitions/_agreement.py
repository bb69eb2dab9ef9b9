"""Contradictions between the parts of a file of op definitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from dovetail.errors import suggest_name
from dovetail_tools.op_definitions._model import OpDefinition, Parameter, ShapeRule, Tensor
from dovetail_tools.op_definitions._supplements import Supplement
from dovetail_tools.op_definitions._values import value_fault

Fault = tuple[int, str]


def disagreements(
    ops: Sequence[OpDefinition], supplements: Sequence[Supplement], unread: Set[str]
) -> Iterator[Fault]:
    """Yield the lines and texts of contradictions.

    Args:
        ops: The definitions.
        supplements: The supplements of backends.
        unread: Names of all ops of the file, including ops with faults.
    """
    by_name = {op.name: op for op in ops}
    for supplement in supplements:
        if supplement.op in by_name:
            yield from _supplement(by_name[supplement.op], supplement)
        elif supplement.op not in unread:
            hint = suggest_name(supplement.op, by_name)
            yield supplement.line, f"unknown op '{supplement.op}' of {supplement.backend}; {hint}"
    for op in ops:
        yield from _backend_specific(op)
        for param in op.params:
            yield from _default(param)


def _supplement(op: OpDefinition, supplement: Supplement) -> Iterator[Fault]:
    if op.backends and supplement.backend not in op.backends:
        yield (
            supplement.line,
            f"supplement of op '{op.name}' for {supplement.backend}, which is not a "
            f"<SupportedBackend> of the op (line {op.line})",
        )
    sides: dict[str, Sequence[Tensor | Parameter]] = {
        "in": op.inputs,
        "out": op.outputs,
        "param": op.params,
    }
    words = {"in": "input", "out": "output", "param": "parameter"}
    for (side, name), port in supplement.ports.items():
        known = {part.name: part for part in sides[side]}
        if name not in known:
            text = f"unknown {words[side]} '{name}' of op '{op.name}'; {suggest_name(name, known)}"
            yield port.line, text
            continue
        part = known[name]
        if (ranks := _ranks(part.shape, port.shape)) is not None:
            yield (
                port.line,
                f"{words[side]} '{name}' has rank {ranks[1]} on {supplement.backend}, but rank "
                f"{ranks[0]} in its definition (line {part.line})",
            )


def _ranks(one: ShapeRule | None, other: ShapeRule | None) -> tuple[int, int] | None:
    """Return the ranks of two shapes if they differ."""
    if one is None or other is None or one.rank is None or other.rank is None:
        return None
    return None if one.rank == other.rank else (one.rank, other.rank)


def _backend_specific(op: OpDefinition) -> Iterator[Fault]:
    parts: Sequence[Tensor | Parameter] = (*op.inputs, *op.outputs, *op.params)
    for part in parts:
        if part.dtypes or (isinstance(part, Parameter) and part.choices):
            continue
        if missing := [b for b in op.backends if b not in part.by_backend]:
            yield (
                part.line,
                f"data types of '{part.name}' are BACKEND_SPECIFIC, but no supplement has those of "
                f"{', '.join(missing)}",
            )


def _default(param: Parameter) -> Iterator[Fault]:
    if param.default and (fault := value_fault(param)) is not None:
        yield param.line, f"invalid default of '{param.name}': {fault}"
    if param.only_default and not param.default:
        backends = ", ".join(param.only_default)
        yield (
            param.line,
            f"{backends} supports only the default of '{param.name}', which is missing",
        )
    if param.choices and not param.is_scalar:
        yield param.line, f"the enumeration '{param.name}' must be a scalar"
