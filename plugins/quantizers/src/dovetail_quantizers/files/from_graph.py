"""The encodings of a quantized graph, in the names and layouts of the user's model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Literal

import numpy as np

from dovetail import __version__
from dovetail.errors import Problem, QuantizationError, counted
from dovetail.ir import (
    Array,
    AxisScaleOffset,
    Block,
    BlockwiseExpansion,
    DType,
    Graph,
    ScaleOffset,
    Shape,
    Tensor,
)
from dovetail_opset import is_op
from dovetail_opset.perms import from_source, to_source
from dovetail_quantizers.files.form import EncodingsFile, Form, Plain, TensorEncoding

_CONVERSIONS = ("Convert", "Quantize", "Dequantize")
_FLOATS = (DType.FLOAT_16, DType.FLOAT_32)


def encodings_of(graph: Graph, version: str = "1.0.0") -> EncodingsFile:
    """Return the encodings of a quantized graph, in the names and layouts of the user's model.

    Integers without an encoding, such as indices, have no entry. If several tensors come from one
    tensor of the user's model and differ, all but the first have their names in the graph.

    Args:
        graph: Any graph.
        version: Version of the resulting file.

    Raises:
        QuantizationError: No file can represent some encodings; all are listed.
    """
    entries: dict[str, TensorEncoding] = {}
    problems: list[Problem] = []
    left_out = _follow_from_others(graph)
    # a constant that a pass folded from an activation has its name; the activation comes first
    for tensor in sorted(graph.tensors.values(), key=lambda t: t.kind.is_static):
        if tensor in left_out:
            continue
        try:
            entry = entry_of(tensor)
        except QuantizationError as error:
            problems.append(error.as_problem())
            continue
        if entry is not None and entries.setdefault(entry.name, entry) != entry:
            own = dataclasses.replace(entry, name=tensor.name)
            entries.setdefault(own.name, own)
    if problems:
        raise QuantizationError(
            f"{counted(len(problems), 'encoding')} cannot be written to a file",
            where=f"graph '{graph.name}'",
            problems=problems,
        )
    producer: dict[str, Plain] = {"package": "dovetail", "version": __version__}
    return EncodingsFile(version, entries, producer, _arguments(entries.values()))


def _follow_from_others(graph: Graph) -> set[Tensor]:
    """Return float tensors that share their names in the user's model with other tensors.

    They are copies for float consumers, and interfaces that stay float (preserve_io_datatype) while
    the graph is fixed-point: a file with float entries for them would make the graph float.
    """
    found = set()
    for node in graph.nodes:
        if not is_op(node, *_CONVERSIONS) or node.sources:
            continue
        x, y = node.inputs[0], node.outputs[0]
        if x is None or x.source != y.source:
            continue
        if node.op_type == "Quantize" and graph.is_input(x):
            found.add(x)
        elif y.dtype.is_float and (node.op_type == "Dequantize" or not graph.is_output(y)):
            found.add(y)
    return found


def entry_of(tensor: Tensor) -> TensorEncoding | None:
    """Return the entry of one tensor; None if it is neither quantized nor float.

    Raises:
        QuantizationError: No file can represent its blocks.
    """
    name, is_param, encoding = tensor.source, tensor.kind.is_static, tensor.encoding
    if tensor.dtype in _FLOATS:
        return TensorEncoding(name, "float", tensor.dtype.bits, is_param=is_param)
    if encoding is None or not tensor.dtype.is_fixed_point:
        return None
    bitwidth = encoding.bitwidth or tensor.dtype.bits
    if isinstance(encoding, ScaleOffset):
        scale, offset = encoding.scales_and_offsets(())
        return _entry(tensor, bitwidth, Form.PER_TENSOR, scale, offset)
    if isinstance(encoding, AxisScaleOffset):
        scales, offsets = (np.ravel(a) for a in encoding.scales_and_offsets(tensor.shape))
        axis = from_source(tensor)[encoding.axis]
        return _entry(tensor, bitwidth, Form.PER_CHANNEL, scales, offsets, axis)
    if isinstance(encoding, Block):
        return _blocks(tensor, encoding, bitwidth)
    if isinstance(encoding, BlockwiseExpansion):
        return _expansion(tensor, encoding, bitwidth)
    raise _unheld(tensor, f"an encoding of kind {encoding.kind.name}")


def _entry(
    tensor: Tensor,
    bitwidth: int,
    form: Form,
    scales: Array,
    offsets: Array,
    axis: int | None = None,
    block_size: int | None = None,
) -> TensorEncoding:
    signed = tensor.dtype.is_signed
    derived = not np.any(scales)
    half = 1 << (bitwidth - 1) if signed and not derived else 0
    return TensorEncoding(
        tensor.source,
        "int",
        bitwidth,
        form,
        signed and not np.any(offsets),
        exact_scales(scales),
        offsets.astype(np.int64) - half,
        axis,
        block_size,
        signed=signed,
        is_param=tensor.kind.is_static,
    )


def _blocks(tensor: Tensor, encoding: Block, bitwidth: int) -> TensorEncoding:
    """Return blocks along one axis; each element along the others has a copy of the numbers."""
    perm = to_source(tensor)
    sizes = tuple(encoding.block_size[p] for p in perm)
    shape = tuple(tensor.shape[p] for p in perm)
    # the axis that is divided; if none is, the one that a block spans
    axis = max(range(len(shape)), key=lambda i: (1 < sizes[i] < shape[i], sizes[i] > 1, i))
    given = encoding.offsets
    scales = encoding.scales.transpose(perm)
    offsets = np.zeros(scales.shape, np.int32) if given is None else given.transpose(perm)
    for i, size in enumerate(sizes):
        if i != axis:
            scales, offsets = np.repeat(scales, size, i), np.repeat(offsets, size, i)
    return _entry(tensor, bitwidth, Form.PER_BLOCK, scales, offsets, axis, sizes[axis])


def _expansion(tensor: Tensor, encoding: BlockwiseExpansion, bitwidth: int) -> TensorEncoding:
    shape, channel = tensor.shape, encoding.axis
    rest = [i for i in range(len(shape)) if i != channel]
    sizes = tuple(shape[i] for i in rest)
    length = math.prod(sizes) // encoding.block_scales.shape[1]
    cut, size = _cut_axis(sizes, length)
    if cut is None or (encoding.offsets is not None and np.any(encoding.offsets)):
        raise _unheld(tensor, f"blocks of {length} elements that follow no axis, or has offsets")
    every = np.repeat(encoding.block_scales, length, axis=1).reshape(shape[channel], *sizes)
    factors = np.moveaxis(every, 0, channel).take(range(0, sizes[cut], size), axis=rest[cut])
    perm = to_source(tensor)
    scales = encoding.scales.reshape([-1 if i == channel else 1 for i in range(len(shape))])
    narrow = bitwidth
    made = _entry(
        tensor,
        2 * narrow,
        Form.LPBQ,
        scales.transpose(perm),
        np.zeros(scales.shape, np.int32).transpose(perm),
        from_source(tensor)[rest[cut]],
        size,
    )
    return made.with_factors(factors.transpose(perm).astype(np.int64), narrow)


def _cut_axis(sizes: Shape, length: int) -> tuple[int | None, int]:
    """Return the axis that blocks of `length` elements in C order divide, and their size."""
    inner = 1
    for axis in reversed(range(len(sizes))):
        size, left = divmod(length, inner)
        if left == 0 and 1 <= size <= sizes[axis] and sizes[axis] % size == 0 and (sizes[axis] > 1):
            return axis, size
        inner *= sizes[axis]
    return None, 0


def exact_scales(scales: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return float32 scales as float64 with the same text: 0.1, not 0.10000000149011612."""
    narrow = np.asarray(scales, np.float32)
    texts = [str(value) for value in narrow.reshape(-1)]
    return np.asarray(texts, np.float64).reshape(narrow.shape)


def _arguments(entries: Iterable[TensorEncoding]) -> dict[str, Plain]:
    """Return the global settings of 1.0.0, by the most common bitwidths."""
    widths: dict[bool, list[int]] = {False: [], True: []}
    for entry in entries:
        if entry.kind == "int" and entry.bitwidth < 32:  # without biases
            widths[bool(entry.is_param)].append(entry.bitwidth)
    kind: Literal["int", "float"] = "int" if widths[False] or widths[True] else "float"
    made: dict[str, Plain] = {"dtype": kind}
    for key, found in (("activation_bitwidth", widths[False]), ("param_bitwidth", widths[True])):
        if found:
            made[key] = max(sorted(set(found)), key=found.count)
    made["per_channel_quantization"] = any(e.form is not Form.PER_TENSOR for e in entries)
    return made


def _unheld(tensor: Tensor, what: str) -> QuantizationError:
    return QuantizationError(
        f"no encodings file can represent {what}", where=f"tensor '{tensor.source}'"
    )
