"""What the graph's inputs are: types from the file, every dimension bound to a number."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from onnx import TensorShapeProto, ValueInfoProto

from dovetail.errors import FrontendError, Problem, UnsupportedOpError, unknown_name
from dovetail.ir import DType, Shape, Spec
from dovetail.ir.frontend import FrontendOptions
from dovetail_onnx._dtypes import DTYPES, MAX_RANK, element_type_name

_LOG = logging.getLogger("dovetail.onnx")
Dim = int | str | None  # a number, a symbol, or nothing known
_INT32_MAX = 2**31 - 1


def bind_inputs(inputs: Mapping[str, ValueInfoProto], options: FrontendOptions) -> dict[str, Spec]:
    """Gives type and static shape of every input.

    `input_dims` decide first, then `batch`, then `symbols`; a symbol bound through one input holds
    for all. A first dimension that is still open becomes 1, which is logged.

    Raises:
        FrontendError: Options that match nothing or contradict each other, or dimensions that
            stay without a value (MODEL_SHAPE_UNKNOWN).
        UnsupportedOpError: An input is no tensor, or of a type that cannot be converted.
    """
    _check_types(inputs)
    dims = {name: _dims(info) for name, info in inputs.items()}
    _check_options(dims, options)
    symbols = dict(options.symbols)
    bound = {name: _overridden(name, found, options) for name, found in dims.items()}
    _learn_symbols(dims, bound, symbols)
    _default_first(bound, symbols)
    unknown = [p for name, found in bound.items() for p in _open_dims(name, found, symbols)]
    if unknown:
        raise FrontendError(
            "the model has dimensions without a value", code="MODEL_SHAPE_UNKNOWN", problems=unknown
        )
    return {
        name: Spec(_dtype(info), _shape(bound[name] or (), symbols))
        for name, info in inputs.items()
    }


def _dtype(info: ValueInfoProto) -> DType:
    return DTYPES[info.type.tensor_type.elem_type]


def _check_types(inputs: Mapping[str, ValueInfoProto]) -> None:
    problems = []
    for name, info in inputs.items():
        kind = info.type.WhichOneof("value")
        code = info.type.tensor_type.elem_type
        if kind != "tensor_type":
            what = "nothing" if kind is None else kind.removesuffix("_type")
            problems.append(
                Problem(f"it is declared a {what}; only tensors can be inputs", f"input '{name}'")
            )
        elif code not in DTYPES:
            text = f"its element type {element_type_name(code)} cannot be converted"
            problems.append(Problem(text, f"input '{name}'"))
        elif (rank := len(info.type.tensor_type.shape.dim)) > MAX_RANK:
            text = f"its rank is {rank}; at most {MAX_RANK} can be converted"
            problems.append(Problem(text, f"input '{name}'"))
    if problems:
        raise UnsupportedOpError("the model has inputs that cannot be converted", problems=problems)


def _dims(info: ValueInfoProto) -> tuple[Dim, ...] | None:
    tensor = info.type.tensor_type
    return tuple(map(_dim, tensor.shape.dim)) if tensor.HasField("shape") else None


def _dim(dim: TensorShapeProto.Dimension) -> Dim:
    if dim.dim_param:
        return dim.dim_param
    # old exporters write -1 for what they do not know
    return dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None


def _check_options(dims: Mapping[str, tuple[Dim, ...] | None], options: FrontendOptions) -> None:
    problems = []
    for name, shape in options.input_dims.items():
        if name not in dims:
            problems.append(_unknown("input", "--input-dim", name, dims))
        elif (known := dims[name]) is not None and len(known) != len(shape):
            text = f"--input-dim gives {len(shape)} extents, but its rank is {len(known)}"
            problems.append(Problem(text, f"input '{name}'"))
        if any(not 0 <= extent <= _INT32_MAX for extent in shape):
            problems.append(Problem(f"--input-dim gives the impossible shape {shape}", name))
    symbols = {d for found in dims.values() for d in found or () if isinstance(d, str)}
    for name, value in options.symbols.items():
        if name not in symbols:
            problems.append(_unknown("symbolic dimension", "--define-symbol", name, symbols))
        if not 0 <= value <= _INT32_MAX:
            problems.append(Problem(f"--define-symbol gives it the impossible value {value}", name))
    if options.batch is not None and not 1 <= options.batch <= _INT32_MAX:
        problems.append(Problem(f"--batch gives the impossible value {options.batch}"))
    if problems:
        raise FrontendError("options do not fit the model's inputs", problems=problems)


def _unknown(what: str, option: str, name: str, valid: Mapping[str, object] | set[str]) -> Problem:
    return Problem(f"the model has no {what} '{name}'", option, unknown_name(name, valid))


def _overridden(
    name: str, dims: tuple[Dim, ...] | None, options: FrontendOptions
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
    """Takes the values of symbols from the inputs whose shapes the options give."""
    for name, found in dims.items():
        for dim, value in zip(found or (), bound[name] or (), strict=bool(found)):
            if not isinstance(dim, str) or not isinstance(value, int):
                continue
            if symbols.setdefault(dim, value) != value:
                raise FrontendError(
                    f"the symbolic dimension '{dim}' would be {value} here, but {symbols[dim]} "
                    "elsewhere",
                    where=f"input '{name}'",
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
        yield Problem("its rank is unknown", where, f"give --input-dim {name} with all extents")
        return
    for axis, dim in enumerate(dims):
        if isinstance(dim, str) and dim not in symbols:
            yield Problem(
                f"dimension {axis} is the symbol '{dim}'",
                where,
                f"give --define-symbol {dim} VALUE",
            )
        elif dim is None and axis > 0:
            shape = ",".join("?" if d is None else str(symbols.get(str(d), d)) for d in dims)
            yield Problem(
                f"dimension {axis} has no value", where, f"give --input-dim {name} {shape}"
            )


def _shape(dims: tuple[Dim, ...], symbols: Mapping[str, int]) -> Shape:
    return tuple(symbols[d] if isinstance(d, str) else 1 if d is None else d for d in dims)
