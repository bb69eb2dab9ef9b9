"""Facts of a definition that a schema cannot express, and that must be written as code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail_tools.op_definitions._model import (
    Definitions,
    Layout,
    OpDefinition,
    Parameter,
    Tensor,
)


@dataclass(frozen=True, slots=True)
class Remark:
    """A fact that is not expressed.

    Attributes:
        op: Name of the op.
        line: Line in the file.
        text: The fact.
    """

    op: str
    line: int
    text: str


def unexpressed(definitions: Definitions) -> list[Remark]:
    """Return the facts that the schemas of definitions do not express, in the file's order."""
    return sorted(
        (remark for op in definitions.ops for remark in _of(op)), key=lambda remark: remark.line
    )


def _of(op: OpDefinition) -> Iterator[Remark]:
    if op.uses_default_translation:
        text = "UseDefaultTranslation: importers decide whether a model can have the op"
        yield Remark(op.name, op.line, text)
    if op.code:
        yield Remark(op.name, op.line, f"code of the description: {op.code}")
    for what, parts in (("input", op.inputs), ("output", op.outputs)):
        for tensor in parts:
            for line, text in _tensor(tensor):
                yield Remark(op.name, line, f"{what} '{tensor.name}': {text}")
    for param in op.params:
        for line, text in _param(param):
            yield Remark(op.name, line, f"parameter '{param.name}': {text}")


def _tensor(tensor: Tensor) -> Iterator[tuple[int, str]]:
    yield from _common(tensor)
    if tensor.default:
        yield tensor.line, f"default: {tensor.default}"
    if tensor.is_static:
        yield tensor.line, "data must be known before the graph runs (IsStaticTensor)"


def _param(param: Parameter) -> Iterator[tuple[int, str]]:
    yield from _common(param)
    for backend in param.only_default:
        yield param.line, f"{backend} supports only the default"


def _common(part: Tensor | Parameter) -> Iterator[tuple[int, str]]:
    for constraint in part.constraints:
        yield constraint.line, f"constraint ({constraint.kind}): {constraint.text}"
    if len(part.by_backend) > 1 or (part.dtypes and part.by_backend):
        for backend, dtypes in part.by_backend.items():
            yield part.line, f"{backend} supports only {', '.join(d.name for d in dtypes)}"
    if (shape := part.shape) is not None:
        if shape.layout is not Layout.UNDEFINED:
            yield shape.line, f"layout {shape.layout.value}"
        if shape.text and shape.dims is None:
            yield shape.line, f"shape in words: {shape.text}"
