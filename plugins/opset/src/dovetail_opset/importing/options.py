"""Validation of the user's options against a model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from dovetail.errors import Problem, suggest_name
from dovetail.ops.frontend import FrontendOptions
from dovetail_opset.importing.inputs import Dims

_INT32_MAX = 2**31 - 1
_SIZES, _BATCHES = f"0 to {_INT32_MAX}", f"1 to {_INT32_MAX}"


def option_problems(
    dims: Mapping[str, Dims],
    names: Collection[str],
    options: FrontendOptions,
    symbols: Mapping[str, int] | None = None,
    nodes: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[Problem]:
    """Yield why options do not match a model: shapes, symbols, the batch and outputs.

    Args:
        dims: Dimensions of the inputs as the file states them.
        names: Names of all tensors that may become outputs.
        options: The options.
        symbols: Values of symbols, for formats that have such.
        nodes: Names of the outputs of each node, for formats whose nodes have names.
    """
    yield from _input_dims(dims, options)
    yield from _symbols(dims, symbols or {})
    yield from batch_problems(options)
    for name in options.out_names:
        if name not in names:
            problem = unknown_name("tensor", f"--out-name {name}", name, names)
            if written := ", ".join(f"'{each}'" for each in (nodes or {}).get(name, ()) if each):
                hint = f"a node has this name; name a tensor that it writes: {written}"
                problem = replace(problem, hint=hint)
            yield problem


def unknown_name(what: str, where: str, name: str, valid: Collection[str]) -> Problem:
    """Return the problem that an option names something that the model lacks."""
    return Problem(f"{what} '{name}' not found in the model", where, suggest_name(name, valid))


def _input_dims(dims: Mapping[str, Dims], options: FrontendOptions) -> Iterator[Problem]:
    for name, shape in options.input_dims.items():
        where = f"--input-dim {name}"
        if name not in dims:
            yield unknown_name("input", where, name, dims)
        elif (known := dims[name]) is not None and len(known) != len(shape):
            yield Problem(f"expected rank {len(known)}, got {len(shape)}", where)
        if any(not 0 <= size <= _INT32_MAX for size in shape):
            text = ",".join(map(str, shape))
            yield Problem(f"impossible shape {text}: sizes must be {_SIZES}", where)


def _symbols(dims: Mapping[str, Dims], given: Mapping[str, int]) -> Iterator[Problem]:
    symbols = {d for found in dims.values() for d in found or () if isinstance(d, str)}
    for name, value in given.items():
        where = f"--define-symbol {name}"
        if name not in symbols:
            yield unknown_name("symbolic dimension", where, name, symbols)
        if not 0 <= value <= _INT32_MAX:
            yield Problem(f"impossible value {value}: sizes must be {_SIZES}", where)


def batch_problems(options: FrontendOptions) -> Iterator[Problem]:
    """Yield why the batch of options is impossible, whatever the model is."""
    if options.batch is not None and not 1 <= options.batch <= _INT32_MAX:
        yield Problem(f"impossible value {options.batch}: the batch must be {_BATCHES}", "--batch")
