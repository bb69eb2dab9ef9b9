"""Norms, peepholes and the projection of an Lstm on stored integers."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import Buffers, KernelCall
from dovetail_numpy.integer.gates import ARGUMENT, clipped, multipliers, offsets
from dovetail_numpy.integer.grid import real_of, stored_of
from dovetail_numpy.integer.norms import moments
from dovetail_numpy.integer.products import byte_shifts, part
from dovetail_numpy.integer.recurrent import EPSILON, hidden_of, sum_of
from dovetail_numpy.integer.rescaling import grid_of, real_bias, scales
from dovetail_numpy.kernels._calls import Call, Floats
from dovetail_numpy.kernels.gate_products import (
    EXACT,
    Matrices,
    Room,
    StepProducts,
    farthest,
    looked_up,
    stored_integers,
)
from dovetail_numpy.kernels.integer_layer import MOST_ARGUMENT, Grids
from dovetail_opset.directions import Direction
from dovetail_opset.lstm_ports import OUTPUT, PROJECTION, PROJECTION_BIAS, Gate


class Norms:
    """Norms of the sums of all gates.

    Args:
        each: The only direction.
        gates: Its gates.
    """

    def __init__(self, each: Direction, gates: Sequence[Gate]) -> None:
        view, self._gates = each.view, tuple(gates)
        steps = [grid_of(sum_of(view, gate, has_norm=True))[0] for gate in gates]
        self._epsilons = np.array([EPSILON / (step * step) for step in steps])
        factors, biases = [], []
        for gate in gates:
            stored, bias = each.static(gate.norm), each.static(gate.bias)
            if stored is None:
                raise AssertionError("a norm that is not constant")
            factors.append(real_of(stored, view.spec(gate.norm)))
            found = 0.0 if bias is None else real_bias(bias, view.spec(gate.bias), np.ones(()))
            biases.append(np.broadcast_to(found, stored.shape))
        self._factors, self._biases = np.stack(factors), np.stack(biases)

    def indices(self, sums: Array, index: Array, gates: Sequence[Gate]) -> Call:
        """Return the call that normalizes sums of some gates, and writes indices of arguments.

        Args:
            sums: On the gates' grids, float32, (1, batch, gates * units).
            index: Receives the indices, (gates, 1, batch, units).
            gates: Those whose sums these are.
        """
        at = [self._gates.index(gate) for gate in gates]
        epsilons = self._epsilons[at].reshape(-1, 1, 1, 1)
        factors, biases = (n[at][:, None, None] for n in (self._factors, self._biases))
        found = sums.reshape(*sums.shape[:2], len(at), -1).transpose(2, 0, 1, 3)
        low, high = ARGUMENT.dtype.stored_range()

        def normalize() -> None:
            levels = np.clip(np.rint(found), low, high).astype(np.int64)
            centered, variance = moments(levels, (-1,))
            real = centered / np.sqrt(variance + epsilons) * factors
            np.subtract(stored_of(real + biases, ARGUMENT), low, index, dtype=np.int64)

        return normalize


class Peepholes:
    """Products of the cell with the peepholes of gates.

    Args:
        call: The call of the kernel.
        each: Its only direction.
        gates: The gates that have one.
        shape: (1, batch, units).
    """

    def __init__(
        self, call: KernelCall, each: Direction, gates: Sequence[Gate], shape: tuple[int, ...]
    ) -> None:
        self._cell, threshold = each.view.outs[1], each.op.cell_clip_threshold
        shifts = byte_shifts(self._cell)
        stored = clipped(stored_integers(self._cell), self._cell, threshold)
        self._tables = [part(stored, self._cell, s).astype(np.float32) for s in shifts]
        self._parts = Room(call, (len(shifts), *shape), np.float32)
        self._spare, self._late = (Room(call, shape, np.float32) for _ in range(2))
        # by gate: weights, index of the cell's part, and multiplier, in the order of addition
        self._passes: dict[Gate, list[tuple[Array, int, Array]]] = {gate: [] for gate in gates}
        for gate in gates:
            weights, spec = each.static(gate.peephole or 0), each.view.spec(gate.peephole or 0)
            if weights is None:
                raise AssertionError("a peephole that is not constant")
            has_norm = each.has(gate.norm)
            target = sum_of(each.view, gate, has_norm=has_norm)
            factor = multipliers(scales(spec) * scales(self._cell), target)
            for wide, (i, narrow) in itertools.product(byte_shifts(spec), enumerate(shifts)):
                levels, scaled = (
                    part(weights, spec, wide),
                    factor * np.float32(2 ** (wide + narrow)),
                )
                numbers, m = (
                    np.array(np.broadcast_to(n, shape), np.float32) for n in (levels, scaled)
                )
                self._passes[gate].append((numbers, i, m))

    @staticmethod
    def are_exact(each: Direction, gates: Sequence[Gate]) -> bool:
        """Return whether float32 has all products of the cell with peepholes."""
        specs, cell = [each.view.spec(gate.peephole or 0) for gate in gates], each.view.outs[1]
        return all(farthest(spec) * farthest(cell) < EXACT for spec in specs)

    def late(self, buffers: Buffers) -> Array | None:
        """Return the array of the output gate's sum, if that has a peephole: of the new cell."""
        return self._late.array(buffers) if OUTPUT in self._passes else None

    def take(self, index: Array, buffers: Buffers) -> list[Call]:
        """Return the calls that set the cell by indices among all stored integers."""
        tables = zip(self._tables, self._parts.array(buffers), strict=True)
        return [looked_up(table, index, out) for table, out in tables]

    def clear(self, buffers: Buffers) -> Call:
        """Return the call that sets the cell to the real value 0."""
        return functools.partial(self._parts.array(buffers).fill, 0)

    def set(self, stored: Array, buffers: Buffers) -> None:
        """Set the cell to stored integers, (batch, units)."""
        for shift, out in zip(byte_shifts(self._cell), self._parts.array(buffers), strict=True):
            out[...] = part(stored, self._cell, shift)

    def add_up(self, gate: Gate, sums: Array, buffers: Buffers) -> list[Call]:
        """Return the calls that add a gate's products to its sum, (1, batch, units)."""
        parts, spare, calls = self._parts.array(buffers), self._spare.array(buffers), list[Call]()
        for weights, i, factor in self._passes.get(gate, []):
            calls += [
                functools.partial(np.multiply, weights, parts[i], spare),
                functools.partial(np.multiply, spare, factor, spare),
                functools.partial(np.add, sums, spare, sums),
            ]
        return calls


@dataclass(frozen=True, slots=True)
class ProjectionNumbers:
    """The numbers of a projection.

    Attributes:
        hidden: The grid of h before it.
        matrices: The weights.
        bias: In steps of h after it, float32, broadcastable.
    """

    hidden: Spec
    matrices: Matrices
    bias: Floats

    @classmethod
    def of(cls, each: Direction) -> ProjectionNumbers | None:
        """Return those of a layer; None if results may exceed 64 bits before they are clipped."""
        hidden, target = hidden_of(each.view), each.view.outs[0]
        matrices = Matrices.of(each, (PROJECTION,), hidden, [target])
        stored, bias = each.static(PROJECTION_BIAS), np.zeros(())
        if stored is not None:
            weights = scales(hidden) * scales(each.view.spec(PROJECTION)).reshape(-1)
            bias = real_bias(stored, each.view.spec(PROJECTION_BIAS), weights)
        added = offsets(bias, target)
        fits = matrices.most + float(np.abs(added).max()) < MOST_ARGUMENT
        return cls(hidden, matrices, added) if fits else None


class Projection:
    """The projection of h.

    Args:
        call: The call of the kernel.
        each: Its only direction.
        numbers: Those of the projection.
        shape: Of h before it, (1, batch, units).
    """

    def __init__(
        self, call: KernelCall, each: Direction, numbers: ProjectionNumbers, shape: tuple[int, ...]
    ) -> None:
        self._target, self._threshold = each.view.outs[0], each.op.output_clip_threshold
        self.grids, self._index = Grids([numbers.hidden], shape), Room(call, shape, np.int64)
        self._products = StepProducts(call, (shape[0], shape[1]), [numbers.matrices])
        width = (*shape[:-1], numbers.matrices.shape[1])
        self._bias = np.ascontiguousarray(np.broadcast_to(numbers.bias, width))

    def projecting(
        self, rounding: Callable[[Array], list[Call]], buffers: Buffers
    ) -> Callable[[Array], list[Call]]:
        """Return what gives the calls that compute h.

        Args:
            rounding: That of h before the projection, on `grids`.
            buffers: The buffers.

        Returns:
            The calls for an array that receives indices among all stored integers, within the clip.
        """
        index, sums = self._index.array(buffers), self._products.sums(buffers)
        zero, limits = grid_of(self._target)[1:]
        ends = clipped(np.array(limits), self._target, self._threshold) - limits[0]
        low, high = (np.full(sums.shape, end) for end in ends)
        calls: list[Call] = [
            *rounding(index),
            *self._products.take(index, buffers),
            *self._products.add_up(self._bias, buffers),
            functools.partial(np.add, sums, np.full_like(sums, zero), sums),
            functools.partial(np.rint, sums, sums),
            functools.partial(np.subtract, sums, np.full_like(sums, limits[0]), sums),
        ]
        return lambda state: [
            *calls,
            functools.partial(state.__setitem__, ..., sums),
            functools.partial(np.maximum, state, low, out=state),
            functools.partial(np.minimum, state, high, out=state),
        ]
