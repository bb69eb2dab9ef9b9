"""What a definition says that a schema cannot hold: somebody must write it as code."""

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
    """Something that is not expressed.

    Attributes:
        op: The op that it is about.
        line: Where it stands.
        text: What it is.
    """

    op: str
    line: int
    text: str


def unexpressed(definitions: Definitions) -> list[Remark]:
    """Return what the schemas of some definitions do not say, in the file's order."""
    return sorted(
        (remark for op in definitions.ops for remark in _of(op)), key=lambda remark: remark.line
    )


def _of(op: OpDefinition) -> Iterator[Remark]:
    if op.uses_default_translation:
        text = "UseDefaultTranslation: whether a converter knows the op is its importers' affair"
        yield Remark(op.name, op.line, text)
    if op.code:
        yield Remark(op.name, op.line, f"the description's code: {op.code}")
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
        yield tensor.line, f"what it is where it is left out: {tensor.default}"
    if tensor.is_static:
        yield tensor.line, "that its data must be known before the graph runs (IsStaticTensor)"


def _param(param: Parameter) -> Iterator[tuple[int, str]]:
    yield from _common(param)
    for backend in param.only_default:
        yield param.line, f"that {backend} supports only its default"


def _common(part: Tensor | Parameter) -> Iterator[tuple[int, str]]:
    for constraint in part.constraints:
        yield constraint.line, f"constraint ({constraint.kind}): {constraint.text}"
    if len(part.by_backend) > 1 or (part.dtypes and part.by_backend):
        for backend, dtypes in part.by_backend.items():
            yield part.line, f"that {backend} has it as {', '.join(d.name for d in dtypes)} only"
    if (shape := part.shape) is not None:
        if shape.layout is not Layout.UNDEFINED:
            yield shape.line, f"the layout {shape.layout.value}"
        if shape.text and shape.dims is None:
            yield shape.line, f"a shape in words: {shape.text}"
