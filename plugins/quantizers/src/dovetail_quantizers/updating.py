"""Encodings of the updates of a quantized graph's tensors: from files, and from new values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from dovetail.errors import Problem, QuantizationError, suggest_name
from dovetail.ir import (
    Array,
    AxisScaleOffset,
    Block,
    DType,
    Encoding,
    Graph,
    ScaleOffset,
    Tensor,
    copy_tensor,
)
from dovetail.ops import OpRegistry
from dovetail_quantizers.files import (
    EncodingsFile,
    TensorEncoding,
    entry_of,
    read_encodings,
    to_encoding,
    write_encodings,
)
from dovetail_quantizers.grid import Scheme, grids_for
from dovetail_quantizers.planning.overrides import in_names_of, matches
from dovetail_quantizers.planning.roles import channel_axes

_VERSION = "1.0.0"


def encodings_in(path: Path, graph: Graph, ops: OpRegistry) -> dict[str, Encoding]:
    """Return the encodings of a file; see `dovetail.quantization.Quantizer.read_encodings`."""
    file = in_names_of(read_encodings(path), (graph,))
    axes = channel_axes(graph, ops)
    found: dict[str, Encoding] = {}
    problems: list[Problem] = []
    known = {t.source for t in graph.tensors.values()} | graph.tensors.keys()
    for entry in file.entries.values():
        tensors = matches(entry, graph)
        if not tensors and entry.name not in known | graph.removed_sources:
            hint = suggest_name(entry.name, known)
            problems.append(
                Problem("no tensor of the model has this name", f"entry '{entry.name}'", hint)
            )
        for tensor in tensors:
            if not tensor.kind.is_updateable or tensor.encoding is None or entry.scales is None:
                continue
            try:
                dtype, encoding = to_encoding(entry, tensor, axes.get(tensor))
                found[tensor.name] = _in_type(encoding, dtype, tensor)
            except QuantizationError as error:
                problems.append(error.as_problem(f"entry '{entry.name}'"))
    if problems:
        raise QuantizationError(
            "encodings do not match the model", where=str(path), problems=problems
        )
    return found


def _in_type(encoding: Encoding | None, dtype: DType, tensor: Tensor) -> Encoding:
    """Return an encoding for the stored type of a tensor, with the same real values.

    Raises:
        QuantizationError: The type cannot hold them.
    """
    if encoding is None:
        raise AssertionError("a fixed-point entry has an encoding")
    if dtype is tensor.dtype:
        return encoding
    if dtype.bits != tensor.dtype.bits or not isinstance(encoding, ScaleOffset):
        raise QuantizationError(
            f"the entry is {dtype.name}, but the tensor is {tensor.dtype.name}",
            where=f"tensor '{tensor.name}'",
            hint="quantize the base model with the bitwidths and the schema of the adapter",
        )
    # the same points, counted from the lowest integer or from the middle
    bits = encoding.bitwidth or dtype.bits
    shift = 2 ** (bits - 1) if tensor.dtype.is_signed else -(2 ** (bits - 1))
    return ScaleOffset(encoding.scale, encoding.offset + shift, encoding.bitwidth)


def encoding_for(tensor: Tensor, values: Array) -> Encoding:
    """Return an encoding for values; see `dovetail.quantization.Quantizer.encoding_for`."""
    encoding, values = tensor.encoding, np.asarray(values, np.float32)
    where = f"tensor '{tensor.name}'"
    if not np.isfinite(values).all():
        raise QuantizationError("contains NaN or infinity", where=where)
    bits = (encoding and encoding.bitwidth) or tensor.dtype.bits
    if isinstance(encoding, ScaleOffset):
        shift = 2 ** (bits - 1) if tensor.dtype.is_signed and encoding.offset else 0
        is_symmetric = tensor.dtype.is_signed and not shift
        scales, offsets = _grids(values.reshape(1, -1), bits, is_symmetric=is_symmetric)
        return ScaleOffset(float(scales[0]), int(offsets[0]) + shift, encoding.bitwidth)
    if isinstance(encoding, AxisScaleOffset) and encoding.offsets is None:
        rows = np.moveaxis(values, encoding.axis, 0).reshape(values.shape[encoding.axis], -1)
        scales, _ = _grids(rows, bits, is_symmetric=True)
        return AxisScaleOffset(encoding.axis, scales, None, encoding.bitwidth)
    if isinstance(encoding, Block) and encoding.offsets is None:
        rows = _blocks(values, encoding.block_size)
        scales, _ = _grids(rows, bits, is_symmetric=True)
        shaped = scales.reshape(encoding.scales.shape)
        return Block(encoding.block_size, shaped, None, encoding.bitwidth)
    raise QuantizationError(
        f"cannot derive an encoding of the kind {type(encoding).__name__} from values",
        where=where,
        hint="give the encodings of the adapter in an encodings file",
    )


def _grids(rows: Array, bits: int, *, is_symmetric: bool) -> tuple[Array, Array]:
    """Return scales and offsets that span the values of each row."""
    empty = not rows.shape[1]
    minimum = np.zeros(len(rows)) if empty else rows.min(axis=1)
    maximum = np.zeros(len(rows)) if empty else rows.max(axis=1)
    scheme = Scheme.SYMMETRIC if is_symmetric else Scheme.ASYMMETRIC
    return grids_for(minimum, maximum, bits, scheme)


def _blocks(values: Array, sizes: tuple[int, ...]) -> Array:
    """Return the values of each block as a row, in the order of the blocks."""
    pairs = zip(sizes, values.shape, strict=True)
    split = [n for size, whole in pairs for n in (whole // size, size)]
    rank = values.ndim
    order = (*range(0, 2 * rank, 2), *range(1, 2 * rank, 2))
    return values.reshape(split).transpose(order).reshape(-1, math.prod(sizes))


def save_encodings(
    graph: Graph, encodings: Mapping[str, Encoding], path: Path, ops: OpRegistry
) -> None:
    """Write encodings; see `dovetail.quantization.Quantizer.save_encodings`."""
    entries: dict[str, TensorEncoding] = {}
    for name, encoding in encodings.items():
        tensor = copy_tensor(graph.tensor(name))
        tensor.encoding = encoding
        entry = entry_of(tensor)
        if entry is not None and entries.setdefault(entry.name, entry) != entry:
            entries[name] = replace(entry, name=name)  # another tensor has the source's name
    write_encodings(EncodingsFile(_VERSION, entries), path, _VERSION)
    if encodings_in(path, graph, ops) != dict(encodings):
        path.unlink()
        raise QuantizationError(
            "an encodings file cannot hold the encodings of the adapter", where=str(path)
        )
