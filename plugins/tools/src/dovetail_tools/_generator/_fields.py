"""Params as the fields of a generated class."""

from __future__ import annotations

import enum
import keyword
from typing import Any

from dovetail.ir import DType
from dovetail.ops import REQUIRED
from dovetail_tools._generator._layout import Group, Part, array, call, laid_out, sequence
from dovetail_tools._generator._text import docstring, literal
from dovetail_tools.op_definitions import Parameter, param_field

_SHORT = {
    DType.UINT_32: "uint32",
    DType.INT_32: "int32",
    DType.FLOAT_32: "float32",
    DType.BOOL_8: "bool8",
}


def dtypes_of(dtypes: tuple[DType, ...], head: str = "") -> Group:
    """Return a tuple of types."""
    return sequence(*(f"DType.{dtype.name}" for dtype in dtypes), head=head)


def choices_class(name: str, param: Parameter) -> list[str]:
    """Return the class of an enumeration, with the name of `Names.choices`."""
    said = docstring(f"The choices of the param `{param.name}`.", (), "    ")
    if not any(_is_odd(choice) for choice in param.choices):
        members = [f"    {choice} = {i}" for i, choice in enumerate(param.choices)]
        return [f"class {name}(enum.IntEnum):", *said, "", *members]
    # names that a class body cannot assign
    members = [literal(choice) for choice in param.choices]
    listed = call("enum.IntEnum", literal(name), array(*members), "start=0")
    return laid_out(listed, before=f"{name} = ")


def field_lines(param: Parameter, choices: str) -> list[str]:
    """Return the line or lines that declare a param.

    Args:
        param: The param.
        choices: Name of its enumeration's class, if it has one.
    """
    made = _field(param, choices)
    return laid_out(made, "    ", before=f"{param.name} = ")


def value_code(param: Parameter, value: Any, choices: str) -> Part:
    """Return a value of a param as code."""
    if param.choices:
        name = param.choices[int(value)]
        return f"{choices}[{literal(name)}]" if _is_odd(name) else f"{choices}.{name}"
    return _nested(value.tolist()) if not param.is_scalar else literal(value)


def _field(param: Parameter, choices: str) -> Part:
    field = param_field(param)
    default: Part | None = None  # no default
    if field.default is None:
        default = "None"
    elif field.default is not REQUIRED:
        default = value_code(param, field.default, choices)
    own = field.dtypes[0]
    if field.default is None or (len(field.dtypes) > 1 and not _is_plain(param)):
        return _whole(param, default, choices)
    if param.choices:
        dtype = [] if own is DType.UINT_32 else [f"dtype=DType.{own.name}"]
        return call("choice", choices, *([default] if default else []), *dtype)
    if not param.is_scalar:
        dtype = [] if own is DType.UINT_32 else [f"dtype=DType.{own.name}"]
        return call("tensor", _shape(param), *([default] if default else []), *dtype)
    if len(field.dtypes) > 1 or own not in _SHORT:
        types = dtypes_of(field.dtypes, "dtypes=")
        return call("scalar", *([default] if default else []), types)
    return call(_SHORT[own], *([f"default={default}"] if default else []))


def _whole(param: Parameter, default: Part | None, choices: str) -> Group:
    """Return the long form of a field, for which no short form suffices."""
    field = param_field(param)
    options: list[Part] = []
    if not param.is_scalar:
        options += ["is_tensor=True", _with_head("shape=", _shape(param))]
        if default not in (None, "None") and default is not None:
            default = call("np.asarray", default, f"np.{field.dtypes[0].storage.name}")
    if param.choices:
        options.append(f"choices={choices}")
    kind = _python_type(param, choices) + (" | None" if default == "None" else "")
    return call(f"ParamField[{kind}]", dtypes_of(field.dtypes), default or "REQUIRED", *options)


def _is_plain(param: Parameter) -> bool:
    return param.is_scalar and not param.choices


def _python_type(param: Parameter, choices: str) -> str:
    if param.choices:
        return choices
    if not param.is_scalar:
        return "NDArray[Any]"
    kinds = {_kind(dtype) for dtype in param.all_dtypes}
    return kinds.pop() if len(kinds) == 1 else "Any"


def _kind(dtype: DType) -> str:
    if dtype is DType.STRING:
        return "str"
    if dtype is DType.BOOL_8:
        return "bool"
    return "float" if dtype.is_float else "int"


def _shape(param: Parameter) -> Part:
    shape = param_field(param).shape
    return "None" if shape is None else sequence(*(str(size) for size in shape))


def _with_head(head: str, part: Part) -> Part:
    return head + part if isinstance(part, str) else Group(head, part.brackets, part.items)


def _nested(value: Any) -> Part:
    if isinstance(value, list):
        return array(*map(_nested, value))
    return literal(value)


def _is_odd(choice: str) -> bool:
    return keyword.iskeyword(choice) or choice in dir(enum.IntEnum) or choice in dir(int)
