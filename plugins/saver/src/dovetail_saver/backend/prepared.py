"""Graphs of the Saver, which compute nothing, and their images."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from dovetail.container import BlobTable
from dovetail.container.entries import Dims, TensorEntry, dump_tensor, load_tensor
from dovetail.errors import ContainerError
from dovetail.ir import Array, Blob, DType, Tensor
from dovetail.ops import CheckedGraph
from dovetail.runtime.base import ContextBase, PreparedBase
from dovetail.runtime.contract import Binding, Fingerprint, Image, Restored, RunControl
from dovetail.runtime.interface import Interface
from dovetail.runtime.plan.images import digest_of


class _Written(msgspec.Struct, frozen=True, array_like=True):
    """A tensor that a node writes."""

    name: str
    dtype: DType
    shape: Dims

    def zeros(self) -> Array:
        """Return its stored values."""
        return np.zeros(self.shape, self.dtype.storage)


class _Step(msgspec.Struct, frozen=True, array_like=True):
    """A node, as a watch sees it."""

    node: str
    outputs: tuple[_Written, ...]


class _GraphData(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A graph in an image.

    Attributes:
        model: Digest of the graph's structure.
        steps: Its nodes.
        inputs, outputs: Its interface.
        arrays: Keys of the blobs of encodings, by the index in an entry.
    """

    model: str
    steps: tuple[_Step, ...]
    inputs: tuple[TensorEntry, ...]
    outputs: tuple[TensorEntry, ...]
    arrays: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SavedGraph(PreparedBase):
    """A graph whose outputs are zeros.

    Attributes:
        name: Its name.
        model: Digest of its structure.
        steps: Its nodes.
        inputs, outputs: Its interface.
        context: Its context.
    """

    name: str
    model: str
    steps: tuple[_Step, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    context: ContextBase

    @classmethod
    def of(cls, graph: CheckedGraph, context: ContextBase) -> SavedGraph:
        """Return the form of a checked graph."""
        steps = tuple(
            _Step(
                view.node.name,
                tuple(_Written(t.name, t.dtype, t.shape) for t in view.node.outputs),
            )
            for view in graph.nodes
        )
        ends = tuple(graph.inputs), tuple(graph.outputs)
        return cls(graph.name, digest_of(graph), steps, *ends, context)

    def run(
        self, inputs: Mapping[str, Binding], outputs: Mapping[str, Binding], control: RunControl
    ) -> None:
        """Fill the outputs with zeros."""
        for step in self.steps:
            control.check()
            if control.reports_steps:
                start_us = time.perf_counter_ns() / 1e3
                control.step_finished((step.node,), start_us, 0.0, lambda s=step: _zeros(s))  # type: ignore[misc]
        for binding in outputs.values():
            if isinstance(binding, np.ndarray):
                binding.fill(0)

    def update(self, tensors: Sequence[Tensor]) -> None:
        """Nothing is computed from them."""

    def section(self, names: Collection[str]) -> Image:
        """Return the graph as an image."""
        return self.context.image({self.name: self})

    def apply(self, section: Image) -> None:
        """Nothing is computed from it."""


def _zeros(step: _Step) -> dict[str, Array]:
    return {each.name: each.zeros() for each in step.outputs}


def image_of(graphs: Mapping[str, SavedGraph], fingerprint: Fingerprint) -> Image:
    """Return graphs as data: their interfaces, and no weights."""
    blobs: dict[str, Array] = {}
    found = {}
    for name, graph in graphs.items():
        table = BlobTable()
        inputs, outputs = (
            tuple(dump_tensor(tensor, table, "interface") for tensor in tensors)
            for tensors in (graph.inputs, graph.outputs)
        )
        arrays = tuple(blob.hash for blob in table.blobs)
        blobs |= {blob.hash: blob.bytes for blob in table.blobs}
        data = _GraphData(graph.model, graph.steps, inputs, outputs, arrays)
        found[name] = msgspec.to_builtins(data)
    return Image(fingerprint, found, blobs)


def restored_graphs(
    image: Image, model: Callable[[str], CheckedGraph] | None, context: ContextBase
) -> dict[str, Restored]:
    """Return the graphs of an image.

    Args:
        image: From `image_of`; nothing in it can be trusted.
        model: Returns the graph of a name, if the model is available.
        context: Their context.

    Raises:
        ContainerError: It is damaged, or of another graph.
    """
    found = {}
    for name, plain in image.graphs.items():
        where = f"image of graph '{name}'"
        try:
            data = msgspec.convert(plain, _GraphData)
        except msgspec.ValidationError as error:
            raise ContainerError(
                f"invalid graph: {error}", code="CONTAINER_INVALID", where=where
            ) from error
        if model is not None and digest_of(model(name)) != data.model:
            raise ContainerError("an image of another graph", code="CONTAINER_INVALID", where=where)
        found[name] = _restored(name, data, image.blobs, context, where)
    return found


def _restored(
    name: str, data: _GraphData, blobs: Mapping[str, Array], context: ContextBase, where: str
) -> Restored:
    if missing := [key for key in data.arrays if key not in blobs]:
        raise ContainerError(f"blob {missing[0]} not found", code="CONTAINER_INVALID", where=where)
    arrays = [Blob(blobs[key]) for key in data.arrays]
    inputs, outputs = (
        tuple(load_tensor(entry, arrays, where) for entry in entries)
        for entries in (data.inputs, data.outputs)
    )
    graph = SavedGraph(name, data.model, data.steps, inputs, outputs, context)
    return Restored(Interface.of(name, inputs, outputs), graph)
