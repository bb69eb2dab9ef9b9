"""The user's options for graphs whose shapes are fixed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dovetail.errors import ConfigError, Problem, suggest_name
from dovetail.ir import Graph, TensorKind
from dovetail.ops.frontend import FrontendOptions
from dovetail_opset.passes import DeadCode

_FIXED = "the shapes of this format are fixed; change the model that the file was made from"


def apply_options(graphs: Sequence[Graph], options: FrontendOptions) -> None:
    """Check that options match graphs, and cut these at the chosen outputs.

    A name may belong to some of the graphs only.

    Raises:
        ConfigError: Some do not match (USAGE); all are listed.
    """
    if problems := list(_problems(graphs, options)):
        raise ConfigError("the options do not match the model", code="USAGE", problems=problems)
    for graph in graphs:
        if names := [name for name in options.out_names if name in graph.tensors]:
            _cut(graph, names)


def _problems(graphs: Sequence[Graph], options: FrontendOptions) -> Iterator[Problem]:
    inputs = [tensor for graph in graphs for tensor in graph.inputs]
    for name, shape in options.input_dims.items():
        where = f"--input-dim {name}"
        found = [tensor for tensor in inputs if tensor.name == name]
        if not found:
            hint = suggest_name(name, [tensor.name for tensor in inputs])
            yield Problem(f"input '{name}' not found in the model", where, hint)
        for tensor in found:
            if tuple(shape) != tensor.shape:
                yield Problem(f"the model has the shape {tensor.shape}", where, _FIXED)
    for tensor in inputs:
        given = options.batch is not None and tensor.name not in options.input_dims
        if given and tensor.shape[:1] != (options.batch,):
            text = f"input '{tensor.name}' has the shape {tensor.shape}"
            yield Problem(text, "--batch", _FIXED)
    for name in options.out_names:
        where = f"--out-name {name}"
        holders = [graph for graph in graphs if name in graph.tensors]
        if not holders:
            hint = suggest_name(name, [n for graph in graphs for n in graph.tensors])
            yield Problem(f"tensor '{name}' not found in the model", where, hint)
        elif any(graph.producer(graph.tensors[name]) is None for graph in holders):
            yield Problem(f"no node writes tensor '{name}'", where)


def _cut(graph: Graph, names: Sequence[str]) -> None:
    for tensor in graph.outputs:
        if tensor.kind is TensorKind.APP_READ:
            tensor.kind = TensorKind.NATIVE
    for name in names:
        tensor = graph.tensor(name)
        if tensor.kind is TensorKind.NATIVE:
            tensor.kind = TensorKind.APP_READ
    DeadCode().run(graph)
    graph.reorder_interface([t.name for t in graph.inputs], names)
