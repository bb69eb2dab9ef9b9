"""The layers of a model, for `dovetail inspect --layers`."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from dovetail.cli.output import current_output, table
from dovetail.container import Model
from dovetail.errors import DovetailError, counted
from dovetail.ir import Blob, Graph, Node, ScaleOffset, Tensor
from dovetail.ir.text import encoding_text, shape_texts
from dovetail.ops import OpRegistry, checked_node
from dovetail.plugins.ops import installed_ops


class Order(enum.StrEnum):
    """The orders of layers; by size, the largest first."""

    NODES = "order"
    MACS = "macs"
    PARAMS = "params"
    BYTES = "bytes"


class Output(msgspec.Struct, frozen=True):
    """An output of a layer.

    Attributes:
        name: Its name.
        dtype: Name of its type.
        shape: Sizes of its axes, with `<=` before a maximum.
    """

    name: str
    dtype: str
    shape: tuple[str, ...]


class Layer(msgspec.Struct, frozen=True):
    """A node.

    Attributes:
        op: Its op, as `package::op`.
        name: Its name.
        sources: Names of the nodes of the user's model that it represents.
        outputs: Its outputs.
        params: Number of elements of its static inputs.
        macs: Multiply-accumulates of one execution; None if its op package is not installed.
        bytes: Bytes of its static inputs and tensor params.
        encodings: Descriptions of the encodings of its inputs and outputs, by port.
    """

    op: str
    name: str
    sources: tuple[str, ...]
    outputs: tuple[Output, ...]
    params: int
    macs: int | None
    bytes: int
    encodings: dict[str, str]


class Layers(msgspec.Struct, frozen=True):
    """The layers of a graph.

    Attributes:
        layers: The layers.
        params: Number of elements of all static inputs, data of several layers once.
        macs: Multiply-accumulates of the layers whose ops are known.
        bytes: Bytes of all static inputs and tensor params, data of several layers once.
        unknown: Number of layers whose op package is not installed.
    """

    layers: tuple[Layer, ...]
    params: int
    macs: int
    bytes: int
    unknown: int


def layers_of(graph: Graph, ops: OpRegistry, order: Order = Order.NODES) -> Layers:
    """Return the layers of a graph; no data are read.

    Args:
        graph: The graph.
        ops: The ops that count their multiply-accumulates.
        order: Order of the layers.

    Raises:
        GraphError: A node does not match its op.
        PluginError: The op package of a node fails.
    """
    layers = [_layer(node, ops) for node in graph.nodes]
    if order is not Order.NODES:
        layers.sort(key=lambda layer: -(getattr(layer, order.value) or 0))
    weights: dict[Blob, int] = {}
    nbytes: dict[Blob, int] = {}
    for node in graph.nodes:
        for tensor in _weights(node):
            if tensor.data is not None:
                weights[tensor.data] = math.prod(tensor.shape)
        nbytes |= _blobs(node)
    return Layers(
        tuple(layers),
        sum(weights.values()),
        sum(layer.macs or 0 for layer in layers),
        sum(nbytes.values()),
        sum(layer.macs is None for layer in layers),
    )


def show_layers(file: Path, model: Model, order: Order) -> None:
    """Print the layers of the graphs of a model.

    Raises:
        DovetailError: As `layers_of`.
    """
    ops = installed_ops()
    found = {name: layers_of(graph, ops, order) for name, graph in model.graphs.items()}
    text = "\n\n".join(f"graph {name}:\n\n{_text(layers)}" for name, layers in found.items())
    current_output().data({"file": str(file), "layers": msgspec.to_builtins(found)}, text)


def _layer(node: Node, ops: OpRegistry) -> Layer:
    return Layer(
        f"{node.package}::{node.op_type}",
        node.name,
        node.sources,
        tuple(
            Output(t.name, t.dtype.name, tuple(shape_texts(t.shape, t.dynamic)))
            for t in node.outputs
        ),
        sum(math.prod(tensor.shape) for tensor in _weights(node)),
        _macs(node, ops),
        sum(_blobs(node).values()),
        dict(_encodings(node)),
    )


def _macs(node: Node, ops: OpRegistry) -> int | None:
    try:
        ops.find(node.package, node.op_type)
    except DovetailError:
        return None
    view, _ = checked_node(node, ops)
    return None if view is None else view.work


def _weights(node: Node) -> Iterator[Tensor]:
    return (tensor for tensor in node.inputs if tensor is not None and tensor.kind.is_static)


def _blobs(node: Node) -> dict[Blob, int]:
    """Return the sizes of the data of a node, each once."""
    params = (param for param in node.params.values() if isinstance(param, Tensor))
    data = (tensor.data for tensor in (*_weights(node), *params))
    return {blob: blob.nbytes for blob in data if blob is not None}


def _encodings(node: Node) -> Iterator[tuple[str, str]]:
    for port, tensors in (("in", node.inputs), ("out", node.outputs)):
        for i, tensor in enumerate(tensors):
            if tensor is not None and tensor.encoding is not None:
                yield f"{port}[{i}]", f"{tensor.dtype.name} {_grid_text(tensor)}"


def _grid_text(tensor: Tensor) -> str:
    """Return the encoding of a tensor; of many scales, their number and limits."""
    encoding = tensor.encoding
    if encoding is None:
        return ""
    if isinstance(encoding, ScaleOffset) or not encoding.is_convertible:
        return encoding_text(encoding)
    scales, offsets = encoding.scales_and_offsets(tensor.shape)
    if not scales.size:
        return encoding_text(encoding)
    limits = f"{counted(scales.size, 'scale')} {scales.min():.4g} to {scales.max():.4g}"
    low, high = offsets.min(), offsets.max()
    grid = f"offset {low}" if low == high else f"offsets {low} to {high}"
    return f"{encoding_text(encoding)[:-1]}, {limits}, {grid})"


def _text(found: Layers) -> str:
    headings = ["OP", "NAME", "OUTPUTS", "PARAMS", "MACS", "BYTES", "ENCODINGS"]
    rows = [_row(layer) for layer in found.layers]
    numbers = _numbers(found.params, found.macs, found.bytes)
    rows.append([counted(len(rows), "layer"), "total", "", *numbers, ""])
    if not any(row[-1] for row in rows):  # a float model
        headings, rows = headings[:-1], [row[:-1] for row in rows]
    text = table(headings, rows, right=("PARAMS", "MACS", "BYTES"))
    if found.unknown:
        text += f"\n\nno installed op package defines the ops of {counted(found.unknown, 'layer')}"
    return text


def _row(layer: Layer) -> list[str]:
    outputs = (f"{out.dtype} {'x'.join(out.shape) or 'scalar'}" for out in layer.outputs)
    return [
        layer.op,
        layer.name,
        ", ".join(outputs),
        *_numbers(layer.params, layer.macs, layer.bytes),
        "; ".join(f"{port} {text}" for port, text in layer.encodings.items()),
    ]


def _numbers(*numbers: int | None) -> Iterable[str]:
    return ("?" if number is None else f"{number:,}" for number in numbers)
