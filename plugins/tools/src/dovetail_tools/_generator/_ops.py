"""The module `ops` of a generated dist: each op as a class, as written by hand."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from dovetail_tools._generator._fields import choices_class, dtypes_of, field_lines
from dovetail_tools._generator._imports import TAKEN, imports
from dovetail_tools._generator._layout import Part, call, laid_out, sequence
from dovetail_tools._generator._names import Names, variable
from dovetail_tools._generator._templates import UNWRITTEN
from dovetail_tools._generator._text import WIDTH, docstring, literal, one_line, summary_of, width
from dovetail_tools.op_definitions import Definitions, OpDefinition, Parameter, Tensor, shape_of

_LONGEST_SOURCE = 70


def ops_module(definitions: Definitions, names: Names) -> list[str]:
    """Return the lines of the module."""
    named = call("OpPackage", literal(definitions.package), literal(definitions.version))
    package = laid_out(named, before="PACKAGE = ")
    classes = [line for op in definitions.ops for line in _op(op, definitions, names)]
    # the file imports no other one, so that it can be passed without installation (--op-packages)
    code = [*package, *classes, "", "", *UNWRITTEN.strip().splitlines()]
    head = docstring(f"The op package `{definitions.package}`.", [[_DESCRIPTION]], "")
    quiet = ["# ruff: noqa: D102 - the class documents `reference`"]
    if any(width(line) > WIDTH for line in classes):
        quiet.append("# ruff: noqa: E501 - a shape is one text")
    return [*head, "", *quiet, "", *imports(code), "", *code]


_DESCRIPTION = (
    "Schemas and shapes come from the definitions of the ops; `reference` of each op is to be "
    "written here. An op whose shapes need code has an `infer`, too."
)


def _op(op: OpDefinition, definitions: Definitions, names: Names) -> Iterator[str]:
    for param in op.params:
        if param.choices:
            yield from ("", "", *choices_class(names.choices(op, param), param))
    name = names.classes[op.name]
    yield from ("", "", f"@PACKAGE.op({literal(op.name)})", f"class {name}(DefinedOp):")
    yield from _docstring(op, definitions.package)
    yield ""
    yield from laid_out(_ports("In", op.inputs), "    ", before="inputs = ")
    yield from laid_out(_ports("Out", op.outputs), "    ", before="outputs = ")
    yield f"    source = {literal(source_of(op, definitions))}"
    if op.params:
        yield ""
    for param in op.params:
        yield from field_lines(param, names.choices(op, param))
    yield from ("", *_reference(op))


def source_of(op: OpDefinition, definitions: Definitions) -> str:
    """Return the source of an op: its first reference if that is short, else its definition."""
    for reference in op.references:
        text = one_line(", ".join(filter(None, reference)))
        if text and width(literal(text)) <= _LONGEST_SOURCE:
            return text
    file = one_line(definitions.file.replace("\\", "/").rpartition("/")[2])
    text = f"{file}, {op.name}"
    fits = file and width(literal(text)) <= _LONGEST_SOURCE
    return text if fits else f"the definition of {op.name}"


def _ports(kind: str, tensors: Sequence[Tensor]) -> Part:
    made = []
    for tensor in tensors:
        items: list[Part] = [literal(tensor.name)]
        items += [dtypes_of(tensor.all_dtypes)] if tensor.all_dtypes else []
        items += [] if tensor.is_mandatory else ["optional=True"]
        items += ["variadic=True"] if tensor.is_repeated else []
        items += [f"shape={literal(shape)}"] if (shape := shape_of(tensor)) else []
        made.append(call(kind, *items))
    return sequence(*made)


def _reference(op: OpDefinition) -> list[str]:
    items: list[Part] = ["self"]
    is_long = any(t.is_repeated for t in (*op.inputs, *op.outputs))
    if is_long:
        items += ["ins: Arrays", "outs: Specs"]
    else:
        taken = {*TAKEN, "ins", "outs"}
        for tensor in op.inputs:
            kind = "Array" if tensor.is_mandatory else "Array | None"
            items.append(f"{variable(tensor.name, taken)}: {kind}")
    result = "Array" if len(op.outputs) == 1 and not is_long else "list[Array]"
    head = laid_out(call("def reference", *items), "    ", after=f" -> {result}:")
    return [*head, f"        raise _unwritten({literal(op.name)})"]


# -- the docstring of the class ------------------------------------------------------------------


def _docstring(op: OpDefinition, package: str) -> list[str]:
    summary, rest = summary_of(op.description, f"The op `{op.name}` of `{package}`.")
    tensors = [_tensor(t) for t in (*op.inputs, *op.outputs)]
    params = [_param(p) for p in op.params]
    ends = [f"Formula: {op.code}"] if op.code else []
    ends += [f"Source: {', '.join(filter(None, reference))}." for reference in op.references]
    return docstring(summary, [[rest], tensors, params, ends], "    ")


def _tensor(tensor: Tensor) -> str:
    shape = _shape(tensor)
    said = [shape] if shape else []
    said += ["any number of tensors"] if tensor.is_repeated else []
    said += [] if tensor.is_mandatory else ["optional"]
    said += ["known before the graph runs"] if tensor.is_static else []
    left_out = f"By default: {tensor.default}" if tensor.default else ""
    return _entry(tensor, ", ".join(said), left_out)


def _shape(tensor: Tensor) -> str:
    rule = tensor.shape
    if rule is None:
        return ""
    if rule.dims is not None:
        terms = [ast.unparse(term) for term in rule.dims.terms]
        return f"({', '.join(terms)}{',' if len(terms) == 1 else ''})"
    words = "(...)" if rule.rank is None else f"rank {rule.rank}"
    return f"{words} ({rule.text})" if rule.text else words


def _param(param: Parameter) -> str:
    return _entry(param, "", "")


def _entry(part: Tensor | Parameter, said: str, more: str) -> str:
    demands = (c.text for c in part.constraints)
    sentences = [_ended(text) for text in (said, part.description, more, *demands) if text]
    return f"{part.name}: {' '.join(sentences)}" if sentences else ""


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
