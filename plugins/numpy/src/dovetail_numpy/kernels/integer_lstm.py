"""Recurrent layers on stored integers, with the bits of `dovetail_numpy.integer.recurrent`.

A step has some twenty NumPy calls on a few hundred elements, whose overhead is most of its time:

- All x are multiplied before the first step. Both directions of a layer take their steps together.
- Sums of products are exact in float32 below 2**24, a bound that is known when preparing.
- Functions are tables over 2**15. They clip, too: an index beyond a table is its end. So a rounding
  is followed by one lookup for each form in which its result is needed.
- Adding a magic number rounds and converts in one call. Factors and zero points are part of tables
  and of that number where it is certain that the order of operations does not show.
- Constants have the shape of what they are combined with: one number takes NumPy twice as long.
  An assignment takes half as long as np.copyto.
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
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.gate_products import (
    NUMPY,
    Engine,
    Matrices,
    Products,
    Room,
    looked_up,
    stored_integers,
)
from dovetail_numpy.kernels.integer_layer import (
    MOST_ARGUMENT,
    Arrays,
    Grids,
    Sequences,
    bias_of,
    can_fuse,
    function_of_arguments,
    is_narrow,
    looked_up_by_direction,
)
from dovetail_opset import STANDARD
from dovetail_opset.directions import Direction, directions_of
from dovetail_opset.lstm_ports import CELL, FORGET, INPUT, OUTPUT, RARE, RESET, STATES

_GATES = (FORGET, INPUT, OUTPUT, CELL)
_INPUTS = tuple(gate.weights for gate in _GATES)
_RECURRENT = tuple(gate.recurrent for gate in _GATES)
_BIASES = tuple(gate.bias for gate in _GATES)


@KERNELS.register(STANDARD, "Lstm", quantized=True, can_fuse=can_fuse, branch=Branch.SIBLING)
def _on_numpy(call: KernelCall) -> Step | None:
    return lstm(call, NUMPY)


def lstm(call: KernelCall, engine: Engine) -> Step | None:
    """Run Lstm with constant weights of 8 bits, without what is rarely used."""
    directions = directions_of(call)
    for each in directions:
        has_more = len(each.view.outs) > 3 or any(map(each.has, RARE))
        if has_more or not is_narrow(each, (*_INPUTS, *_RECURRENT), _BIASES):
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
    sequences = Sequences(call, directions, engine.inputs(call, of_x, bias), [len(_GATES)])
    products = engine.products(call, sequences.sizes, of_h)
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
        products: Products,
    ) -> None:
        self._directions, self._sequences, self._products = directions, sequences, products
        shape = (*sequences.sizes, sequences.units)
        self._index = Room(call, (4, *shape), np.int64)
        self._opened = Room(call, (3, *shape), np.float64)
        self._pair = Room(call, (2, *shape), np.float64)  # the cell's levels, and its new values
        self._spare = Room(call, (2, *shape), np.float64)
        self._c_index = Room(call, shape, np.int64)
        self._start_of = [call.read(i) if call.has(i) else None for i in STATES]
        self._last = None if call.fused else (call.write(1), call.write(2))
        outs = [each.view.outs for each in directions]
        self._states, self._cells = (Grids([each[i] for each in outs], shape) for i in (0, 1))
        state, _, last = outs[0]
        self._to_last = requantized(stored_integers(state), state, last)
        self._steps: Bound | None = None

    def bind(self, buffers: Buffers) -> Bound:
        arrays, c = self._sequences.bind(buffers), self._pair.array(buffers)[0]
        if self._steps is None:  # on scratchpads, which never move
            self._steps = self._bound_steps(buffers, arrays)
        before = [*arrays.before, *self._start(buffers, c)]
        after = [*arrays.after, *self._finish(buffers, c, arrays.states[-1, 0])]
        return call_sequence([*before, self._steps, *after])

    def _bound_steps(self, buffers: Buffers, arrays: Arrays) -> Bound:
        products, index = self._products, self._index.array(buffers)
        opened, new = self._opened.array(buffers), self._pair.array(buffers)[1]
        out = self._spare.array(buffers)[1]
        inner: list[Call] = [
            looked_up(function_of_arguments("sigmoid"), index[:3], opened),
            *looked_up_by_direction(self._new_tables(), index[3], new),
            *self._cell(buffers),
            functools.partial(np.multiply, opened[2], out, out),
        ]
        if not self._states.is_apart:
            inner.append(functools.partial(np.multiply, out, self._states.per_unit, out))
        rounded = self._states.rounding(out, is_any_order=self._states.is_apart)
        calls: list[Call] = []
        for x, state in zip(*arrays.of_x, arrays.states, strict=True):
            calls += [
                *products.indices(x, index, buffers),
                *inner,
                *rounded(state),
                *products.take(state, buffers),
            ]
        return call_sequence(calls)

    def _start(self, buffers: Buffers, c: Array) -> list[Call]:
        """Return the calls that set the states."""
        if self._last is None or self._start_of == [None, None]:
            return [self._products.clear(buffers), functools.partial(c.fill, 0)]
        view = self._directions[0].view
        given = [None if v is None else buffers.array(v) for v in self._start_of]
        ins = [None] * STATES[0] + given + [None] * (RESET - STATES[1])
        zero = float(grid_of(view.outs[1])[1])

        def start() -> None:
            h, stored = start_of(view, ins, STATES, RESET, [])
            self._products.set(h, buffers)
            np.subtract(stored, zero, c[0])

        return [start]

    def _new_tables(self) -> list[Array]:
        """Return for each direction the new values of all arguments; see `_cell`."""
        table, cells = function_of_arguments("tanh"), self._cells
        if not cells.is_exact:
            return [table] * len(cells.specs)
        return [table / grid_of(spec)[0] for spec in cells.specs]

    def _cell(self, buffers: Buffers) -> list[Call]:
        """Return the calls that compute c, and look up its tanh."""
        cells, (kept, added) = self._cells, self._spare.array(buffers)
        opened, pair = self._opened.array(buffers), self._pair.array(buffers)
        index = self._c_index.array(buffers)
        thresholds = [each.op.cell_clip_threshold for each in self._directions]
        pairs = zip(cells.specs, thresholds, strict=True)
        levels, tanhs = zip(*(_cell_tables(*each) for each in pairs), strict=True)
        if self._states.is_apart:
            tanhs = tuple(each / grid_of(self._states.specs[0])[0] for each in tanhs)
        calls: list[Call] = [
            functools.partial(np.multiply, opened[:2], pair, self._spare.array(buffers))
        ]
        if not cells.is_exact:
            calls.append(functools.partial(np.multiply, added, cells.per_unit, added))
        return [
            *calls,
            functools.partial(np.add, kept, added, kept),
            *cells.rounding(kept, is_any_order=cells.is_exact)(index),
            *looked_up_by_direction(levels, index, pair[0]),
            *looked_up_by_direction(tanhs, index, added),
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
            looked_up(self._to_last, h_index, out_h),
        ]


def _cell_tables(spec: Spec, threshold: float) -> tuple[Array, Array]:
    """Return the levels of c after the threshold, and their tanh, for all stored integers."""
    stored = clipped(stored_integers(spec), spec, threshold)
    return stored.astype(np.float64) - grid_of(spec)[1], unit(tanh, stored, spec) * UNIT
