"""The tensors of a model that entries of a file can name."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from dataclasses import dataclass

from dovetail.api import load_model
from dovetail.errors import Problem, QuantizationError
from dovetail.ir import Graph, Tensor
from dovetail.ops import OpRegistry
from dovetail.plugins.ops import installed_ops
from dovetail_quantizers.files._arrange import placed
from dovetail_quantizers.files.form import (
    EncodingsFile,
    TensorEncoding,
    converted_from,
    known_name,
)
from dovetail_quantizers.planning.roles import channel_axes


@dataclass(frozen=True, slots=True)
class ModelTensor:
    """A tensor that an entry can name.

    Attributes:
        tensor: The tensor in the converted graph.
        axis: Axis of its output channels in its layout, if its use defines one.
    """

    tensor: Tensor
    axis: int | None


@dataclass(frozen=True, slots=True)
class ModelTensors:
    """The tensors of a model, by the names that entries can use.

    Attributes:
        graphs: The graphs of the model.
        ops: Finds their ops.
        tensors: Tensors that can be quantized, by their names in the user's model.
        inner: All of these by their names in the graph.
        removed_sources: Names of the user's model that conversion removes.
    """

    graphs: tuple[Graph, ...]
    ops: OpRegistry
    tensors: dict[str, ModelTensor]
    inner: dict[str, ModelTensor]
    removed_sources: frozenset[str]

    def find(self, name: str) -> ModelTensor | None:
        """Return the tensor of a name: of the user's model, of the graph, or what was converted."""
        own = known_name(name, self.tensors.keys() | self.inner.keys())
        if (found := self.tensors.get(own) or self.inner.get(own)) is not None:
            return found
        converted = self.inner.get(converted_from(name))
        return None if converted is None or converted.tensor.kind.is_static else converted

    def names(self) -> set[str]:
        """All names that a file can use."""
        return {*self.tensors, *self.removed_sources}


def model_tensors_in(path: str | os.PathLike[str]) -> ModelTensors:
    """Load or convert a model file and return its tensors.

    Raises:
        DovetailError: The file cannot be loaded or converted.
    """
    ops = installed_ops()
    return model_tensors_of(load_model(path, ops).graphs.values(), ops)


def model_tensors_of(graphs: Iterable[Graph], ops: OpRegistry) -> ModelTensors:
    """Return the tensors of graphs."""
    graphs = tuple(graphs)
    found: dict[str, ModelTensor] = {}
    inner: dict[str, ModelTensor] = {}
    for graph in graphs:
        axes = channel_axes(graph, ops)
        for tensor in graph.tensors.values():
            if not (tensor.dtype.is_float or tensor.dtype.is_fixed_point):
                continue
            named = inner[tensor.name] = ModelTensor(tensor, axes.get(tensor))
            if tensor.source not in found or _rank(named) > _rank(found[tensor.source]):
                found[tensor.source] = named
    removed_sources = (
        frozenset(name for graph in graphs for name in graph.removed_sources) - found.keys()
    )
    return ModelTensors(graphs, ops, found, inner, removed_sources)


def _rank(named: ModelTensor) -> tuple[bool, bool]:
    """Return the rank of a tensor among those from one tensor of the user's model."""
    # a bias that was folded from an activation has its name, but is not the user's tensor
    return not named.tensor.kind.is_static, named.axis is not None


def fitted(file: EncodingsFile, model: ModelTensors) -> tuple[EncodingsFile, tuple[Problem, ...]]:
    """Return a file completed by a model: axes, blocks, and which tensors are weights.

    Entries without a tensor in the model are unchanged.

    Returns:
        The file without the entries that do not match their tensors, and the problems of those.
    """
    problems: list[Problem] = []
    entries: dict[str, TensorEncoding] = {}
    for name, entry in file.entries.items():
        named = model.find(name)
        if named is None:
            entries[name] = entry
            continue
        try:
            fit = placed(entry, named.tensor, named.axis)
        except QuantizationError as error:
            problems.append(error.as_problem(f"'{name}'"))
            continue
        entries[name] = dataclasses.replace(fit, is_param=named.tensor.kind.is_static)
    return dataclasses.replace(file, entries=entries), tuple(problems)
