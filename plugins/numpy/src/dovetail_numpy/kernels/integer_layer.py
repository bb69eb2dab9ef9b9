"""Helpers of recurrent layers on stored integers: sequences, tables, and grids of results.

Arrays of steps have the axes (directions, batch, gates * units) or (directions, batch, units).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.ops import NodeView
from dovetail.runtime.plan import Buffers, KernelCall
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.functions import sigmoid, tanh
from dovetail_numpy.integer.gates import ARGUMENT, UNIT, unit
from dovetail_numpy.integer.rescaling import grid_of, real_bias, scales
from dovetail_numpy.kernels._calls import Call
from dovetail_numpy.kernels.gate_products import Inputs, Room, looked_up, stored_integers
from dovetail_opset.directions import Direction, can_fuse_sibling

MOST_ARGUMENT = 2.0**62  # arguments below this are indices of 64 bits
_BYTE = 8  # bits
_NEAR_ZERO = 1 << 17  # zero points up to this one leave 34 bits of float64 for fractions
# Added to a float64 of less than 2**51, this rounds it half to even. The sum's bits are a whole
# number then: those of the magic number, plus the rounded one.
_MAGIC = 1.5 * 2.0**52
_MAGIC_BITS = int(np.float64(_MAGIC).view(np.int64))


def can_fuse(group: Sequence[NodeView], node: NodeView) -> bool:
    """Return whether a node is the other direction, or joins both without another rounding."""
    first, out = group[0].outs[0], node.outs[0]
    is_same = (first.dtype, first.encoding) == (out.dtype, out.encoding)
    return is_same and can_fuse_sibling(group, node)


def is_narrow(each: Direction, weights: Sequence[int], biases: Sequence[int]) -> bool:
    """Return whether a direction has a definition, and constant weights of 8 bits."""
    view = each.view
    if DEFINITIONS.of(view) is None or any(each.static(i) is None for i in weights):
        return False
    if any(each.has(i) and each.static(i) is None for i in biases):
        return False
    specs = [view.spec(i) for i in weights]
    if any(spec.dtype.bits > _BYTE for spec in specs):
        return False
    return all(0 not in spec.shape for spec in (view.spec(0), view.outs[0], *specs))


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
        of_x: Sums with x and the bias for each group of gates, float32, (steps, directions, batch,
            gates * units).
        states: Indices of h after each step among all stored integers, before they are clipped,
            int64, (steps, directions, batch, units).
        after: Calls that store all h.
    """

    before: Sequence[Call]
    of_x: Sequence[Array]
    states: Array
    after: Sequence[Call]


class Sequences:
    """The sequences of a layer: x, sums with x, and h.

    Args:
        call: The call of the layer.
        directions: Its directions.
        inputs: Products of all x with the weights of all directions.
        widths: Number of sums of each group of gates.
    """

    def __init__(
        self,
        call: KernelCall,
        directions: Sequence[Direction],
        inputs: Inputs,
        widths: Sequence[int],
    ) -> None:
        shape, count = call.spec(0).shape, len(directions)
        one = np.broadcast_to(np.empty((), np.int8), shape)  # of one element
        steps, batch, _ = call.op.in_order(one).shape
        self._shape, self._directions, self._inputs = shape, directions, inputs
        self.sizes, self.units = (count, batch), directions[0].view.outs[0].shape[-1]
        self._stored = stored_integers(directions[0].view.outs[0])
        self._x, self._out = call.read(0), call.write(0)
        ends = [sum(widths[:i]) for i in range(len(widths) + 1)]
        self._groups = [slice(*ends[i : i + 2]) for i in range(len(widths))]
        # one group of one direction is used where the product with x is
        is_in_place = len(widths) == count == 1 and (batch == 1 or call.op.time_major)
        self._of_x = [
            None if is_in_place else Room(call, (steps, *self.sizes, width), np.float32)
            for width in widths
        ]
        self._states = Room(call, (steps, *self.sizes, self.units), np.int64)
        self._ordered: tuple[list[Call], list[Array]] | None = None
        self._after: list[Call] = []

    def bind(self, buffers: Buffers) -> Arrays:
        """Return the arrays and calls for these buffers."""
        states = self._states.array(buffers)
        if self._ordered is None:
            self._ordered = self._in_order(buffers)
        if not self._after or self._out.is_application:
            self._after = self._stores(buffers.array(self._out), states)
        copies, of_x = self._ordered
        before = [*self._inputs.multiply(self._x, buffers), *copies]
        return Arrays(before, of_x, states, self._after)

    def _stores(self, out: Array, states: Array) -> list[Call]:
        """Return the calls that store all h."""
        calls: list[Call] = []
        for i, each in enumerate(self._directions):
            stored = each.op.in_order(out)[..., i * self.units : (i + 1) * self.units]
            calls.append(looked_up(self._stored, states[:, i], stored))
        return calls

    def _in_order(self, buffers: Buffers) -> tuple[list[Call], list[Array]]:
        """Return the calls that sort sums with x by steps and directions, and the result."""
        copies, of_x = list[Call](), list[Array]()
        sums = self._inputs.sums(buffers).reshape(*self._shape[:-1], len(self._directions), -1)
        in_order = [each.op.in_order(sums[..., i, :]) for i, each in enumerate(self._directions)]
        for at, room in zip(self._groups, self._of_x, strict=True):
            if room is None:
                of_x.append(in_order[0][:, None])
                continue
            of_x.append(room.array(buffers))
            for i, found in enumerate(in_order):
                copies.append(functools.partial(of_x[-1][:, i].__setitem__, ..., found[..., at]))
        return copies, of_x


def looked_up_by_direction(tables: Sequence[Array], index: Array, out: Array) -> list[Call]:
    """Return the calls that look up indices in the table of each direction."""
    if all(np.array_equal(table, tables[0]) for table in tables):
        return [looked_up(tables[0], index, out)]
    return [looked_up(*each) for each in zip(tables, index, out, strict=True)]


def levels_of(spec: Spec) -> Array:
    """Return the levels of all stored integers, float64."""
    return np.asarray(stored_integers(spec).astype(np.int64) - grid_of(spec)[1], np.float64)


@functools.cache
def function_of_arguments(name: str) -> Array:
    """Return real values of `sigmoid` or `tanh` for all arguments of a gate, float64."""
    function = {"sigmoid": sigmoid, "tanh": tanh}[name]
    return unit(function, stored_integers(ARGUMENT), ARGUMENT) * UNIT


class Grids:
    """Grids of one result in each direction, for arrays of a shape.

    A result is a sum of products of whole numbers over 2**15, in steps of its grid, which is
    rounded after its zero point was added.

    Args:
        specs: One for each direction.
        shape: (directions, batch, units).
    """

    def __init__(self, specs: Sequence[Spec], shape: tuple[int, ...]) -> None:
        self.specs, self._shape = specs, shape

    @property
    def is_exact(self) -> bool:
        """True if float64 has all products and sums, which may be multiplied in any order then.

        A step that is a power of two, and at most 1, only moves the point of whole numbers.
        """
        grids = [grid_of(spec) for spec in self.specs]
        return all(
            math.frexp(step)[0] == 0.5 and step <= 1 and abs(zero) <= _NEAR_ZERO
            for step, zero, _ in grids
        )

    @property
    def is_apart(self) -> bool:
        """True if the order of multiplications does not show in a single product.

        That is so if no product is close to a tie of the rounding, unless all are exact.
        """
        return self.is_exact or all(map(_are_ties_far, self.specs))

    @property
    def per_unit(self) -> Array:
        """Steps in a real 1."""
        return self._full([1 / grid_of(spec)[0] for spec in self.specs], np.float64)

    def rounding(self, steps: Array, *, is_any_order: bool) -> Callable[[Array], list[Call]]:
        """Return what gives the calls that round steps.

        Args:
            steps: In steps of the grids; they are lost.
            is_any_order: Whether the result is the same where the zero point is not added first.

        Returns:
            The calls for an array, of 64 bits, that receives indices among all stored integers.
        """
        zero = self._full([grid_of(spec)[1] for spec in self.specs], np.float64)
        first = self._full([_MAGIC_BITS + grid_of(s)[2][0] for s in self.specs], np.int64)
        magic, calls = np.full(self._shape, _MAGIC), list[Call]()
        if is_any_order:
            magic += zero
        elif zero.any():
            calls.append(functools.partial(np.add, steps, zero, steps))
        calls.append(functools.partial(np.add, steps, magic, steps))
        bits = steps.view(np.int64)
        return lambda index: [*calls, functools.partial(np.subtract, bits, first, index)]

    def _full(self, by_direction: Sequence[float], dtype: np.typing.DTypeLike) -> Array:
        column = np.array(by_direction, dtype).reshape(-1, 1, 1)
        return np.ascontiguousarray(np.broadcast_to(column, self._shape))


def _are_ties_far(spec: Spec) -> bool:
    """Return whether all whole numbers over 2**30 are far from ties of a grid.

    Only the number next to each tie matters. Two orders of three roundings differ by a few times
    2**-53 of a result, or of the zero point.
    """
    step, zero, (low, high) = grid_of(spec)
    ties = np.arange(low - 1, high + 1) + 0.5 - zero
    per_number = UNIT * UNIT / step
    distance = np.abs(np.rint(ties / per_number) * per_number - ties)
    largest = max(float(np.abs(ties).max()), abs(zero), 1.0)
    return bool(distance.min() > largest * 2.0**-48)
