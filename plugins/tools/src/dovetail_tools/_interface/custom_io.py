"""The file of `--custom-io`: a YAML list of inputs and outputs in the SDK's form."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from dovetail.errors import ConfigError, Problem
from dovetail.files.config_text import read_yaml_data
from dovetail.typed import convert
from dovetail_tools._interface.form import Form, TypeName


class Layout(msgspec.Struct, rename="pascal", kw_only=True):
    """Layouts of a tensor."""

    model: str | None = None
    custom: str | None = None


class QuantParam(msgspec.Struct, rename="pascal", kw_only=True):
    """The encoding of a tensor."""

    type: Literal["QNN_DEFINITION_DEFINED", "QNN_DEFINITION_UNDEFINED"] | None = None
    scale: float | None = None
    offset: int | None = None


class Entry(msgspec.Struct, kw_only=True):
    """One input or output."""

    name: Annotated[str, msgspec.Meta(min_length=1)] = msgspec.field(name="IOName")
    layout: Layout | None = msgspec.field(default=None, name="Layout")
    datatype: TypeName | None = msgspec.field(default=None, name="Datatype")
    quant_param: QuantParam | None = msgspec.field(default=None, name="QuantParam")


def read_custom_io(path: Path, problems: list[Problem]) -> dict[str, Form]:
    """Return the forms of tensors by name.

    Args:
        path: The file.
        problems: Contradictions in the file are added.

    Raises:
        ConfigError: The file cannot be read, or does not have the form; lists every fault.
    """
    data = read_yaml_data(path, texts=("IOName",))
    if not isinstance(data, list):
        raise ConfigError(
            "expected a list of inputs and outputs",
            where=str(path),
            hint="begin each with `- IOName: NAME`; --dump-custom-io-config-template writes one",
        )
    found: dict[str, Form] = {}
    for entry in convert(data, list[Entry], where=str(path)):
        if entry.name in found:
            problems.append(Problem("the tensor occurs twice", f"{path}: '{entry.name}'"))
        found[entry.name] = _form(entry)
        if _is_undefined(entry):
            text = "the encoding is QNN_DEFINITION_UNDEFINED, but has a scale or an offset"
            problems.append(Problem(text, f"{path}: '{entry.name}'"))
    return found


def _form(entry: Entry) -> Form:
    layout, quant = entry.layout or Layout(), entry.quant_param or QuantParam()
    form = Form(
        layout.model,
        layout.custom,
        entry.datatype,
        quant.scale,
        quant.offset,
        stored_dtype=entry.datatype,
    )
    if form.scale is not None and form.dtype is None:
        form.dtype = "uint8"
    return form


def _is_undefined(entry: Entry) -> bool:
    quant = entry.quant_param
    return (
        quant is not None
        and quant.type == "QNN_DEFINITION_UNDEFINED"
        and (quant.scale, quant.offset) != (None, None)
    )
