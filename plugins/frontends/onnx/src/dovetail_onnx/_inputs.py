"""The graph's inputs: types from the file, every dimension bound to a number."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Container, Iterator, Mapping

from onnx import TensorShapeProto, ValueInfoProto

from dovetail.errors import ConfigError, FrontendError, Problem, UnsupportedOpError
from dovetail.ir import DType, Shape, Spec
from dovetail.ir.check import MAX_EXTENT
from dovetail_onnx._dtypes import MAX_RANK, dtype_of, element_type_name
from dovetail_onnx.options import OnnxOptions

_LOG = logging.getLogger("dovetail.onnx")
Dim = int | str | None  # a number, a symbol, or nothing known


def bind_inputs(
    inputs: Mapping[str, ValueInfoProto],
    options: OnnxOptions,
    file: str = "FILE",
    *,
    optional: Container[str] = (),
) -> dict[str, Spec]:
    """Return type and static shape of every input.

    `input_dims` decide first, then `batch`, then `symbols`; a symbol bound through one input holds
    for all. A first dimension that is still open becomes 1, which is logged.

    Args:
        inputs: As the file states them.
        options: Those that fit the model, see `check_options`.
        file: The model as the user names it, for the hint.
        optional: Inputs to leave out if their type or shape cannot be determined.

    Raises:
        ConfigError: Options contradict each other.
        FrontendError: Dimensions stay without a value (MODEL_SHAPE_UNKNOWN).
        UnsupportedOpError: An input is not a tensor, or has a type that cannot be converted.
    """
    inputs = _of_known_types(inputs, optional)
    dims = {name: dims_of(info) for name, info in inputs.items()}
    symbols = dict(options.symbols)
    bound = {name: _overridden(name, found, options) for name, found in dims.items()}
    _learn_symbols(dims, bound, symbols)
    _default_first(bound, symbols)
    open_dims = {name: list(_open_dims(name, found, symbols)) for name, found in bound.items()}
    unknown = [p for name, found in open_dims.items() if name not in optional for p in found]
    if unknown:
        raise FrontendError(
            "the model has dimensions without a value",
            code="MODEL_SHAPE_UNKNOWN",
            problems=unknown,
            hint=_how_to_bind(bound, symbols, file),
        )
    specs = {
        name: Spec(_dtype(info), _shape(bound[name] or (), symbols))
        for name, info in inputs.items()
        if not open_dims[name]
    }
    _check_extents(specs)
    return specs


def _check_extents(specs: Mapping[str, Spec]) -> None:
    problems = [
        Problem(
            f"unsupported shape {spec.shape}; the maximum size of an axis is {MAX_EXTENT}",
            f"input '{n}'",
        )
        for n, spec in specs.items()
        if any(extent > MAX_EXTENT for extent in spec.shape)
    ]
    if problems:
        raise FrontendError("the model has inputs that are too large", problems=problems)


def _dtype(info: ValueInfoProto) -> DType:
    found = dtype_of(info.type.tensor_type.elem_type)
    if found is None:
        raise AssertionError(f"the type of input '{info.name}' was not checked")
    return found


def _of_known_types(
    inputs: Mapping[str, ValueInfoProto], optional: Container[str]
) -> dict[str, ValueInfoProto]:
    """Return the inputs without the optional ones of a type that cannot be converted.

    Raises:
        UnsupportedOpError: Others are of such a type.
    """
    reasons = {name: why for name, info in inputs.items() if (why := _unsupported_type(info))}
    problems = [Problem(why, f"input '{n}'") for n, why in reasons.items() if n not in optional]
    if problems:
        raise UnsupportedOpError("the model has inputs that cannot be converted", problems=problems)
    return {name: info for name, info in inputs.items() if name not in reasons}


def _unsupported_type(info: ValueInfoProto) -> str:
    """Return why an input cannot be converted; empty if it can be."""
    kind = info.type.WhichOneof("value")
    code = info.type.tensor_type.elem_type
    if kind != "tensor_type":
        what = "nothing" if kind is None else kind.removesuffix("_type")
        return f"declared as {what}; only tensors can be inputs"
    if dtype_of(code) is None:
        return f"unsupported element type {element_type_name(code)}"
    if (rank := len(info.type.tensor_type.shape.dim)) > MAX_RANK:
        return f"unsupported rank {rank}; the maximum is {MAX_RANK}"
    return ""


def dims_of(info: ValueInfoProto) -> tuple[Dim, ...] | None:
    """Return a tensor's shape as the file declares it; None if its rank is unknown."""
    tensor = info.type.tensor_type
    return tuple(map(_dim, tensor.shape.dim)) if tensor.HasField("shape") else None


def _dim(dim: TensorShapeProto.Dimension) -> Dim:
    if dim.dim_param:
        return dim.dim_param
    # old exporters write -1 for what they do not know
    return dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None


def _overridden(
    name: str, dims: tuple[Dim, ...] | None, options: OnnxOptions
) -> tuple[Dim, ...] | None:
    if name in options.input_dims:
        return tuple(options.input_dims[name])
    if options.batch is not None and dims:
        return (options.batch, *dims[1:])
    return dims


def _learn_symbols(
    dims: Mapping[str, tuple[Dim, ...] | None],
    bound: Mapping[str, tuple[Dim, ...] | None],
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


def _default_first(bound: Mapping[str, tuple[Dim, ...] | None], symbols: dict[str, int]) -> None:
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


def _open_dims(
    name: str, dims: tuple[Dim, ...] | None, symbols: Mapping[str, int]
) -> Iterator[Problem]:
    where = f"input '{name}'"
    if dims is None:
        yield Problem("unknown rank", where, f"bind it: --input-dim {name} SHAPE")
        return
    for axis, dim in enumerate(dims):
        if isinstance(dim, str) and dim not in symbols:
            text = f"dimension {axis} is the symbol '{dim}'"
            yield Problem(text, where, f"bind it: --define-symbol {dim} VALUE")
        elif dim is None and axis > 0:
            extents = ",".join(_extents(dims, symbols))
            text = f"dimension {axis} has no value"
            yield Problem(text, where, f"bind it: --input-dim {name} {extents}")


def _how_to_bind(
    bound: Mapping[str, tuple[Dim, ...] | None], symbols: Mapping[str, int], file: str
) -> str:
    # other commands and functions than convert read models too, and have none of its options
    words = ["dovetail convert -i", shlex.quote(file)]
    shapes: list[str] = []
    values: dict[str, str] = {}
    for name, dims in bound.items():
        if dims is None or None in dims[1:]:
            extents = [] if dims is None else _extents(dims, symbols)
            words.append(f"--input-dim {shlex.quote(name)} {','.join(extents) or 'SHAPE'}")
            shapes.append(f"{name!r}: ({', '.join(extents) or 'SHAPE'})")
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
        f"convert it first: `{' '.join(words)}` (in Python: OnnxOptions({', '.join(python)})), "
        f"or let the arrays of each run say: Session(..., specialize={unbound})"
    )


def _extents(dims: tuple[Dim, ...], symbols: Mapping[str, int]) -> list[str]:
    known = [symbols.get(d) if isinstance(d, str) else d for d in dims]
    return ["VALUE" if extent is None else str(extent) for extent in known]


def _shape(dims: tuple[Dim, ...], symbols: Mapping[str, int]) -> Shape:
    return tuple(symbols[d] if isinstance(d, str) else 1 if d is None else d for d in dims)
