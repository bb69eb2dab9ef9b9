"""Reading of `X.cpp`, with its weights in `X.bin`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from dovetail.csource import Value
from dovetail.csource.structs import PARAM, TENSOR, struct_fields
from dovetail.errors import DovetailError, FrontendError, Problem
from dovetail.ir import Blob, DType, Graph, Param, Tensor, TensorKind
from dovetail_qnn._assembly import FileGraph, FileNode, assemble
from dovetail_qnn._cpp_source import Call, CppSource, Function, calls_in
from dovetail_qnn._cpp_values import TensorReader, as_int, as_text, read_cpp_scalar
from dovetail_qnn._extras import NOTHING, Extras, read_extras
from dovetail_qnn._weights import attach_weights, find_weights

# With any prefix: `--overwrite_model_prefix` of the converters replaces the usual one.
ENTRY = b"_composeGraphs"
_HEAD = 1 << 16
_GRAPH_NAME = 3  # its position among the arguments of `initialize`


def looks_like_cpp_model(path: Path) -> bool:
    """Return whether a file is C++ source that uses the models of QNN's converters."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    return b"QnnModel.hpp" in head and b"#include" in head


@dataclass(slots=True)
class _Model:
    """A model of the file, as far as its calls are read."""

    name: str = ""
    tensors: list[Tensor] = field(default_factory=list)
    nodes: list[FileNode] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    omitted: set[str] = field(default_factory=set)


def read_cpp_model(path: Path) -> tuple[Graph, ...]:
    """Return the graphs of a file.

    Raises:
        FrontendError: The file, or that of its weights, has faults; all of a graph are listed.
    """
    source = CppSource(path)
    entry = next((f for name, f in source.functions.items() if name.endswith(ENTRY)), None)
    if entry is None:
        raise FrontendError(
            f"not a network of QNN's converters: no function 'QnnModel{ENTRY.decode()}'",
            where=str(path),
            hint="pass the file MODEL.cpp that a converter wrote",
        )
    extras = _extras(source)
    models: dict[bytes, _Model] = {}
    for function, variable, call in calls_in(source, entry):
        model = models.setdefault(variable, _Model())
        try:
            _METHODS.get(call.name, _ignore)(source, function, call, model)
        except (ValueError, DovetailError) as error:
            model.problems.append(
                Problem(getattr(error, "message", str(error)), source.where(call))
            )
    if not models:
        raise FrontendError("the file has no network", where=str(path))
    weights = find_weights(path, None, path.stem)
    graphs = []
    for model in models.values():
        known = extras.get(model.name, NOTHING)
        model.problems += attach_weights(model.tensors, weights)
        name = model.name or path.stem
        file = FileGraph(name, model.tensors, model.nodes, known, str(path), model.problems)
        graphs.append(assemble(file))
    return tuple(graphs)


def _extras(source: CppSource) -> Mapping[str, Extras]:
    """Return what C++ cannot express, by the graph's name in the file."""
    if not source.extras:
        return {}
    try:
        data = msgspec.json.decode(source.extras, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeError) as error:
        where = str(source.path)
        raise FrontendError(f"the comment `dovetail` is not JSON: {error}", where=where) from error
    return {name: read_extras(each, str(source.path)) for name, each in data.items()}


def _initialize(source: CppSource, _: Function, call: Call, model: _Model) -> None:
    given = source.arguments(call)
    if len(given) > _GRAPH_NAME:
        model.name = as_text(given[_GRAPH_NAME], "the graph's name")


def _add_tensor(source: CppSource, function: Function, call: Call, model: _Model) -> None:
    given = source.arguments(call)
    if len(given) < 2:
        raise ValueError(f"expected a name and a tensor, got {len(given)} values")
    tensor = TensorReader(source, function).read(given[1])
    if tensor.kind is TensorKind.NULL and tensor.dtype is DType.UNDEFINED:
        model.omitted.add(tensor.name)
    else:
        model.tensors.append(tensor)


def _add_node(source: CppSource, function: Function, call: Call, model: _Model) -> None:
    given = source.arguments(call)
    if len(given) != 10:
        raise ValueError(f"expected 10 values, got {len(given)}")
    _, name, package, op_type, params, count, inputs, _, outputs, _ = given
    label = as_text(name, "the node's name")
    reader = TensorReader(source, function)
    names = [as_text(v, "a tensor's name") for v in source.array(function, inputs, (b"char",))]
    written = [reader.read(v) for v in source.array(function, outputs, (TENSOR,))]
    model.tensors += written
    found: dict[str, Param] = {}
    for value in source.array(function, params, (PARAM,)):
        try:
            key, param = _param(reader, source.struct(function, value, PARAM))
            if key in found:
                raise ValueError(f"param '{key}' occurs twice")
            found[key] = param
        except ValueError as error:
            model.problems.append(Problem(str(error), f"node '{label}'"))
    if as_int(count) != len(found):
        raise ValueError(f"node '{label}' has {len(found)} params where {as_int(count)} are stated")
    model.nodes.append(
        FileNode(
            label,
            as_text(package, "the package"),
            as_text(op_type, "the op type"),
            ["" if each in model.omitted else each for each in names],
            [tensor.name for tensor in written],
            found,
        )
    )


def _param(reader: TensorReader, fields: list[Value]) -> tuple[str, Param]:
    kind, name, inner = struct_fields(fields, PARAM)
    key = as_text(name, "a param's name")
    if as_int(kind) == 0:
        return key, read_cpp_scalar(inner, key)
    tensor = reader.read(inner)
    if tensor.data is None and tensor.spec.nbytes == 0:
        tensor.data = Blob(np.empty(0, np.uint8))  # C++ has no empty arrays
    if tensor.data is None:
        raise ValueError(f"param '{key}' has no values")
    return key, tensor


def _ignore(source: CppSource, function: Function, call: Call, model: _Model) -> None:
    """Ignore a method that adds nothing to the graph."""


_METHODS = {b"initialize": _initialize, b"addTensor": _add_tensor, b"addNode": _add_node}
