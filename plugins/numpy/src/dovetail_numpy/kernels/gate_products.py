"""Products in recurrent layers on stored integers: of all x, and of h in a step.

Those of a step have the axes (directions, batch, gates * units).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import Buffers, KernelCall, Value
from dovetail_numpy.integer.gates import ARGUMENT, multipliers
from dovetail_numpy.integer.products import byte_shifts, part
from dovetail_numpy.integer.rescaling import grid_of, scales
from dovetail_numpy.kernels._calls import Call, Floats
from dovetail_opset.directions import Direction

EXACT = 1 << 24  # below this, float32 has each whole number
_F32 = np.float32


class Room:
    """A scratchpad of an array, which stays where it is once the plan is bound.

    Args:
        call: The call of the kernel.
        shape: Of the array.
        dtype: Of its elements.
    """

    def __init__(
        self, call: KernelCall, shape: tuple[int, ...], dtype: np.typing.DTypeLike
    ) -> None:
        self.shape, self._type = shape, np.dtype(dtype)
        self._value = call.scratch(math.prod(shape) * self._type.itemsize)
        self._array: Array | None = None

    def array(self, buffers: Buffers) -> Array:
        """Return the array."""
        if self._array is None:
            found = buffers.array(self._value).view(self._type).reshape(self.shape)
            self._array = found
        return self._array


@dataclass(frozen=True, slots=True)
class Matrices:
    """Weights of several gates that multiply vectors on one grid.

    Attributes:
        each: The direction.
        ports: The weights.
        vectors: Type and encoding of the vectors.
        multipliers: Of the sums with each part of the vectors, (parts, gates * units).
        largest: The largest magnitude of a sum with a part.
        span: Minimum and maximum of the weights' levels.
    """

    each: Direction
    ports: Sequence[int]
    vectors: Spec
    multipliers: Floats
    largest: float
    span: tuple[float, float]

    @classmethod
    def of(
        cls,
        each: Direction,
        ports: Sequence[int],
        vectors: Spec,
        targets: Sequence[Spec] | None = None,
    ) -> Matrices:
        """Return the matrices of a direction for any stored vectors of up to 16 bits.

        Args:
            each: The direction.
            ports: The weights.
            vectors: Type and encoding of the vectors.
            targets: The grid of the sums with each of the weights, by default that of arguments.
        """
        shifts = byte_shifts(vectors)
        specs = [each.view.spec(port) for port in ports]
        levels = _levels([each.static(port) for port in ports], specs)
        units, found = specs[0].shape[0], []
        for spec, target in zip(specs, targets or [ARGUMENT] * len(specs), strict=True):
            products = scales(vectors) * scales(spec).reshape(-1)
            found.append(np.broadcast_to(multipliers(products, target), (units,)))
        factors = np.array([[2**shift] for shift in shifts], np.float32)
        largest = float(np.abs(levels).sum(0).max()) * farthest(vectors)
        span = float(levels.min()), float(levels.max())
        return cls(each, ports, vectors, np.concatenate(found) * factors, largest, span)

    @property
    def shape(self) -> tuple[int, int]:
        """(k, gates * units)."""
        return self.each.view.spec(self.ports[0]).shape[-1], self.multipliers.shape[1]

    @property
    def most(self) -> float:
        """A bound of the sum of all products with the multipliers."""
        return self.largest * float(self.multipliers.sum(0).max())

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """float32 if that has each sum, else float64."""
        return np.dtype(np.float32 if self.largest < EXACT else np.float64)

    @property
    def levels(self) -> Array:
        """Levels of the weights, (k, gates * units)."""
        dtype = self.dtype
        return packed([self], dtype.name, lambda levels: np.ascontiguousarray(levels[0], dtype))


def farthest(spec: Spec) -> float:
    """Return the largest magnitude of a part of the levels of a tensor of up to 16 bits."""
    low, high = spec.dtype.stored_range()
    stored = np.arange(low, high + 1).astype(spec.dtype.storage)
    return max(float(np.abs(part(stored, spec, shift)).max()) for shift in byte_shifts(spec))


def packed(matrices: Sequence[Matrices], form: str, make: Callable[[Array], Array]) -> Array:
    """Return a form of weights, computed once.

    Args:
        matrices: Those of each direction.
        form: Its name.
        make: Returns it for the levels, float64, (directions, k, gates * units).
    """
    found = [(each.each, port) for each in matrices for port in each.ports]
    indices = [i for each, port in found if (i := each.index(port)) is not None]
    count = len(indices) // len(matrices)

    def join(arrays: Sequence[Array | None], specs: Sequence[Spec | None]) -> Array:
        starts = range(0, len(indices), count)
        return make(
            np.stack([_levels(arrays[i : i + count], specs[i : i + count]) for i in starts])
        )

    call = matrices[0].each.call
    return call.packed(indices, f"integer gates of {len(matrices)}, {form}", join)


def _levels(arrays: Sequence[Array | None], specs: Sequence[Spec | None]) -> Array:
    """Return the levels of the weights of gates, float64, (k, gates * units)."""
    gates = [
        part(array, spec, 0).T
        for array, spec in zip(arrays, specs, strict=True)
        if array is not None and spec is not None
    ]
    return np.concatenate(gates, axis=1)


class Inputs(Protocol):
    """Products of all x with the weights of all directions, and the bias."""

    def sums(self, buffers: Buffers) -> Array:
        """Return the array of the sums, float32, (rows of x, directions * gates * units)."""

    def multiply(self, x: Value, buffers: Buffers) -> list[Call]:
        """Return the calls that compute them, of stored integers."""


class InputProducts:
    """Products of x on NumPy.

    Args:
        call: The call of the kernel.
        matrices: Of each direction.
        bias: Added to the products, float32, (directions, gates * units).
    """

    def __init__(self, call: KernelCall, matrices: Sequence[Matrices], bias: Floats) -> None:
        self._vectors, self._bias = matrices[0].vectors, bias.reshape(-1)
        self._levels = np.concatenate([each.levels for each in matrices], axis=1)
        self._multipliers = np.concatenate([each.multipliers for each in matrices], axis=1)
        *sizes, features = self._vectors.shape
        parts, dtype = len(self._multipliers), self._levels.dtype
        self._x = Room(call, (parts, math.prod(sizes), features), dtype)
        self._exact = Room(call, (parts, math.prod(sizes), self._bias.size), dtype)
        is_exact = dtype == np.float32
        self._sums = self._exact if is_exact else Room(call, self._exact.shape, _F32)
        self._products: list[Call] = []

    def sums(self, buffers: Buffers) -> Array:
        """See `Inputs`."""
        found: Array = self._sums.array(buffers)[0]
        return found

    def multiply(self, x: Value, buffers: Buffers) -> list[Call]:
        """See `Inputs`."""
        levels, exact = self._x.array(buffers), self._exact.array(buffers)
        rows = levels.reshape(-1, levels.shape[-1])
        if not self._products:
            sums, *further = self._sums.array(buffers)
            self._products = [
                functools.partial(np.dot, rows, self._levels, exact.reshape(len(rows), -1)),
                *multiplied(exact, self._multipliers[:, None], self._sums.array(buffers)),
                # the bias comes after the first part
                *(functools.partial(np.add, sums, each, sums) for each in (self._bias, *further)),
            ]
        return [
            *split_levels(self._vectors, buffers.array(x).reshape(levels.shape[1:]), levels),
            *self._products,
        ]


def split_levels(spec: Spec, stored: Array, levels: Array) -> list[Call]:
    """Return the calls that split stored integers into parts of levels, (parts, ...)."""
    if len(levels) == 1:
        zero = np.asarray(grid_of(spec)[1], levels.dtype)
        return [functools.partial(np.subtract, stored, zero, levels[0])]

    def split() -> None:
        for out, shift in zip(levels, byte_shifts(spec), strict=True):
            out[...] = part(stored, spec, shift)

    return [split]


class Products(Protocol):
    """Products of h with the matrices of some gates of all directions, in one step."""

    def take(self, index: Array, buffers: Buffers) -> list[Call]:
        """Return the calls that set h by indices among all stored integers."""

    def clear(self, buffers: Buffers) -> Call:
        """Return the call that sets h to the real value 0."""

    def set(self, stored: Array, buffers: Buffers) -> None:
        """Set h to stored integers, (batch, units)."""

    def indices(self, first: Array, index: Array, buffers: Buffers) -> list[Call]:
        """Return the calls that multiply h, add, and round to indices of arguments of functions.

        Args:
            first: Comes first in the sums, float32, (directions, batch, gates * units), contiguous.
            index: Receives the indices, (gates, directions, batch, units).
            buffers: The buffers.
        """


class StepProducts:
    """Products on NumPy.

    Args:
        call: The call of the kernel.
        sizes: Numbers of directions and of rows of a batch.
        matrices: Of each direction.
    """

    def __init__(
        self, call: KernelCall, sizes: tuple[int, int], matrices: Sequence[Matrices]
    ) -> None:
        (self._vectors, *_), factors = (
            [each.vectors for each in matrices],
            np.stack([each.multipliers for each in matrices])[:, :, None],
        )
        dtype = np.result_type(*(each.dtype for each in matrices))
        self._matrices = [each.levels.astype(dtype, copy=False) for each in matrices]
        (directions, batch), parts, width = sizes, factors.shape[1], factors.shape[-1]
        shape = (directions, parts, batch, width)
        self._multipliers = np.ascontiguousarray(np.broadcast_to(factors, shape))
        self._levels = Room(call, (*shape[:3], self._matrices[0].shape[0]), dtype)
        stored, shifts = stored_integers(self._vectors), byte_shifts(self._vectors)
        self._tables = [part(stored, self._vectors, shift).astype(dtype) for shift in shifts]
        self._exact = Room(call, shape, dtype)
        is_exact = dtype == np.float32
        self._scaled = self._exact if is_exact else Room(call, shape, np.float32)

    def take(self, index: Array, buffers: Buffers) -> list[Call]:
        """See `Products`."""
        levels = self._levels.array(buffers)
        if len(self._tables) == 1:
            return [looked_up(self._tables[0], index, levels.reshape(index.shape))]
        return [looked_up(table, index, levels[:, i]) for i, table in enumerate(self._tables)]

    def clear(self, buffers: Buffers) -> Call:
        """See `Products`."""
        return functools.partial(self._levels.array(buffers).fill, 0)

    def set(self, stored: Array, buffers: Buffers) -> None:
        """See `Products`."""
        for i, shift in enumerate(byte_shifts(self._vectors)):
            self._levels.array(buffers)[:, i] = part(stored, self._vectors, shift)

    def indices(self, first: Array, index: Array, buffers: Buffers) -> list[Call]:
        """See `Products`."""
        return [*self.add_up(first, buffers), *indices_of(self.sums(buffers), index)]

    def sums(self, buffers: Buffers) -> Array:
        """Return the array of the sums, float32, (directions, batch, gates * units)."""
        return self._parts(buffers)[0]

    def add_up(self, first: Array, buffers: Buffers) -> list[Call]:
        """Return the calls that compute the sums; `first` is as in `indices`."""
        levels, exact = self._levels.array(buffers), self._exact.array(buffers)
        rows = [each.reshape(-1, each.shape[-1]) for each in levels]
        sums = [each.reshape(-1, each.shape[-1]) for each in exact]
        operands = zip(rows, self._matrices, sums, strict=True)
        total, *further = self._parts(buffers)
        return [
            *(functools.partial(np.dot, *each) for each in operands),
            *multiplied(exact, self._multipliers, self._scaled.array(buffers)),
            *(functools.partial(np.add, total, each, total) for each in (first, *further)),
        ]

    def _parts(self, buffers: Buffers) -> list[Array]:
        scaled = self._scaled.array(buffers)
        parts = scaled.shape[1]
        if parts == 1:  # contiguous
            return [scaled.reshape(scaled.shape[0], *scaled.shape[2:])]
        return [scaled[:, i] for i in range(parts)]


@dataclass(frozen=True, slots=True)
class Engine:
    """Products of a library.

    Attributes:
        inputs: Returns the products of x of a call, for the matrices of each direction and the
            bias, float32, (directions, gates * units).
        products: Returns the products of h of a call, for the numbers of directions and of rows of
            a batch, and the matrices of each direction.
    """

    inputs: Callable[[KernelCall, Sequence[Matrices], Floats], Inputs]
    products: Callable[[KernelCall, tuple[int, int], Sequence[Matrices]], Products]


NUMPY = Engine(InputProducts, StepProducts)


def indices_of(sums: Array, index: Array) -> list[Call]:
    """Return the calls that round sums to indices of arguments; see `Products.indices`."""
    half = np.full_like(sums, -ARGUMENT.dtype.stored_range()[0])
    return [
        functools.partial(np.rint, sums, sums),
        functools.partial(np.add, sums, half, sums),
        by_gate(sums, index),
    ]


def by_gate(found: Array, index: Array) -> Call:
    """Return the call that stores indices by gate; see `Products.indices`."""
    gates = found.reshape(*found.shape[:2], len(index), -1).transpose(2, 0, 1, 3)
    return functools.partial(index.__setitem__, ..., gates)


def multiplied(sums: Array, multiplier: Array, out: Array) -> list[Call]:
    """Return the calls that round exact sums to float32 and multiply them."""
    if sums.dtype == np.float32:
        return [functools.partial(np.multiply, sums, multiplier, out)]
    rounded = functools.partial(out.__setitem__, ..., sums)
    return [rounded, functools.partial(np.multiply, out, multiplier, out)]


def looked_up(table: Array, index: Array, out: Array) -> Call:
    """Return the call that looks up indices of 64 bits; one beyond the table is its end."""
    return functools.partial(table.take, index, None, out, "clip")


def stored_integers(spec: Spec) -> Array:
    """Return all stored integers of a tensor, in order."""
    low, high = grid_of(spec)[2]
    return np.arange(low, high + 1).astype(spec.dtype.storage)
