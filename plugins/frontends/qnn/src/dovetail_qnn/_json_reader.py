"""Reading of `X_net.json`, with its weights in `X.bin`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
from msgspec import Meta

from dovetail.errors import DovetailError, FrontendError, Problem
from dovetail.ir import DataFormat, DType, Graph, Param, Tensor, TensorKind
from dovetail.typed import convert, drop_unknown_keys
from dovetail_qnn._assembly import FileGraph, FileNode, assemble
from dovetail_qnn._extras import KEY, MAX_RANK, NOTHING, read_extras
from dovetail_qnn._inline import read_scalar, read_values
from dovetail_qnn._layouts import permutation_of
from dovetail_qnn._quantization import QuantJson, read_quantization
from dovetail_qnn._reading import read_bytes
from dovetail_qnn._weights import attach_weights, find_weights

SUFFIX = "_net"
CPP, BIN, GRAPH = "model.cpp", "model.bin", "graph"
MAX_BYTES = 1 << 28  # of the text; decoded, it takes several times as much
_MAX_ELEMENTS = 2**60
_HEAD = 4096

Size = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Dims = Annotated[tuple[Size, ...], Meta(max_length=MAX_RANK)]


class TensorJson(msgspec.Struct):
    """A tensor; the sizes of its axes are `dims`, or `max_dims` in older documents."""

    type: int
    data_type: int
    id: int | None = None
    dims: Dims | None = None
    max_dims: Dims | None = None
    dataFormat: int = 0  # noqa: N815 - a key of the format
    axis_format: str = ""
    src_axis_format: str = ""
    quant_params: QuantJson = msgspec.field(default_factory=QuantJson)
    data: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return (self.max_dims or ()) if self.dims is None else self.dims


class NodeJson(msgspec.Struct):
    """A node."""

    type: str
    input_names: list[str]
    output_names: list[str]
    package: str = "qti.aisw"
    scalar_params: dict[str, dict[str, Any]] = {}
    tensor_params: dict[str, dict[str, TensorJson]] = {}


class GraphJson(msgspec.Struct):
    """The tensors and nodes."""

    tensors: dict[str, TensorJson]
    nodes: dict[str, NodeJson]


def looks_like_json_model(path: Path) -> bool:
    """Return whether a file begins like a JSON object and has the key `model.cpp` near an end."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
            size = file.seek(0, 2)
            file.seek(max(0, size - _HEAD))
            tail = file.read(_HEAD)
    except OSError:
        return False
    key = f'"{CPP}"'.encode()
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and (key in head or key in tail)


def read_json_model(path: Path) -> Graph:
    """Return the graph of a file.

    Raises:
        FrontendError: The file, or that of its weights, has faults; all are listed.
    """
    data, problems = _decoded(path)
    graph_data, extras_data = data.get(GRAPH), data.get(KEY)
    extras = NOTHING if extras_data is None else read_extras(extras_data, str(path))
    drop_unknown_keys(graph_data, GraphJson)
    content = convert(
        graph_data, GraphJson, where=str(path), path=f"$.{GRAPH}", error=FrontendError
    )
    tensors = []
    for name, each in _in_order(content.tensors):
        try:
            tensors.append(_tensor(name, each, inline=False))
        except DovetailError as error:
            problems.append(error.as_problem(f"tensor '{name}'"))
    nodes = []
    for name, node in content.nodes.items():
        try:
            nodes.append(_node(name, node))
        except FrontendError as error:
            problems += error.problems
    stem = path.stem.removesuffix(SUFFIX)
    weights = find_weights(path, data.get(BIN), stem)
    problems += attach_weights(tensors, weights)
    return assemble(FileGraph(stem, tensors, nodes, extras, str(path), problems))


def _decoded(path: Path) -> tuple[dict[str, Any], list[Problem]]:
    """Return the object in a file, and a problem for each key that occurs twice in an object."""
    repeated: list[Problem] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    repeated.append(Problem(f"duplicate name '{key}'", str(path)))
                seen.add(key)
        return found

    def reject(text: str) -> NoReturn:
        raise ValueError(f"{text} is not a number of JSON")

    text = read_bytes(path, MAX_BYTES)
    try:
        data = json.loads(
            text.decode("utf-8-sig"), object_pairs_hook=collect, parse_constant=reject
        )
    except (ValueError, RecursionError) as error:
        raise FrontendError(f"the file is not JSON: {error}", where=str(path)) from error
    if not isinstance(data, dict) or CPP not in data or not isinstance(data.get(GRAPH), dict):
        raise FrontendError(
            f"not a network of QNN's converters: it has no keys '{CPP}' and '{GRAPH}'",
            where=str(path),
            hint="pass the file MODEL_net.json that a converter wrote next to MODEL.cpp",
        )
    return data, repeated


def _in_order(tensors: dict[str, TensorJson]) -> Iterator[tuple[str, TensorJson]]:
    """Yield tensors in the order of their ids, if each has one; some writers sort them by name."""
    items = list(tensors.items())
    ids = [each.id for _, each in items]
    if None not in ids and len(set(ids)) == len(ids):
        items.sort(key=lambda item: item[1].id or 0)
    yield from items


def _tensor(name: str, given: TensorJson, *, inline: bool) -> Tensor:
    """Return a tensor, with the data that the JSON has.

    Raises:
        DovetailError: A number is unknown, or the encoding or the data do not match.
    """
    try:
        dtype, kind = DType(given.data_type), TensorKind(given.type)
        data_format = DataFormat(given.dataFormat)
    except ValueError as error:
        raise FrontendError(f"unknown number: {error}") from None
    shape = given.shape
    count = math.prod(shape)
    if math.prod(size for size in shape if size) > _MAX_ELEMENTS:
        raise FrontendError(f"impossible shape {shape}")
    data = None
    if given.data is not None:
        data = read_values(given.data, dtype, count)
    elif inline:
        raise FrontendError("the values are missing")
    return Tensor(
        name,
        dtype,
        shape,
        kind,
        encoding=read_quantization(given.quant_params),
        data=data,
        source_perm=permutation_of(given.axis_format, given.src_axis_format),
        data_format=data_format,
    )


def _node(name: str, given: NodeJson) -> FileNode:
    """Return a node.

    Raises:
        FrontendError: Params have faults; all are listed.
    """
    params: dict[str, Param] = {}
    problems = []
    where = f"{given.type} node '{name}'"
    for key, inner in {**given.scalar_params, **given.tensor_params}.items():
        try:
            if key in given.scalar_params and key in given.tensor_params:
                raise FrontendError("is both a scalar and a tensor")
            if key in given.scalar_params:
                params[key] = read_scalar(inner)
                continue
            if len(inner) != 1:
                raise FrontendError(f"expected one tensor, got {len(inner)}")
            ((tensor_name, tensor),) = inner.items()
            params[key] = _tensor(tensor_name, tensor, inline=True)
        except DovetailError as error:
            problems.append(Problem(f"param '{key}': {error.message}", where, error.hint))
    if problems:
        raise FrontendError("params have faults", problems=problems)
    return FileNode(name, given.package, given.type, given.input_names, given.output_names, params)
