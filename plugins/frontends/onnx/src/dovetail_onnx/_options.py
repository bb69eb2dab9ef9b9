"""Validation of the user's options against the model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from dovetail.errors import ConfigError, Problem, suggest_name
from dovetail_onnx._input_values import value_problems
from dovetail_onnx._inputs import Dim, dims_of
from dovetail_onnx._source import SourceGraph
from dovetail_onnx.options import OnnxOptions

_INT32_MAX = 2**31 - 1


def check_options(source: SourceGraph, options: OnnxOptions) -> None:
    """Check that the options match a model, before the parts that no output needs are removed.

    Raises:
        ConfigError: Some do not (USAGE); all of them are listed.
    """
    dims = {name: dims_of(info) for name, info in source.inputs.items()}
    problems = [
        *_input_dims(dims, options),
        *_symbols(dims, options),
        *_batch(options),
        *_out_names(source, options),
        *_input_values(source, options),
    ]
    if problems:
        raise ConfigError(
            "the options do not match the model",
            code="USAGE",
            problems=problems,
        )


def _input_dims(
    dims: Mapping[str, tuple[Dim, ...] | None], options: OnnxOptions
) -> Iterator[Problem]:
    for name, shape in options.input_dims.items():
        where = f"--input-dim {name}"
        if name not in dims:
            yield _unknown("input", where, name, dims)
        elif (known := dims[name]) is not None and len(known) != len(shape):
            yield Problem(f"expected rank {len(known)}, got {len(shape)}", where)
        if any(not 0 <= extent <= _INT32_MAX for extent in shape):
            text = ",".join(map(str, shape))
            yield Problem(f"impossible shape {text}: sizes must not be negative", where)


def _symbols(dims: Mapping[str, tuple[Dim, ...] | None], options: OnnxOptions) -> Iterator[Problem]:
    symbols = {d for found in dims.values() for d in found or () if isinstance(d, str)}
    for name, value in options.symbols.items():
        where = f"--define-symbol {name}"
        if name not in symbols:
            yield _unknown("symbolic dimension", where, name, symbols)
        if not 0 <= value <= _INT32_MAX:
            yield Problem(f"impossible value {value}: sizes must not be negative", where)


def _batch(options: OnnxOptions) -> Iterator[Problem]:
    if options.batch is not None and not 1 <= options.batch <= _INT32_MAX:
        yield Problem(f"impossible value {options.batch}: the batch must be at least 1", "--batch")


def _out_names(source: SourceGraph, options: OnnxOptions) -> Iterator[Problem]:
    known = set(source.names())
    for name in options.out_names:
        if name not in known:
            yield _unknown("tensor", f"--out-name {name}", name, known)


def _input_values(source: SourceGraph, options: OnnxOptions) -> Iterator[Problem]:
    for name, values in options.input_values.items():
        where = f"values of input '{name}'"
        if name not in source.inputs:
            yield _unknown("input", where, name, source.inputs)
        elif name in options.input_dims:
            yield Problem(
                "--input-dim cannot be given for an input with values, whose shape is known", where
            )
        else:
            yield from value_problems(source.inputs[name], values)


def _unknown(what: str, where: str, name: str, valid: Collection[str]) -> Problem:
    return Problem(f"{what} '{name}' not found in the model", where, suggest_name(name, valid))
