"""Updates of a graph's tensors by an adapter: checked, in the graph's layouts, and quantized."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from dovetail.adapters.adapter import Adapter
from dovetail.errors import FrontendError, Problem, QuantizationError, suggest_name
from dovetail.ir import (
    Array,
    AxisScaleOffset,
    Block,
    DType,
    Encoding,
    Graph,
    ScaleOffset,
    Tensor,
    TensorKind,
    dequantize,
    quantize,
)
from dovetail.ops import OpRegistry

if TYPE_CHECKING:
    from dovetail.quantization import Quantizer


@dataclass(frozen=True, slots=True, eq=False)
class TensorUpdate:
    """New values or a new encoding of a tensor.

    Attributes:
        tensor: A tensor of the graph.
        data: Logical values in its layout and type, stored integers for fixed-point types; None to
            keep them.
        encoding: Its encoding, possibly the present one; None for types without one.
    """

    tensor: Tensor
    data: Array | None
    encoding: Encoding | None


@dataclass(frozen=True, slots=True)
class Updates:
    """The updates of a graph.

    Attributes:
        tensors: The updates, one for each tensor.
        notes: What a user should know, such as values beyond the range of an encoding.
    """

    tensors: tuple[TensorUpdate, ...]
    notes: tuple[str, ...] = ()


def updates_of(
    graph: Graph,
    adapter: Adapter,
    ops: OpRegistry,
    quantizer: Quantizer | None = None,
    *,
    scale: float = 1.0,
    own_encodings: Mapping[str, Encoding] | None = None,
) -> Updates:
    """Return the updates with which a graph uses an adapter; nothing is changed.

    Fixed-point tensors get the encodings of the adapter's file. Those without an entry get an
    encoding for their new values, of the kind of their present one.

    Args:
        graph: A graph with UPDATEABLE tensors; all its UPDATEABLE_STATIC ones must be in the
            adapter, so that nothing of an adapter used before remains.
        adapter: The adapter.
        ops: Finds ops.
        quantizer: Reads and derives encodings; needed only for fixed-point tensors.
        scale: Strength of the adapter, which multiplies its second factors.
        own_encodings: Encodings that the model itself has, by tensor name, if other adapters may
            have replaced them; stored integers and `keeps_encodings` refer to them.

    Raises:
        FrontendError: Names, shapes or types do not match the graph; every mismatch is listed.
        ConfigError: The adapter does not say which weights a scale multiplies.
        QuantizationError: Encodings do not match.
    """
    scaled = adapter.strength_names(scale)
    pairs = _matched(graph, adapter)
    given: Mapping[str, Encoding] = {}
    if adapter.encodings is not None:
        given = _required(quantizer, adapter).read_encodings(adapter.encodings, graph, ops)
    found: dict[Tensor, TensorUpdate] = {}
    notes: list[str] = []
    for tensor, (name, values) in pairs.items() if adapter.has_weights else ():
        factor = scale if name in scaled else 1.0
        if tensor.encoding is None:
            real = values if factor == 1 else values * np.asarray(factor, values.dtype)
            found[tensor] = TensorUpdate(tensor, _float(real, tensor.dtype), None)
            continue
        own = (own_encodings or {}).get(tensor.name, tensor.encoding)
        encoding = own if adapter.keeps_encodings else given.get(tensor.name)
        real = values if _is_real(values) else dequantize(values, encoding or own)
        real = real * np.float32(factor)
        if encoding is None:
            encoding = _required(quantizer, adapter).encoding_for(tensor, real)
        elif factor not in (0, 1) and not adapter.keeps_encodings:
            encoding = _scaled(encoding, abs(factor))
        stored = quantize(real, encoding, tensor.dtype)
        notes += _clipped(tensor, real, stored, encoding)
        found[tensor] = TensorUpdate(tensor, stored, encoding)
    for name, encoding in given.items():
        tensor = graph.tensor(name)
        found.setdefault(tensor, TensorUpdate(tensor, None, encoding))
    return Updates(tuple(found.values()), tuple(notes))


def _required(quantizer: Quantizer | None, adapter: Adapter) -> Quantizer:
    if quantizer is None:
        raise QuantizationError(
            "no quantizer, which encodings need", where=adapter.where, hint="install one"
        )
    return quantizer


def _matched(graph: Graph, adapter: Adapter) -> dict[Tensor, tuple[str, Array]]:
    """Return the name and the array of each updateable static tensor, in the tensor's layout.

    Raises:
        FrontendError: Names, shapes or types do not match; every mismatch is listed.
    """
    statics = [t for t in graph.tensors.values() if t.kind is TensorKind.UPDATEABLE_STATIC]
    in_graph = adapter.in_graph_layout
    wanted = {t: t.name if in_graph else t.source for t in statics}
    known = set(wanted.values())
    problems = [
        Problem("the graph has no such updateable tensor", f"tensor '{n}'", suggest_name(n, known))
        for n in adapter.arrays
        if n not in known
    ]
    found: dict[Tensor, tuple[str, Array]] = {}
    for tensor, name in wanted.items():
        values = adapter.arrays.get(name)
        if values is None:
            text = "missing: all updateable tensors of the graph are required"
            problems.append(Problem(text, f"tensor '{name}'"))
            continue
        perm = None if in_graph else tensor.source_perm
        problems += [Problem(text, f"tensor '{name}'") for text in _faults(values, tensor, perm)]
        found[tensor] = (name, values if perm is None else _transposed(values, perm))
    if problems and adapter.has_weights:
        raise FrontendError(
            f"the adapter '{adapter.name}' does not match graph '{graph.name}'",
            where=adapter.where,
            problems=problems,
        )
    return found


def _transposed(values: Array, perm: tuple[int, ...]) -> Array:
    return values.transpose(perm) if values.ndim == len(perm) else values


def _faults(values: Array, tensor: Tensor, perm: tuple[int, ...] | None) -> Iterator[str]:
    shape = list(tensor.shape)
    if perm is not None:
        for axis, size in zip(perm, tensor.shape, strict=True):
            shape[axis] = size
    if values.shape != tuple(shape):
        yield f"expected shape {tuple(shape)}, got {values.shape}"
    if not _is_real(values) and values.dtype != tensor.dtype.storage:
        yield f"expected real values or {tensor.dtype.name}, got {values.dtype}"


def _is_real(values: Array) -> bool:
    return values.dtype.kind == "f"


def _float(values: Array, dtype: DType) -> Array:
    """Return real values in the type in which a tensor of this type takes them."""
    kept = np.float32 if dtype is DType.BFLOAT_16 else dtype.storage
    with np.errstate(over="ignore"):  # as in any conversion to float16
        return values.astype(kept)


def _scaled(encoding: Encoding, factor: float) -> Encoding:
    """Return the encoding of values that are multiplied by a positive factor."""
    if isinstance(encoding, ScaleOffset):
        return replace(encoding, scale=encoding.scale * factor)
    if isinstance(encoding, AxisScaleOffset | Block):
        return replace(encoding, scales=encoding.scales * np.float32(factor))
    raise QuantizationError(f"cannot scale an encoding of the kind {type(encoding).__name__}")


def _clipped(tensor: Tensor, real: Array, stored: Array, encoding: Encoding) -> Iterator[str]:
    """Yield a note on values that are further from the stored ones than one step."""
    scales, _ = encoding.scales_and_offsets(tensor.shape)
    far = np.abs(real - dequantize(stored, encoding)) > 1.01 * scales
    if count := int(np.count_nonzero(far)):
        yield (
            f"{count} of {real.size} values of '{tensor.source}' are beyond the range of its "
            "encoding"
        )
