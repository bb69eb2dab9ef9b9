"""Validation of the user's options against the model."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.errors import ConfigError, Problem
from dovetail_onnx._input_values import value_problems
from dovetail_onnx._inputs import dims_of
from dovetail_onnx._source import SourceGraph
from dovetail_onnx.options import OnnxOptions
from dovetail_opset.importing.options import option_problems, unknown_name


def check_options(source: SourceGraph, options: OnnxOptions) -> None:
    """Check that the options match a model, before the parts that no output needs are removed.

    Raises:
        ConfigError: Some do not (USAGE); all of them are listed.
    """
    dims = {name: dims_of(info) for name, info in source.inputs.items()}
    nodes = {node.name: node.outputs for node in source.nodes} if options.out_names else {}
    problems = [
        *option_problems(dims, set(source.names()), options, options.symbols, nodes),
        *_input_values(source, options),
        *_updateable(source, options),
    ]
    if problems:
        raise ConfigError(
            "the options do not match the model",
            code="USAGE",
            problems=problems,
        )


def _input_values(source: SourceGraph, options: OnnxOptions) -> Iterator[Problem]:
    for name, values in options.input_values.items():
        where = f"values of input '{name}'"
        if name not in source.inputs:
            yield unknown_name("input", where, name, source.inputs)
        elif name in options.input_dims:
            yield Problem(
                "--input-dim cannot be given for an input with values, whose shape is known", where
            )
        else:
            yield from value_problems(source.inputs[name], values)


def _updateable(source: SourceGraph, options: OnnxOptions) -> Iterator[Problem]:
    for name in options.updateable:
        if name not in source.initializers:
            yield unknown_name("initializer", "--lora-weight-list", name, source.initializers)
