"""Recurrent layers on stored integers, with the bits of `dovetail_numpy.integer.recurrent`.

A step has some twenty NumPy calls on a few hundred elements, whose overhead is most of its time:

- All x are multiplied before the first step. Both directions of a layer take their steps together.
- Sums of products are exact in float32 below 2**24, a bound that is known when preparing.
- Functions are tables over 2**15. They clip, too: an index beyond a table is its end. So a rounding
  is followed by one lookup for each form in which its result is needed.
- Constants have the shape of what they are combined with: one number takes NumPy twice as long.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import Bound, Branch, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.integer.functions import tanh
from dovetail_numpy.integer.gates import ARGUMENT, UNIT, clipped, offsets, requantized, unit
from dovetail_numpy.integer.recurrent import start_of
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels._calls import Call
from dovetail_numpy.kernels._integer_layer import (
    MOST_ARGUMENT,
    Arrays,
    Grids,
    Matrices,
    Room,
    Sequences,
    StepProducts,
    are_bytes,
    bias_of,
    can_fuse,
    function_of_arguments,
    levels_of,
    looked_up,
    looked_up_by_direction,
    stored_integers,
)
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_opset import STANDARD
from dovetail_opset.directions import Direction, directions_of
from dovetail_opset.lstm_ports import CELL, FORGET, INPUT, OUTPUT, RARE, RESET, STATES

_GATES = (FORGET, INPUT, OUTPUT, CELL)
_INPUTS = tuple(gate.weights for gate in _GATES)
_RECURRENT = tuple(gate.recurrent for gate in _GATES)
_BIASES = tuple(gate.bias for gate in _GATES)


@KERNELS.register(STANDARD, "Lstm", quantized=True, can_fuse=can_fuse, branch=Branch.SIBLING)
def lstm(call: KernelCall) -> Step | None:
    """Run Lstm with 8-bit data and constant weights, without what is rarely used."""
    directions = directions_of(call)
    for each in directions:
        has_more = len(each.view.outs) > 3 or any(map(each.has, RARE))
        if has_more or not are_bytes(each, (*_INPUTS, *_RECURRENT), _BIASES):
            return None
        if len(directions) > 1 and any(map(each.has, STATES)):
            return None
    data, state = call.spec(0), directions[0].view.outs[0]
    of_x = [Matrices.of(each, _INPUTS, data) for each in directions]
    of_h = [Matrices.of(each, _RECURRENT, state) for each in directions]
    bias = np.stack([_bias(each, data) for each in directions])
    most = 2 * max(each.most for each in (*of_x, *of_h)) + float(np.abs(bias).max())
    if not most < MOST_ARGUMENT:
        return None
    type_of_h = np.result_type(*(each.levels for each in of_h))
    sequences = Sequences(call, directions, of_x, bias, type_of_h)
    products = StepProducts(call, sequences.steps, of_h, type_of_h)
    return call.step(_Lstm(call, directions, sequences, products).bind)


def _bias(each: Direction, data: Spec) -> Array:
    ports = zip(_BIASES, _INPUTS, strict=True)
    found = [bias_of(each, port, each.view.spec(weights), data) for port, weights in ports]
    return offsets(np.concatenate(found), ARGUMENT)


class _Lstm:
    def __init__(
        self,
        call: KernelCall,
        directions: Sequence[Direction],
        sequences: Sequences,
        products: StepProducts,
    ) -> None:
        self._directions, self._sequences, self._products = directions, sequences, products
        shape = self._shape = (*sequences.steps, sequences.units)
        self._index = Room(call, (4, *shape), np.int64)
        self._opened = Room(call, (3, *shape), np.float64)
        self._pair = Room(call, (2, *shape), np.float64)  # the cell's levels, and its new values
        self._spare = Room(call, (2, *shape), np.float64)
        self._indices = Room(call, (2, *shape), np.int64)  # of c and h
        self._states = [call.read(i) if call.has(i) else None for i in STATES]
        self._last = None if call.fused else (call.write(1), call.write(2))
        state, _, last = directions[0].view.outs
        self._to_last = requantized(stored_integers(state), state, last)
        self._steps: Bound | None = None

    def bind(self, buffers: Buffers) -> Bound:
        arrays, pair = self._sequences.bind(buffers), self._pair.array(buffers)
        h_index = self._indices.array(buffers)[1]
        if self._steps is None:  # on scratchpads, which never move
            self._steps = self._bound_steps(buffers, arrays, pair, h_index)
        before = [*arrays.before, *self._start(buffers, arrays.h[0], pair[0])]
        after = [*arrays.after, *self._finish(buffers, pair[0], h_index)]
        return call_sequence([*before, self._steps, *after])

    def _bound_steps(self, buffers: Buffers, arrays: Arrays, pair: Array, h_index: Array) -> Bound:
        products = self._products
        index, opened = self._index.array(buffers), self._opened.array(buffers)
        spare, c_index = self._spare.array(buffers), self._indices.array(buffers)[0]
        inner = products.arguments(buffers, index)
        inner += [
            looked_up(function_of_arguments("sigmoid"), index[:3], opened),
            looked_up(function_of_arguments("tanh"), index[3], pair[1]),
        ]
        inner += self._cell(opened, pair, spare, (c_index, h_index))
        take = levels_of(self._directions[0].view.outs[0], arrays.h.dtype).take
        h, sums = arrays.h, products.sums.array(buffers)
        calls: list[Call] = []
        for before, x, after in zip(h[:-1], arrays.of_x, h[1:], strict=True):
            calls += [
                *products.of(before, buffers),
                functools.partial(np.add, sums, x, sums),
                *inner,
                functools.partial(take, h_index, None, after, "clip"),
            ]
        return call_sequence(calls)

    def _start(self, buffers: Buffers, h: Array, c: Array) -> list[Call]:
        """Return the calls that set the states."""
        if self._last is None or self._states == [None, None]:
            return [functools.partial(h.fill, 0), functools.partial(c.fill, 0)]
        view = self._directions[0].view
        given = [None if v is None else buffers.array(v) for v in self._states]
        ins = [None] * STATES[0] + given + [None] * (RESET - STATES[1])
        zeros = [float(grid_of(spec)[1]) for spec in view.outs[:2]]

        def start() -> None:
            states = start_of(view, ins, STATES, RESET, [])
            for levels, stored, zero in zip((h, c), states, zeros, strict=True):
                np.subtract(stored, zero, levels, casting="same_kind")

        return [start]

    def _cell(
        self, opened: Array, pair: Array, spare: Array, indices: tuple[Array, Array]
    ) -> list[Call]:
        """Return the calls that compute c and its tanh, and the index of h."""
        outs = [each.view.outs for each in self._directions]
        cells, states = (Grids([each[i] for each in outs], self._shape) for i in (1, 0))
        thresholds = [each.op.cell_clip_threshold for each in self._directions]
        wanted = [
            (spec.dtype, spec.encoding, limit)
            for spec, limit in zip(cells.specs, thresholds, strict=True)
        ]
        tables = {key: _cell_tables(Spec(key[0], (), key[1]), key[2]) for key in wanted}
        levels, tanhs = zip(*(tables[key] for key in wanted), strict=True)
        kept, added = spare
        return [
            functools.partial(np.multiply, opened[:2], pair, spare),
            functools.partial(np.multiply, added, cells.per_unit, added),
            functools.partial(np.add, kept, added, kept),
            *cells.rounding(kept, indices[0]),
            *looked_up_by_direction(levels, indices[0], pair[0]),
            *looked_up_by_direction(tanhs, indices[0], added),
            functools.partial(np.multiply, opened[2], added, added),
            functools.partial(np.multiply, added, states.per_unit, added),
            *states.rounding(added, indices[1]),
        ]

    def _finish(self, buffers: Buffers, c: Array, h_index: Array) -> list[Call]:
        """Return the calls that store the states."""
        if self._last is None:
            return []
        cell = self._directions[0].view.outs[1]
        out_c, out_h = (buffers.array(value) for value in self._last)
        zero = float(grid_of(cell)[1])
        return [
            functools.partial(np.add, c[0], zero, out_c, casting="unsafe"),
            looked_up(self._to_last, h_index[0], out_h),
        ]


def _cell_tables(spec: Spec, threshold: float) -> tuple[Array, Array]:
    """Return the levels of c after the threshold, and their tanh, for all stored integers."""
    stored = clipped(stored_integers(spec), spec, threshold)
    return stored.astype(np.float64) - grid_of(spec)[1], unit(tanh, stored, spec) * UNIT
