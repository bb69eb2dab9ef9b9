"""Recurrent layers on stored integers: their products on oneDNN, the rest on NumPy.

The product of all x is one primitive, and that of h in a step is another, which also adds what
comes from x and rounds to indices of tables, which saturate in 32 bits. With VNNI they multiply
bytes; otherwise they add whole numbers in float32, if that is exact.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import Buffers, KernelCall, Step, Value
from dovetail_numpy.integer.gates import ARGUMENT
from dovetail_numpy.integer.rescaling import grid_of, levels
from dovetail_numpy.kernels import integer_gru, integer_lstm
from dovetail_numpy.kernels._calls import Call, Floats
from dovetail_numpy.kernels.gate_products import (
    Engine,
    InputProducts,
    Inputs,
    Matrices,
    Products,
    Room,
    StepProducts,
    by_gate,
    looked_up,
    packed,
    split_levels,
    stored_integers,
)
from dovetail_onednn._api import ZERO_POINTS, Algorithm, Arg, BinaryAlgorithm, DataType
from dovetail_onednn._library import library
from dovetail_onednn.attributes import REAL, Binary, Eltwise, Quantization, operand
from dovetail_onednn.bound_primitive import BoundPrimitive
from dovetail_onednn.descriptors import Memory, MemoryDesc
from dovetail_onednn.execution import release_gil
from dovetail_onednn.layouts import OneDnnLayout, dense
from dovetail_onednn.primitives import ENGINE, Description, Primitive, PrimitiveDesc
from dovetail_onednn.quantized.products import LARGEST
from dovetail_onednn.quantized.types import TYPES
from dovetail_onednn.reorder import pack
from dovetail_onednn.steps import is_slow
from dovetail_onednn.threads import threads_for

_HALF = float(-ARGUMENT.dtype.stored_range()[0])
# Bytes take a small part of the time of floats, and between a step's products other threads wait.
_LESS_SHARED = 16


def lstm(call: KernelCall) -> Step | None:
    """Run Lstm; see `Kernel.make`."""
    return integer_lstm.lstm(call, _ENGINE)


def gru(call: KernelCall) -> Step | None:
    """Run Gru; see `Kernel.make`."""
    return integer_gru.gru(call, _ENGINE)


def _inputs(call: KernelCall, matrices: Sequence[Matrices], bias: Floats) -> Inputs:
    """Return products of x on oneDNN, or on NumPy where the library's are not exact, or slow."""
    if (form := _form_of(matrices)) is not None:
        *sizes, features = matrices[0].vectors.shape
        shape = (math.prod(sizes), features, bias.size)
        product = _Product(form, matrices, shape, joined=True)
        if not is_slow(product.desc):
            return _Inputs(call, product, bias)
    return InputProducts(call, matrices, bias)


def _products(call: KernelCall, sizes: tuple[int, int], matrices: Sequence[Matrices]) -> Products:
    """Return products of h on oneDNN, or on NumPy, as for x."""
    form = _form_of(matrices)
    if form is not None:
        directions, batch = sizes
        shape = (batch, *matrices[0].shape)
        product = _Product(form, matrices, shape if directions == 1 else (directions, *shape))
        if not is_slow(product.desc):
            return _Products(call, product, sizes)
    return StepProducts(call, sizes, matrices)


_ENGINE = Engine(_inputs, _products)


class _Form:
    """The form of vectors in products: stored bytes, or levels in float32."""

    def __init__(self, vectors: Spec, *, are_bytes: bool) -> None:
        self.vectors, self.are_bytes = vectors, are_bytes
        self.types = (
            (TYPES[vectors.dtype], DataType.S8, DataType.S32)
            if are_bytes
            else (DataType.F32, DataType.F32, DataType.F32)
        )
        self.storage = vectors.dtype.storage if are_bytes else np.dtype(np.float32)
        self.zero = np.full(1, grid_of(vectors)[1], np.int32)

    def data(self, stored: Array) -> Array:
        """Return stored integers as they are multiplied."""
        return stored if self.are_bytes else levels(stored, self.vectors).astype(np.float32)


def _form_of(matrices: Sequence[Matrices]) -> _Form | None:
    """Return the form of an exact product; None if the library has none."""
    vectors = matrices[0].vectors
    if vectors.dtype not in TYPES:
        return None
    low, high = vectors.dtype.stored_range()
    are_bytes = (
        library().has_vnni
        and low <= grid_of(vectors)[1] <= high
        and all(least >= -128 and most <= 127 for least, most in (each.span for each in matrices))
        and all(each.largest <= LARGEST for each in matrices)
    )
    is_exact = are_bytes or all(each.dtype == np.float32 for each in matrices)
    return _Form(vectors, are_bytes=are_bytes) if is_exact else None


class _Product:
    """A primitive: products, times factors, plus numbers, and perhaps indices of these.

    Args:
        form: That of the vectors.
        matrices: Of each direction.
        shape: (rows, k, units), or that of a stack of directions, which has more overhead.
        joined: Whether one matrix has the units of all directions, to which a bias is added;
            otherwise the products of h have numbers of their own added, and become indices.
    """

    def __init__(
        self,
        form: _Form,
        matrices: Sequence[Matrices],
        shape: tuple[int, ...],
        *,
        joined: bool = False,
    ) -> None:
        *stack, rows, depth, units = shape
        source, weights, target = form.types
        by_unit, by_row = dense((*stack, 1, units)), dense((*stack, rows, units))
        data = dense((*stack, rows, depth)).of_type(source)
        plain = dense((*stack, depth, units)).of_type(weights)
        factors = Binary(BinaryAlgorithm.MULTIPLY, by_unit)
        added = Binary(BinaryAlgorithm.ADD, by_unit if joined else by_row)
        indices = Eltwise(Algorithm.ROUND), Eltwise(Algorithm.LINEAR, 1.0, _HALF)
        description = Description(
            "matmul",
            (
                *(ENGINE, data, MemoryDesc.any(plain.dims, weights), None),
                by_row if joined else by_row.of_type(target),
            ),
            lambda: f"products of a recurrent layer of integers: {data.key} by {plain.key}",
            (factors, added) if joined else (factors, added, *indices),
            quantization=Quantization((), (Arg.SOURCE,)) if form.are_bytes else REAL,
        )
        with threads_for(math.prod(shape) // _LESS_SHARED):
            self.desc = PrimitiveDesc(description)
        self.form, self.primitive = form, Primitive(self.desc)
        self.added = operand(1, added)
        layout = OneDnnLayout(self.desc.desc(Arg.WEIGHTS), plain)
        kind = np.int8 if form.are_bytes else np.float32

        def make(found: Array) -> Array:  # (directions, k, units)
            rows = found.transpose(1, 0, 2) if joined else found
            return pack(np.ascontiguousarray(rows, kind), layout)

        name = f"{form.vectors.dtype.name} {'joined' if joined else 'apart'} {layout.key}"
        self._descs = {operand(0, factors): by_unit, self.added: added.other}
        self._constants = {
            int(Arg.WEIGHTS): packed(matrices, name, make),
            operand(0, factors): np.stack([each.multipliers for each in matrices]),
        }
        if form.are_bytes:
            self._constants[ZERO_POINTS | Arg.SOURCE] = form.zero

    @property
    def scratchpad(self) -> int:
        """Size of the scratchpad in bytes."""
        return self.primitive.scratchpad.nbytes

    def constants(self) -> dict[int, Memory]:
        """Return the memories of the constants."""
        return self.memories(self._constants)

    def memories(self, arrays: Mapping[int, Array]) -> dict[int, Memory]:
        """Return the memories of arguments."""
        return {
            arg: Memory(self._descs.get(arg) or self.desc.desc(arg), array.ctypes.data)
            for arg, array in arrays.items()
        }


class _Inputs:
    """Products of x as one primitive; see `Inputs`."""

    def __init__(self, call: KernelCall, product: _Product, bias: Floats) -> None:
        self._product, self._release_gil = product, release_gil(call.options)
        self._bias, form = np.ascontiguousarray(bias), product.form
        source, sums = (product.desc.desc(arg).dims for arg in (Arg.SOURCE, Arg.DESTINATION))
        self._levels = None if form.are_bytes else Room(call, (1, *source), form.storage)
        self._sums = Room(call, sums, np.float32)
        self._pad = Room(call, (product.scratchpad,), np.uint8)
        self._execute: BoundPrimitive | None = None

    def sums(self, buffers: Buffers) -> Array:
        """See `Inputs`."""
        return self._sums.array(buffers)

    def multiply(self, x: Value, buffers: Buffers) -> list[Call]:
        """See `Inputs`."""
        if self._execute is None:
            arrays = {
                Arg.DESTINATION: self._sums.array(buffers),
                Arg.SCRATCHPAD: self._pad.array(buffers),
                self._product.added: self._bias,
                Arg.SOURCE: self._levels.array(buffers) if self._levels else buffers.array(x),
            }
            memories = self._product.constants() | self._product.memories(arrays)
            self._execute = BoundPrimitive(
                self._product.primitive, memories, self._release_gil, self
            )
        if self._levels is None:
            self._execute.memory(Arg.SOURCE).move(buffers.address(x))
            return [self._execute]
        levels = self._levels.array(buffers)
        stored = buffers.array(x).reshape(levels.shape[1:])
        return [*split_levels(self._product.form.vectors, stored, levels), self._execute]


class _Products:
    """Products of h as one primitive; see `Products`."""

    def __init__(self, call: KernelCall, product: _Product, sizes: tuple[int, int]) -> None:
        self._product, self._release_gil = product, release_gil(call.options)
        source, found = (product.desc.desc(arg) for arg in (Arg.SOURCE, Arg.DESTINATION))
        kind = np.int32 if product.form.are_bytes else np.float32
        self._h = Room(call, (*sizes, source.dims[-1]), product.form.storage)
        self._found = Room(call, (*sizes, found.dims[-1]), kind)
        self._pad = Room(call, (product.scratchpad,), np.uint8)
        self._table = product.form.data(stored_integers(product.form.vectors))
        # one primitive for all steps: one for each, with their objects, would not fit the caches
        self._added = Room(call, self._found.shape, np.float32)
        self._execute: BoundPrimitive | None = None

    def take(self, index: Array, buffers: Buffers) -> list[Call]:
        """See `Products`."""
        return [looked_up(self._table, index, self._h.array(buffers))]

    def clear(self, buffers: Buffers) -> Call:
        """See `Products`."""
        zero = int(self._product.form.zero[0]) if self._product.form.are_bytes else 0
        return functools.partial(self._h.array(buffers).fill, zero)

    def set(self, stored: Array, buffers: Buffers) -> None:
        """See `Products`."""
        self._h.array(buffers)[...] = self._product.form.data(stored)

    def indices(self, first: Array, index: Array, buffers: Buffers) -> list[Call]:
        """See `Products`."""
        found, added = self._found.array(buffers), self._added.array(buffers)
        if self._execute is None:
            product = self._product
            arrays: dict[int, Array] = {
                Arg.SOURCE: self._h.array(buffers),
                Arg.DESTINATION: found,
                Arg.SCRATCHPAD: self._pad.array(buffers),
                product.added: added,
            }
            memories = product.constants() | product.memories(arrays)
            self._execute = BoundPrimitive(product.primitive, memories, self._release_gil, self)
        set_added = functools.partial(added.__setitem__, ..., first)
        return [set_added, self._execute, by_gate(found, index)]
