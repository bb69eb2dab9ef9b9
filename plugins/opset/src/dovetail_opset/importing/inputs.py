"""Shapes of a model's inputs: the file's dimensions, bound by the user's options."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Container, Iterator, Mapping

from dovetail.errors import ConfigError, FrontendError, Problem
from dovetail.ir import Shape
from dovetail.ir.check import MAX_AXIS_SIZE
from dovetail.ops.frontend import FrontendOptions

_LOG = logging.getLogger("dovetail.importing")
Dim = int | str | None  # a number, a symbol, or nothing known
Dims = tuple[Dim, ...] | None  # None if the rank is unknown


def bind_shapes(
    dims: Mapping[str, Dims],
    options: FrontendOptions,
    symbols: Mapping[str, int] | None = None,
    file: str = "FILE",
    *,
    optional: Container[str] = (),
) -> dict[str, Shape]:
    """Return the static shape of every input.

    `input_dims` decide first, then `batch`, then `symbols`; a symbol bound through one input holds
    for all. `batch` leaves inputs alone whose batch is a later dimension, by the name of the
    symbol, and warns where it changes a number although other first dimensions are open. A first
    dimension that is still open becomes 1, which is logged.

    Args:
        dims: Dimensions as the file states them.
        options: Those that fit the model, see `option_problems`.
        symbols: Values of symbols, for formats that have such.
        file: The model as the user names it, for the hint.
        optional: Inputs to leave out if their shape cannot be determined.

    Raises:
        ConfigError: Options contradict each other.
        FrontendError: Dimensions stay without a value (MODEL_SHAPE_UNKNOWN).
    """
    values = dict(symbols or {})
    bound = _overridden(dims, options)
    _learn_symbols(dims, bound, values)
    _default_first(bound, values)
    open_dims = {name: list(_open_dims(name, found, values)) for name, found in bound.items()}
    unknown = [p for name, found in open_dims.items() if name not in optional for p in found]
    if unknown:
        raise FrontendError(
            "the model has dimensions without a value",
            code="MODEL_SHAPE_UNKNOWN",
            problems=unknown,
            hint=_how_to_bind(bound, values, file, type(options).__name__),
        )
    shapes = {name: _shape(bound[name] or (), values) for name in dims if not open_dims[name]}
    _check_sizes(shapes)
    return shapes


def _check_sizes(shapes: Mapping[str, Shape]) -> None:
    problems = [
        Problem(
            f"unsupported shape {shape}; the maximum size of an axis is {MAX_AXIS_SIZE}",
            f"input '{name}'",
        )
        for name, shape in shapes.items()
        if any(size > MAX_AXIS_SIZE for size in shape)
    ]
    if problems:
        raise FrontendError("the model has inputs that are too large", problems=problems)


def _overridden(dims: Mapping[str, Dims], options: FrontendOptions) -> dict[str, Dims]:
    """Apply `input_dims` and `batch`.

    A number stays where a later dimension of the input is the batch: as the layers of a recurrent
    state (2, 'batch', 128) next to an input ('batch', 'length').
    """
    given = options.input_dims
    open_first = {found[0] for found in dims.values() if found and not isinstance(found[0], int)}
    symbols = open_first - {None}
    bound: dict[str, Dims] = {}
    for name, found in dims.items():
        if name in given:
            bound[name] = tuple(given[name])
            continue
        bound[name] = found
        first = found[0] if found else None
        is_later = isinstance(first, int) and not symbols.isdisjoint(found or ())
        if options.batch is not None and found and not is_later:
            bound[name] = (options.batch, *found[1:])
            if open_first and isinstance(first, int) and first != options.batch:
                _LOG.warning(
                    "input '%s': --batch changes its first dimension from %d to %d; "
                    "--input-dim %s %s keeps it",
                    name,
                    first,
                    options.batch,
                    name,
                    ",".join(_sizes(found, {})),
                )
    return bound


def _learn_symbols(
    dims: Mapping[str, Dims],
    bound: Mapping[str, Dims],
    symbols: dict[str, int],
) -> None:
    """Take the values of symbols from the inputs whose shapes the options give."""
    problems = []
    for name, found in dims.items():
        for dim, value in zip(found or (), bound[name] or (), strict=bool(found)):
            if not isinstance(dim, str) or not isinstance(value, int):
                continue
            if symbols.setdefault(dim, value) != value:
                text = f"the symbolic dimension '{dim}' would be {value} here, but {symbols[dim]}"
                problems.append(Problem(f"{text} elsewhere", f"input '{name}'"))
    if problems:
        raise ConfigError(
            "the options contradict each other",
            code="USAGE",
            problems=problems,
            hint="give --input-dim, --define-symbol and --batch values that agree",
        )


def _default_first(bound: Mapping[str, Dims], symbols: dict[str, int]) -> None:
    for name, dims in bound.items():
        first = dims[0] if dims else 1
        if first is None:
            _LOG.warning("input '%s': its first dimension is open and becomes 1 (--batch)", name)
        elif isinstance(first, str) and first not in symbols:
            symbols[first] = 1
            _LOG.warning(
                "input '%s': its first dimension '%s' is open and becomes 1 "
                "(--batch or --define-symbol %s)",
                name,
                first,
                first,
            )


def _open_dims(name: str, dims: Dims, symbols: Mapping[str, int]) -> Iterator[Problem]:
    where = f"input '{name}'"
    if dims is None:
        yield Problem("unknown rank", where, f"bind it: --input-dim {name} SHAPE")
        return
    for axis, dim in enumerate(dims):
        if isinstance(dim, str) and dim not in symbols:
            text = f"dimension {axis} is the symbol '{dim}'"
            yield Problem(text, where, f"bind it: --define-symbol {dim} VALUE")
        elif dim is None and axis > 0:
            sizes = ",".join(_sizes(dims, symbols))
            text = f"dimension {axis} has no value"
            yield Problem(text, where, f"bind it: --input-dim {name} {sizes}")


def _how_to_bind(
    bound: Mapping[str, Dims], symbols: Mapping[str, int], file: str, options: str
) -> str:
    # other commands and functions than convert read models too, and have none of its options
    words = ["dovetail convert -i", shlex.quote(file)]
    shapes: list[str] = []
    values: dict[str, str] = {}
    for name, dims in bound.items():
        if dims is None or None in dims[1:]:
            sizes = [] if dims is None else _sizes(dims, symbols)
            words.append(f"--input-dim {shlex.quote(name)} {','.join(sizes) or 'SHAPE'}")
            shapes.append(f"{name!r}: ({', '.join(sizes) or 'SHAPE'})")
            continue
        values |= {d: "VALUE" for d in dims if isinstance(d, str) and d not in symbols}
    words += [f"--define-symbol {shlex.quote(symbol)} VALUE" for symbol in values]
    python = []
    if values:
        python.append(f"symbols={{{', '.join(f'{s!r}: VALUE' for s in values)}}}")
    if shapes:
        python.append(f"input_dims={{{', '.join(shapes)}}}")
    unbound = [name for name, dims in bound.items() if list(_open_dims(name, dims, symbols))]
    return (
        f"convert it with their values: `{' '.join(words)}` "
        f"(in Python: {options}({', '.join(python)})), or let the arrays of each run say: "
        f"Session(..., specialize={unbound})"
    )


def _sizes(dims: tuple[Dim, ...], symbols: Mapping[str, int]) -> list[str]:
    known = [symbols.get(d) if isinstance(d, str) else d for d in dims]
    return ["VALUE" if size is None else str(size) for size in known]


def _shape(dims: tuple[Dim, ...], symbols: Mapping[str, int]) -> Shape:
    return tuple(symbols[d] if isinstance(d, str) else 1 if d is None else d for d in dims)
