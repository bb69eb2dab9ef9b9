"""The user's options for a graph whose shapes are fixed."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.errors import ConfigError, Problem, suggest_name
from dovetail.ir import Graph, TensorKind
from dovetail.ops.frontend import FrontendOptions
from dovetail_opset.passes import DeadCode


def apply_options(graph: Graph, options: FrontendOptions) -> None:
    """Check that options match a graph, and cut it at the chosen outputs.

    Raises:
        ConfigError: Some do not match (USAGE); all are listed.
    """
    if problems := list(_problems(graph, options)):
        raise ConfigError("the options do not match the model", code="USAGE", problems=problems)
    if options.out_names:
        _cut(graph, options.out_names)


def _problems(graph: Graph, options: FrontendOptions) -> Iterator[Problem]:
    inputs = {t.name: t.shape for t in graph.inputs}
    fixed = "the shapes of this format are fixed; change the model that the file was made from"
    for name, shape in options.input_dims.items():
        where = f"--input-dim {name}"
        if name not in inputs:
            hint = suggest_name(name, inputs)
            yield Problem(f"input '{name}' not found in the model", where, hint)
        elif tuple(shape) != inputs[name]:
            yield Problem(f"the model has the shape {inputs[name]}", where, fixed)
    for name, shape in inputs.items():
        given = options.batch is not None and name not in options.input_dims
        if given and shape[:1] != (options.batch,):
            yield Problem(f"input '{name}' has the shape {shape}", "--batch", fixed)
    for name in options.out_names:
        if name not in graph.tensors:
            hint = suggest_name(name, graph.tensors)
            yield Problem(f"tensor '{name}' not found in the model", f"--out-name {name}", hint)
        elif graph.producer(graph.tensors[name]) is None:
            yield Problem(f"no node writes tensor '{name}'", f"--out-name {name}")


def _cut(graph: Graph, names: tuple[str, ...]) -> None:
    for tensor in graph.outputs:
        if tensor.kind is TensorKind.APP_READ:
            tensor.kind = TensorKind.NATIVE
    for name in names:
        tensor = graph.tensor(name)
        if tensor.kind is TensorKind.NATIVE:
            tensor.kind = TensorKind.APP_READ
    DeadCode().run(graph)
    graph.reorder_interface([t.name for t in graph.inputs], names)
