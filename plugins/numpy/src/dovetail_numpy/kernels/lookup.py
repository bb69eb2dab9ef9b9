"""Elementwise functions of stored integers: tables of what the definition returns.

A table has the result for each stored integer, or for each pair of two 8-bit ones.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from dovetail.ir import Array, DType, ScaleOffset, Spec, dequantize
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.integer import DEFINITIONS, Definition
from dovetail_numpy.integer.binary import BINARY
from dovetail_numpy.integer.conversions import CONVERSIONS
from dovetail_numpy.integer.moves import REQUANTIZING, requantizing_table
from dovetail_numpy.integer.tables import FUNCTIONS
from dovetail_numpy.kernels import wide
from dovetail_numpy.kernels._calls import Call, blocks, copy
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_opset import STANDARD

# Elements that one call looks up: NumPy converts them to indices of 8 bytes each.
_BLOCK = 1 << 17
_PAIRS_BLOCK = 1 << 15
# With fewer elements, a table of pairs costs more than it saves in a run, or takes long to compute.
_LEAST_PAIRS = 1 << 14
_BYTE = 1 << 8
# Elements from which on a table of 16-bit integers is first read in order, in some 10 us: lookups
# alone would wait for each part that is in no near cache. 36,000 of them took 70 us, and then 39.
_LEAST_READ = 1 << 14


@dataclass(frozen=True, slots=True)
class Elementwise:
    """An elementwise node on stored integers.

    Attributes:
        call: Its call.
        definition: Its definition.
        varying: The inputs that are no constant numbers; one for each tensor.
    """

    call: KernelCall
    definition: Definition
    varying: tuple[int, ...]

    @classmethod
    def of(cls, call: KernelCall) -> Elementwise | None:
        """Return the node of a call; None if a table cannot compute it."""
        definition, schema = DEFINITIONS.of(call.head), call.head.schema
        if definition is None or schema is None or not schema.op.is_elementwise:
            return None
        present = [i for i in range(len(call.tensors)) if call.has(i)]
        specs = [call.spec(i) for i in present] + [t.spec for t in call.outputs]
        if len(call.outputs) > 1 or not all(_has_one_scale(spec) for spec in specs):
            return None
        varying = {call.tensors[i]: i for i in present if not _is_number(call, i)}
        if not all(_is_indexed(call.spec(i).dtype) for i in varying.values()):
            return None
        return cls(call, definition, tuple(varying.values()))

    def table(self) -> Array:
        """Return the result for all stored integers of the varying inputs.

        Its axes are those of the inputs; the index of an integer is that of its bits, unsigned.
        """
        call, count = self.call, len(self.varying)
        axes = {call.tensors[i]: axis for axis, i in enumerate(self.varying)}
        ins: list[Array | None] = []
        for i, tensor in enumerate(call.tensors):
            if tensor is None:
                ins.append(None)
                continue
            values = all_integers(tensor.dtype) if tensor in axes else call.static(i)
            along = [-1 if axes.get(tensor) == axis else 1 for axis in range(count)]
            ins.append(np.asarray(values).reshape(along))
        shape = tuple(_count(call.spec(i).dtype) for i in self.varying)
        view, (out,) = call.head, call.head.outs
        specs = tuple(
            None if array is None or spec is None else replace(spec, shape=array.shape)
            for array, spec in zip(ins, view.ins, strict=True)
        )
        view = replace(view, ins=specs, outs=(replace(out, shape=shape),))
        (found,) = self.definition.compute(view, ins)
        return np.ascontiguousarray(np.broadcast_to(found, shape), out.dtype.storage)


def elementwise(call: KernelCall) -> Step | None:
    """Run an elementwise function of one tensor, or of two of 8 bits, by a table.

    See `wide` for more bits.
    """
    node = Elementwise.of(call)
    if node is None:
        return None
    if len(node.varying) == 1 and call.spec(node.varying[0]).shape == call.outputs[0].shape:
        if _is_computed(call):
            return _dequantized(call)
        return looked_up(call, node.varying[0], node.table())
    is_large = math.prod(call.outputs[0].shape) >= _LEAST_PAIRS
    are_bytes = all(_count(call.spec(i).dtype) == _BYTE for i in node.varying)
    if len(node.varying) != 2 or not are_bytes or not is_large:
        return wide.elementwise(call)
    return _looked_up_pairs(call, node.varying, node.table())


def _is_computed(call: KernelCall) -> bool:
    """Return whether a call has two operations, which take less time than lookups of words."""
    is_float = call.outputs[0].dtype is DType.FLOAT_32
    return call.head.op_type == "Dequantize" and is_float and _count(call.spec(0).dtype) > _BYTE


def _dequantized(call: KernelCall) -> Step:
    """Return the step of a Dequantize: 400,000 words took 63 us, and 200 by a table."""
    x, out, encoding = call.read(0), call.write(), call.spec(0).encoding
    if encoding is None:
        raise AssertionError("a Dequantize of real values")

    def bind(buffers: Buffers) -> Bound:
        ends = buffers.array(x), encoding, buffers.array(out)
        return call_sequence([functools.partial(dequantize, *ends)])

    return call.step(bind)


def looked_up(call: KernelCall, index: int, table: Array) -> Step:
    """Return the step that looks up each element of an input in a table, or copies it.

    Args:
        call: Its only output has as many elements as the input.
        index: The input.
        table: The result for each stored integer, see `Elementwise.table`.
    """
    is_same = is_identity(table)
    if is_same and (step := call.view(index)) is not None:
        return step
    x, out = call.read(index), call.write()
    total = math.prod(x.spec.shape)
    if is_same:
        return call.step(lambda buffers: _copied(buffers.array(x), buffers.array(out)))
    is_paired = total >= _LEAST_PAIRS and table.size == _BYTE and table.itemsize == 1
    entries = call.constant(table)
    pairs = call.constant(_pairs(table)) if is_paired else None

    def bind(buffers: Buffers) -> Bound:
        source, result = (buffers.array(v).reshape(-1) for v in (x, out))
        even = 0
        calls: list[Call] = []
        if pairs is not None:
            even = total - total % 2
            halves = source[:even].view(np.uint16), result[:even].view(np.uint16)
            calls += _takes(buffers.array(pairs), *halves)
        if even < total:
            known = buffers.array(entries)
            if known.size > _BYTE and total >= _LEAST_READ:
                calls.append(known.view(np.uint64).max)
            calls += _takes(known, _bits(source[even:]), result[even:])
        return call_sequence(calls)

    # NumPy converts a block's elements to indices before it writes
    is_in_place = x.spec.dtype.storage.itemsize == table.itemsize
    return call.step(bind, in_place=[(0, 0)] if is_in_place else [])


def requantized(call: KernelCall) -> Step | None:
    """Run Reshape, ExpandDims or Squeeze to another grid, by a table."""
    x, out = call.spec(0), call.outputs[0].spec
    is_same = (x.dtype, x.encoding) == (out.dtype, out.encoding)
    if is_same or not out.dtype.is_fixed_point or 0 in x.shape:
        return None
    table = requantizing_table(x, out)
    return None if table is None else looked_up(call, 0, table)


def is_identity(table: Array) -> bool:
    """Return whether a table has the bits of each stored integer."""
    return table.size == 1 << 8 * table.itemsize and bool(
        (_bits(table) == np.arange(table.size)).all()
    )


def _copied(source: Array, result: Array) -> Bound:
    return call_sequence([copy(_bits(result), _bits(source).reshape(result.shape))])


def _looked_up_pairs(call: KernelCall, inputs: Sequence[int], table: Array) -> Step:
    """Return the step that looks up pairs of elements of two 8-bit inputs, which broadcast."""
    first, second = (call.read(i) for i in inputs)
    out = call.write()
    entries = call.constant(table.reshape(-1))
    shape = call.outputs[0].shape
    inner = math.prod(shape[1:])
    rows = min(shape[0], max(1, _PAIRS_BLOCK // inner))
    pad = call.scratch(rows * inner * np.dtype(np.uint16).itemsize)

    def bind(buffers: Buffers) -> Bound:
        result = buffers.array(out)
        parts = [np.broadcast_to(_bits(buffers.array(v)), shape) for v in (first, second)]
        spare, known = buffers.array(pad).view(np.uint16), buffers.array(entries)
        calls: list[Call] = []
        for block in blocks(shape[0], rows):
            a, b, into = (array[block] for array in (*parts, result))
            index = spare[: into.size].reshape(into.shape)
            calls += [
                functools.partial(np.left_shift, a, 8, out=index, dtype=np.uint16),
                functools.partial(np.bitwise_or, index, b, out=index),
                functools.partial(known.take, index, None, into, "wrap"),
            ]
        return call_sequence(calls)

    return call.step(bind)


def _takes(table: Array, source: Array, result: Array) -> list[Call]:
    """Return the calls that look up a block of elements each.

    No index exceeds the table; with mode="raise", NumPy would write into a copy of the result.
    """
    return [
        functools.partial(table.take, source[block], None, result[block], "wrap")
        for block in blocks(source.size, _BLOCK // source.itemsize)
    ]


def _pairs(table: Array) -> Array:
    """Return the results for two bytes at once, as the bytes of a 16-bit integer."""
    one = table.view(np.uint8)
    return np.asarray((one.astype(np.uint16) << 8)[:, None] | one).reshape(-1)


def all_integers(dtype: DType) -> Array:
    """Return all stored integers of a type, in the order of their bits, unsigned."""
    storage = dtype.storage
    return np.arange(_count(dtype), dtype=f"u{storage.itemsize}").view(storage)


def _count(dtype: DType) -> int:
    return 1 << 8 * dtype.storage.itemsize


def _bits(stored: Array) -> Array:
    """Return stored integers as unsigned ones of the same bits."""
    return stored.view(f"u{stored.itemsize}")


def _has_one_scale(spec: Spec) -> bool:
    """Return whether stored elements mean the same everywhere; there must be some."""
    return isinstance(spec.encoding, ScaleOffset | None) and 0 not in spec.shape


def _is_number(call: KernelCall, index: int) -> bool:
    """Return whether an input is one constant number."""
    return call.static(index) is not None and math.prod(call.spec(index).shape) == 1


def _is_indexed(dtype: DType) -> bool:
    """Return whether a table has an entry for each stored element of a type."""
    return dtype.storage.itemsize <= 2 and dtype.storage.kind in "iu"


# The ops that `elementwise` may support, by name: asking the op set for all would import it.
OPS = (*FUNCTIONS, *BINARY, *CONVERSIONS, "Cast")
for _op_type in OPS:
    KERNELS.register(STANDARD, _op_type, quantized=True)(elementwise)
for _op_type in REQUANTIZING:
    KERNELS.register(STANDARD, _op_type, quantized=True)(requantized)
