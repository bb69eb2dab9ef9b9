"""Helpers of recurrent layers on stored integers: products, and arrays of steps.

Arrays of steps have the axes (directions, batch, gates * units) or (directions, batch, units).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.ops import NodeView
from dovetail.runtime.plan import Buffers, KernelCall
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.functions import sigmoid, tanh
from dovetail_numpy.integer.gates import ARGUMENT, UNIT, multipliers, unit
from dovetail_numpy.integer.products import part
from dovetail_numpy.integer.rescaling import grid_of, real_bias, scales
from dovetail_numpy.kernels._calls import Call, Floats
from dovetail_opset.directions import Direction, can_fuse_sibling

MOST_ARGUMENT = 2.0**62  # arguments below this are indices of 64 bits
_EXACT = 1 << 24  # below this, float32 has each whole number
_BYTE = 8  # bits


@dataclass(frozen=True, slots=True)
class Matrices:
    """Weights of several gates that multiply vectors on one grid.

    Attributes:
        levels: (k, gates * units), float32 if that has each sum, else float64.
        multiplier: Of the sums, (gates * units,).
        most: A bound of their products with it.
    """

    levels: Array
    multiplier: Floats
    most: float

    @classmethod
    def of(cls, each: Direction, ports: Sequence[int], vectors: Spec) -> Matrices:
        """Return the matrices of a direction for any stored vectors of up to 8 bits."""
        zero, call = grid_of(vectors)[1], each.call
        farthest = max(abs(end - zero) for end in vectors.dtype.stored_range())

        def make(arrays: Sequence[Array | None], specs: Sequence[Spec | None]) -> Array:
            gates = [
                part(array, spec, 0).T
                for array, spec in zip(arrays, specs, strict=True)
                if array is not None and spec is not None
            ]
            levels = np.concatenate(gates, axis=1)
            is_exact = np.abs(levels).sum(0).max() * farthest < _EXACT
            return np.ascontiguousarray(levels, np.float32 if is_exact else np.float64)

        indices = [i for port in ports if (i := each.index(port)) is not None]
        levels = call.packed(indices, f"integer gates for {farthest}", make)
        units, found = each.view.spec(ports[0]).shape[0], []
        for port in ports:
            products = scales(vectors) * scales(each.view.spec(port)).reshape(-1)
            found.append(np.broadcast_to(multipliers(products, ARGUMENT), (units,)))
        multiplier = np.concatenate(found)
        most = float(np.abs(levels).sum(0).max()) * farthest * float(multiplier.max())
        return cls(levels, multiplier, most)


def can_fuse(group: Sequence[NodeView], node: NodeView) -> bool:
    """Return whether a node is the other direction, or joins both without another rounding."""
    first, out = group[0].outs[0], node.outs[0]
    is_same = (first.dtype, first.encoding) == (out.dtype, out.encoding)
    return is_same and can_fuse_sibling(group, node)


def are_bytes(each: Direction, weights: Sequence[int], biases: Sequence[int]) -> bool:
    """Return whether a direction has a definition, and 8-bit data and constant weights."""
    view = each.view
    if DEFINITIONS.of(view) is None or any(each.static(i) is None for i in weights):
        return False
    if any(each.has(i) and each.static(i) is None for i in biases):
        return False
    specs = [view.spec(0), view.outs[0], *(view.spec(i) for i in weights)]
    return all(spec.dtype.bits <= _BYTE and 0 not in spec.shape for spec in specs)


def bias_of(each: Direction, port: int, weights: Spec, vectors: Spec) -> Array:
    """Return the real bias of a gate, (units,), 0 if it is omitted.

    Args:
        each: The direction.
        port: The bias.
        weights: Those of the gate.
        vectors: What they multiply.
    """
    stored, units = each.static(port), weights.shape[0]
    if stored is None:
        return np.zeros(units)
    products = scales(vectors) * scales(weights).reshape(-1)
    return np.broadcast_to(real_bias(stored, each.view.spec(port), products), (units,))


@dataclass(frozen=True, slots=True)
class Arrays:
    """The arrays of the steps of a layer.

    Attributes:
        before: Calls that multiply all x.
        of_x: Sums with x and the bias, float32, (steps, directions, batch, gates * units).
        h: Levels before each step and after the last, (steps + 1, directions, batch, units).
        after: Calls that store all h.
    """

    before: Sequence[Call]
    of_x: Array
    h: Array
    after: Sequence[Call]


class Sequences:
    """The sequences of a layer: x, sums with x, and h.

    Args:
        call: The call of the layer.
        directions: Its directions.
        of_x: Their matrices that multiply x.
        bias: Added to these products, float32, (directions, gates * units).
        type_of_h: The type of levels of h.
    """

    def __init__(
        self,
        call: KernelCall,
        directions: Sequence[Direction],
        of_x: Sequence[Matrices],
        bias: Floats,
        type_of_h: np.dtype[np.floating],
    ) -> None:
        shape = call.spec(0).shape
        one = np.broadcast_to(np.empty((), np.int8), shape)  # of one element
        steps, batch, features = call.op.in_order(one).shape
        self._shape, self._directions, self.type_of_h = shape, directions, type_of_h
        self._levels = np.concatenate([each.levels for each in of_x], axis=1)
        self._multipliers, self._bias = [each.multiplier for each in of_x], bias[:, None]
        self._type, rows = self._levels.dtype, steps * batch
        self._zero_of_x = np.asarray(grid_of(call.spec(0))[1], self._type)
        self._zero_of_h = np.asarray(grid_of(directions[0].view.outs[0])[1], type_of_h)
        self.steps, self.units = (len(bias), batch), directions[0].view.outs[0].shape[-1]
        self._x, self._out = call.read(0), call.write(0)
        self._x_room = Room(call, (rows, features), self._type)
        self._rows = Room(call, (rows, self._levels.shape[1]), self._type)
        self._of_x = Room(call, (steps, len(bias), batch, bias.shape[1]), np.float32)
        self._h = Room(call, (steps + 1, len(bias), batch, self.units), type_of_h)
        self._products: list[Call] = []

    def bind(self, buffers: Buffers) -> Arrays:
        """Return the arrays and calls for these buffers."""
        x, out = buffers.array(self._x), buffers.array(self._out)
        levels, of_x, h = (room.array(buffers) for room in (self._x_room, self._of_x, self._h))
        if not self._products:
            self._products = self._multiplied(levels, self._rows.array(buffers), of_x)
        subtract = functools.partial(np.subtract, x.reshape(levels.shape), self._zero_of_x, levels)
        after: list[Call] = []
        for i, each in enumerate(self._directions):
            stored = each.op.in_order(out)[..., i * self.units : (i + 1) * self.units]
            add = functools.partial(np.add, h[1:, i], self._zero_of_h, casting="unsafe")
            after.append(functools.partial(add, out=stored))
        return Arrays([subtract, *self._products], of_x, h, after)

    def _multiplied(self, levels: Array, rows: Array, of_x: Array) -> list[Call]:
        """Return the calls that compute the sums with x."""
        calls: list[Call] = [functools.partial(np.dot, levels, self._levels, rows)]
        sums = rows.reshape(*self._shape[:-1], -1)
        for i, (each, multiplier) in enumerate(
            zip(self._directions, self._multipliers, strict=True)
        ):
            at = slice(i * multiplier.size, (i + 1) * multiplier.size)
            calls += multiplied(each.op.in_order(sums)[..., at], multiplier, of_x[:, i])
        return [*calls, functools.partial(np.add, of_x, self._bias, of_x)]


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
        self._shape, self._type = shape, np.dtype(dtype)
        self._value = call.scratch(math.prod(shape) * self._type.itemsize)
        self._array: Array | None = None

    def array(self, buffers: Buffers) -> Array:
        """Return the array."""
        if self._array is None:
            found = buffers.array(self._value).view(self._type).reshape(self._shape)
            self._array = found
        return self._array


class StepProducts:
    """Products of h with the matrices of some gates of all directions, in one step.

    Args:
        call: The call of the kernel.
        sizes: Numbers of directions and of rows of a batch.
        matrices: Of each direction.
        dtype: The type of levels of h.
    """

    def __init__(
        self,
        call: KernelCall,
        sizes: tuple[int, int],
        matrices: Sequence[Matrices],
        dtype: np.dtype[np.floating],
    ) -> None:
        self._matrices = [each.levels.astype(dtype, copy=False) for each in matrices]
        multipliers = np.stack([each.multiplier for each in matrices])[:, None]
        shape = (*sizes, multipliers.shape[-1])
        self._multiplier = np.ascontiguousarray(np.broadcast_to(multipliers, shape))
        self._exact, self.sums = Room(call, shape, dtype), Room(call, shape, np.float32)
        self._half = np.full(shape, -ARGUMENT.dtype.stored_range()[0], np.float32)

    def of(self, levels: Array, buffers: Buffers) -> list[Call]:
        """Return the calls that multiply levels."""
        exact = self._exact.array(buffers)
        operands = zip(levels, self._matrices, exact, strict=True)
        return [
            *(functools.partial(np.dot, *each) for each in operands),
            *multiplied(exact, self._multiplier, self.sums.array(buffers)),
        ]

    def arguments(self, buffers: Buffers, index: Array) -> list[Call]:
        """Return the calls that round the sums to indices, (gates, directions, batch, units)."""
        sums = self.sums.array(buffers)
        by_gate = sums.reshape(*sums.shape[:2], len(index), -1).transpose(2, 0, 1, 3)
        return [
            functools.partial(np.rint, sums, sums),
            functools.partial(np.add, sums, self._half, sums),
            functools.partial(np.copyto, index, by_gate, "unsafe"),
        ]


def multiplied(sums: Array, multiplier: Array, out: Array) -> list[Call]:
    """Return the calls that round exact sums to float32 and multiply them."""
    if sums.dtype == np.float32:
        return [functools.partial(np.multiply, sums, multiplier, out)]
    rounded = functools.partial(np.copyto, out, sums, "same_kind")
    return [rounded, functools.partial(np.multiply, out, multiplier, out)]


def looked_up(table: Array, index: Array, out: Array) -> Call:
    """Return the call that looks up indices of 64 bits; one beyond the table is its end."""
    return functools.partial(table.take, index, None, out, "clip")


def looked_up_by_direction(tables: Sequence[Array], index: Array, out: Array) -> list[Call]:
    """Return the calls that look up indices in the table of each direction."""
    if all(table is tables[0] for table in tables):
        return [looked_up(tables[0], index, out)]
    return [looked_up(*each) for each in zip(tables, index, out, strict=True)]


def stored_integers(spec: Spec) -> Array:
    """Return all stored integers of a tensor, in order."""
    low, high = grid_of(spec)[2]
    return np.arange(low, high + 1).astype(spec.dtype.storage)


def levels_of(spec: Spec, dtype: np.typing.DTypeLike = np.float64) -> Array:
    """Return the levels of all stored integers."""
    return np.asarray(stored_integers(spec).astype(np.int64) - grid_of(spec)[1], dtype)


@functools.cache
def function_of_arguments(name: str) -> Array:
    """Return real values of `sigmoid` or `tanh` for all arguments of a gate, float64."""
    function = {"sigmoid": sigmoid, "tanh": tanh}[name]
    return unit(function, stored_integers(ARGUMENT), ARGUMENT) * UNIT


@dataclass(frozen=True, slots=True)
class Grids:
    """Grids of one result in each direction, for arrays of a shape.

    Attributes:
        specs: One for each direction.
        shape: (directions, batch, units).
    """

    specs: Sequence[Spec]
    shape: tuple[int, ...]

    @property
    def per_unit(self) -> Array:
        """Steps in a real 1."""
        return self._full([1 / grid_of(spec)[0] for spec in self.specs])

    def rounding(self, steps: Array, index: Array) -> list[Call]:
        """Return the calls that round steps and write the index among all stored integers."""
        zero = self._full([grid_of(spec)[1] for spec in self.specs])
        low = self._full([grid_of(spec)[2][0] for spec in self.specs])
        calls: list[Call] = []
        if zero.any():
            calls.append(functools.partial(np.add, steps, zero, steps))
        calls.append(functools.partial(np.rint, steps, steps))
        if low.any():
            calls.append(functools.partial(np.subtract, steps, low, steps))
        return [*calls, functools.partial(np.copyto, index, steps, "unsafe")]

    def _full(self, by_direction: Sequence[float]) -> Array:
        column = np.array(by_direction, np.float64).reshape(-1, 1, 1)
        return np.ascontiguousarray(np.broadcast_to(column, self.shape))
