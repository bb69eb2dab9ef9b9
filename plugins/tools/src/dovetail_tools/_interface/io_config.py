"""The file of `--io-config`: the YAML form of qairt-converter for inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec

from dovetail.errors import Problem
from dovetail.files.config_text import read_yaml_data
from dovetail.ir import Shape
from dovetail.typed import convert
from dovetail_tools._interface.form import Form, TypeName

_Sizes = str | int | list[int] | None


class Source(msgspec.Struct, kw_only=True):
    """A tensor in the model."""

    dtype: str | None = msgspec.field(default=None, name="DataType")
    layout: str | None = msgspec.field(default=None, name="Layout")
    shape: _Sizes = msgspec.field(default=None, name="Shape")


class Encoding(msgspec.Struct, rename="pascal", kw_only=True):
    """The wanted encoding."""

    scale: float | None = None
    offset: int | None = None


class Desired(msgspec.Struct, kw_only=True):
    """A tensor as the application wants it."""

    dtype: TypeName | None = msgspec.field(default=None, name="DataType")
    output_dtype: TypeName | None = msgspec.field(default=None, name="DType")
    layout: str | None = msgspec.field(default=None, name="Layout")
    shape: _Sizes = msgspec.field(default=None, name="Shape")
    optional: bool | None = msgspec.field(default=None, name="Optional")
    colors: str | None = msgspec.field(default=None, name="Color Conversion")
    encoding: Encoding | None = msgspec.field(default=None, name="QuantParams")


class Entry(msgspec.Struct, kw_only=True):
    """One input or output."""

    name: Annotated[str, msgspec.Meta(min_length=1)] = msgspec.field(name="Name")
    source: Source | None = msgspec.field(default=None, name="Src Model Parameters")
    desired: Desired | None = msgspec.field(default=None, name="Desired Model Parameters")


class Part(msgspec.Struct, kw_only=True):
    """An item of the ends of the graph."""

    inputs: list[str | int] | None = msgspec.field(default=None, name="Input Tensors")
    outputs: list[str | int] | None = msgspec.field(default=None, name="Output Tensors")


class IoFile(msgspec.Struct, kw_only=True):
    """The file."""

    graph: list[Part] | None = msgspec.field(default=None, name="Converted Graph")
    inputs: list[Entry] | None = msgspec.field(default=None, name="Input Tensor Configuration")
    outputs: list[Entry] | None = msgspec.field(default=None, name="Output Tensor Configuration")


@dataclass(slots=True)
class IoConfig:
    """The content of the file.

    Attributes:
        forms: Forms of tensors by name.
        shapes: Shapes of inputs by name.
        out_names: Tensors at which the model is cut; none to leave it whole.
    """

    forms: dict[str, Form] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    out_names: tuple[str, ...] = ()


def read_io_config(path: Path, problems: list[Problem]) -> IoConfig:
    """Return the forms and shapes in a file.

    Args:
        path: The file.
        problems: Contradictions in the file, and shapes that are none, are added.

    Raises:
        ConfigError: The file cannot be read, or does not have the form; lists every fault.
    """
    data: Any = read_yaml_data(path, texts=("Name",))
    found = convert({} if data is None else data, IoFile, where=str(path))
    parts = found.graph or ()
    config = IoConfig(out_names=tuple(str(n) for part in parts for n in part.outputs or ()))
    entries = [*_entries(found.inputs), *_entries(found.outputs)]
    for entry in entries:
        where = f"{path}: '{entry.name}'"
        if entry.name in config.forms:
            problems.append(Problem("the tensor occurs twice", where))
        source, desired = entry.source or Source(), entry.desired or Desired()
        encoding = desired.encoding or Encoding()
        dtype = desired.dtype or desired.output_dtype
        if desired.optional:
            problems.append(Problem("optional inputs and outputs are not supported", where))
        colors = (desired.colors.lower(), "bgr") if desired.colors else None
        config.forms[entry.name] = Form(
            source.layout,
            desired.layout,
            dtype,
            encoding.scale,
            encoding.offset,
            colors,
            stored_dtype=dtype,
        )
        for shape in _shapes(source, desired, where, problems):
            if config.shapes.setdefault(entry.name, shape) != shape:
                text = f"two shapes, {config.shapes[entry.name]} and {shape}; remove one"
                problems.append(Problem(text, where))
    for name in (str(name) for part in parts for name in part.inputs or ()):
        config.forms.setdefault(name, Form())  # nothing to do, but it must exist
    return config


def _shapes(
    source: Source, desired: Desired, where: str, problems: list[Problem]
) -> Iterator[Shape]:
    """Yield the shapes that an entry gives."""
    for side, sizes in (("Src", source.shape), ("Desired", desired.shape)):
        try:
            if sizes is not None:
                yield _shape(sizes)
        except ValueError:
            text = f"expected sizes such as 1,3,224,224, got '{sizes}'"
            problems.append(Problem(text, f"{where}: {side} Model Parameters: Shape"))


def _entries(entries: Iterable[Entry] | None) -> Iterable[Entry]:
    return entries or ()


def _shape(value: str | int | list[int]) -> Shape:
    if isinstance(value, int):
        return (value,)
    if isinstance(value, list):
        return tuple(value)
    return tuple(int(size) for size in value.strip("()[] ").split(","))
