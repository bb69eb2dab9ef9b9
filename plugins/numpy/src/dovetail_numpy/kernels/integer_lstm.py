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
from dovetail_numpy.integer.recurrent import start_of, sum_of
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels._calls import Call
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_numpy.kernels.gate_products import (
    NUMPY,
    Engine,
    Matrices,
    Products,
    Room,
    StepProducts,
    indices_of,
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
from dovetail_numpy.kernels.lstm_extras import Norms, Peepholes, Projection, ProjectionNumbers
from dovetail_opset import STANDARD
from dovetail_opset.directions import Direction, directions_of
from dovetail_opset.lstm_ports import (
    ANY_NORM,
    CELL,
    FORGET,
    INPUT,
    NORMS,
    OUTPUT,
    PEEPHOLES,
    PROJECTION,
    PROJECTION_BIAS,
    RESET,
    STATES,
    Gate,
)

_GATES = (INPUT, FORGET, OUTPUT, CELL)
_ALONE = (*NORMS, *PEEPHOLES, *STATES, PROJECTION, RESET)  # not in layers of both directions


@KERNELS.register(STANDARD, "Lstm", quantized=True, can_fuse=can_fuse, branch=Branch.SIBLING)
def _on_numpy(call: KernelCall) -> Step | None:
    return lstm(call, NUMPY)


def lstm(call: KernelCall, engine: Engine) -> Step | None:
    """Run Lstm with constant weights of 8 bits, without gates as results."""
    directions = directions_of(call)
    if not all(map(_is_supported, directions)) or not _are_alike(directions):
        return None
    gates = _gates(directions[0])
    data, state = call.spec(0), directions[0].view.outs[0]
    has_norms = directions[0].has(ANY_NORM)
    targets = [sum_of(directions[0].view, gate, has_norm=has_norms) for gate in gates]
    of_x, of_h = (
        [Matrices.of(each, ports, vectors, targets) for each in directions]
        for ports, vectors in (
            ([gate.weights for gate in gates], data),
            ([gate.recurrent for gate in gates], state),
        )
    )
    bias = np.stack([_bias(each, gates, data) for each in directions])
    if has_norms:  # which come first
        bias = np.zeros_like(bias)
    most = 2 * max(each.most for each in (*of_x, *of_h)) + float(np.abs(bias).max())
    if not most < MOST_ARGUMENT:
        return None
    having = [gate for gate in gates if gate.peephole and directions[0].has(gate.peephole)]
    if not Peepholes.are_exact(directions[0], having):
        return None
    numbers = None
    if directions[0].has(PROJECTION) and (numbers := ProjectionNumbers.of(directions[0])) is None:
        return None
    sequences = Sequences(call, directions, engine.inputs(call, of_x, bias), [of_x[0].shape[1]])
    shape = (*sequences.sizes, of_x[0].shape[1] // len(gates))
    products = (NUMPY if having or has_norms else engine).products(call, sequences.sizes, of_h)
    peepholes = Peepholes(call, directions[0], having, shape) if having else None
    projection = None
    if numbers is not None:
        projection = Projection(call, directions[0], numbers, shape)
    norms = Norms(directions[0], gates) if has_norms else None
    extras = peepholes, projection, norms
    layer = _Lstm(call, directions, shape, sequences, products, *extras)
    return call.step(layer.bind)


def _gates(each: Direction) -> tuple[Gate, ...]:
    return _GATES if each.has(INPUT.weights) else _GATES[1:]


def _is_supported(each: Direction) -> bool:
    """Return whether the kernel supports a direction."""
    gates = _gates(each)
    weights = [port for gate in gates for port in (gate.weights, gate.recurrent)]
    norms = [gate.norm for gate in gates]
    others = [*(gate.bias for gate in gates), PROJECTION_BIAS, *PEEPHOLES, *norms]
    if each.has(PROJECTION):
        weights.append(PROJECTION)
    are_all = len({each.has(port) for port in norms}) == 1
    return len(each.view.outs) == 3 and are_all and is_narrow(each, weights, others)


def _are_alike(directions: Sequence[Direction]) -> bool:
    """Return whether directions can take their steps together."""
    if len(directions) == 1:
        return True
    is_plain = not any(each.has(port) for each in directions for port in _ALONE)
    return is_plain and len({_gates(each) for each in directions}) == 1


def _bias(each: Direction, gates: Sequence[Gate], data: Spec) -> Array:
    found = [bias_of(each, gate.bias, each.view.spec(gate.weights), data) for gate in gates]
    return offsets(np.concatenate(found), ARGUMENT)


class _Lstm:
    def __init__(
        self,
        call: KernelCall,
        directions: Sequence[Direction],
        shape: tuple[int, ...],
        sequences: Sequences,
        products: Products,
        peepholes: Peepholes | None,
        projection: Projection | None,
        norms: Norms | None,
    ) -> None:
        self._directions, self._sequences, self._products = directions, sequences, products
        self._peepholes, self._projection, self._norms = peepholes, projection, norms
        self._gates, self._shape = _gates(directions[0]), shape
        self._index = Room(call, (len(self._gates), *shape), np.int64)
        self._opened = Room(call, (3, *shape), np.float64)
        self._pair = Room(call, (2, *shape), np.float64)  # new values, and the cell's levels
        self._spare = Room(call, (2, *shape), np.float64)
        self._c_index = Room(call, shape, np.int64)
        ports = (*STATES, RESET)
        self._given = [call.read(i) if call.has(i) else None for i in ports]
        self._last = None if call.fused else (call.write(1), call.write(2))
        outs = [each.view.outs for each in directions]
        self._states, self._cells = (Grids([each[i] for each in outs], shape) for i in (0, 1))
        if projection is not None:
            self._states = projection.grids
        state, _, last = outs[0]
        self._stored = stored_integers(state)
        self._to_last = requantized(self._stored, state, last)
        self._left: list[tuple[Array, ...]] = []  # h and c after the last run, with `reset`
        self._steps: Bound | None = None

    def bind(self, buffers: Buffers) -> Bound:
        arrays, c = self._sequences.bind(buffers), self._pair.array(buffers)[1]
        if self._steps is None:  # on scratchpads, which never move
            self._steps = self._bound_steps(buffers, arrays)
        before = [*arrays.before, *self._start(buffers, c)]
        after = [*arrays.after, *self._finish(buffers, c, arrays.states[-1, 0])]
        return call_sequence([*before, self._steps, *after])

    def _bound_steps(self, buffers: Buffers, arrays: Arrays) -> Bound:
        index, states = self._index.array(buffers), self._states
        opened, new = self._opened.array(buffers), self._pair.array(buffers)[0]
        first, out = 4 - len(self._gates), self._spare.array(buffers)[0]
        inner: list[Call] = [
            looked_up(function_of_arguments("sigmoid"), index[:-1], opened[first:])
        ]
        if first:
            inner.append(functools.partial(np.subtract, np.ones(self._shape), opened[1], opened[0]))
        inner += [
            *looked_up_by_direction(self._new_tables(), index[-1], new),
            *self._cell(buffers),
            *self._with_new_cell(buffers),
            functools.partial(np.multiply, opened[2], out, out),
        ]
        if not states.is_apart:
            inner.append(functools.partial(np.multiply, out, states.per_unit, out))
        finished = states.rounding(out, is_any_order=states.is_apart)
        if self._projection is not None:
            finished = self._projection.projecting(finished, buffers)
        calls: list[Call] = []
        for x, state in zip(*arrays.of_x, arrays.states, strict=True):
            calls += [
                *self._indices(x, buffers),
                *inner,
                *finished(state),
                *self._products.take(state, buffers),
            ]
        return call_sequence(calls)

    def _indices(self, x: Array, buffers: Buffers) -> list[Call]:
        """Return the calls that compute the indices of the arguments of all gates."""
        index, products, peepholes = self._index.array(buffers), self._products, self._peepholes
        if peepholes is None and self._norms is None:
            return products.indices(x, index, buffers)
        if not isinstance(products, StepProducts):
            raise AssertionError("products without the sums of gates")
        sums, calls = products.sums(buffers), products.add_up(x, buffers)
        for gate, part in zip(self._gates, np.split(sums, len(self._gates), axis=-1), strict=True):
            if peepholes is None:
                continue
            late = peepholes.late(buffers) if gate is OUTPUT else None
            if late is None:
                calls += peepholes.add_up(gate, part, buffers)
            else:
                calls.append(functools.partial(late.__setitem__, ..., part))
        return [*calls, *self._rounded(sums, index, self._gates)]

    def _rounded(self, sums: Array, index: Array, gates: Sequence[Gate]) -> list[Call]:
        """Return the calls that round the sums of some gates to indices of arguments."""
        if self._norms is None:
            return indices_of(sums, index)
        return [self._norms.indices(sums, index, gates)]

    def _with_new_cell(self, buffers: Buffers) -> list[Call]:
        """Return the calls that multiply the new cell with peepholes."""
        peepholes, index = self._peepholes, self._index.array(buffers)[-2:-1]
        if peepholes is None:
            return []
        calls = peepholes.take(self._c_index.array(buffers), buffers)
        if (late := peepholes.late(buffers)) is None:
            return calls
        opened = self._opened.array(buffers)[2]
        return [
            *calls,
            *peepholes.add_up(OUTPUT, late, buffers),
            *self._rounded(late, index, [OUTPUT]),
            looked_up(function_of_arguments("sigmoid"), index[0], opened),
        ]

    def _start(self, buffers: Buffers, c: Array) -> list[Call]:
        """Return the calls that set the states."""
        if self._last is None or not any(self._given):
            calls: list[Call] = [self._products.clear(buffers), functools.partial(c.fill, 0)]
            return calls if self._peepholes is None else [*calls, self._peepholes.clear(buffers)]
        view, zero = self._directions[0].view, float(grid_of(self._cells.specs[0])[1])
        ins: list[Array | None] = [None] * (RESET + 1)
        for port, value in zip((*STATES, RESET), self._given, strict=True):
            ins[port] = None if value is None else buffers.array(value)

        def start() -> None:
            h, stored = start_of(view, ins, STATES, RESET, self._left)
            self._products.set(h, buffers)
            np.subtract(stored, zero, c[0])
            if self._peepholes is not None:
                self._peepholes.set(stored, buffers)

        return [start]

    def _new_tables(self) -> list[Array]:
        """Return for each direction the new values of all arguments; see `_cell`."""
        table, cells = function_of_arguments("tanh"), self._cells
        if not cells.is_exact:
            return [table] * len(cells.specs)
        return [table / grid_of(spec)[0] for spec in cells.specs]

    def _cell(self, buffers: Buffers) -> list[Call]:
        """Return the calls that compute c, and look up its tanh."""
        cells, (added, kept) = self._cells, self._spare.array(buffers)
        opened, pair = self._opened.array(buffers), self._pair.array(buffers)
        index = self._c_index.array(buffers)
        thresholds = [each.op.cell_clip_threshold for each in self._directions]
        pairs = zip(cells.specs, thresholds, strict=True)
        levels, tanhs = zip(*(_cell_tables(*each) for each in pairs), strict=True)
        if self._states.is_apart:  # a factor of the table instead of one of the product
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
            *looked_up_by_direction(levels, index, pair[1]),
            *looked_up_by_direction(tanhs, index, added),
        ]

    def _finish(self, buffers: Buffers, c: Array, h_index: Array) -> list[Call]:
        """Return the calls that store the states."""
        if self._last is None:
            return []
        out_c, out_h = (buffers.array(value) for value in self._last)
        zero = float(grid_of(self._cells.specs[0])[1])
        calls: list[Call] = [
            functools.partial(np.add, c[0], zero, out_c, casting="unsafe"),
            looked_up(self._to_last, h_index, out_h),
        ]

        def leave() -> None:
            self._left[:] = [(self._stored.take(h_index, mode="clip"), out_c.copy())]

        return calls if self._given[-1] is None else [*calls, leave]


def _cell_tables(spec: Spec, threshold: float) -> tuple[Array, Array]:
    """Return the levels of c after the threshold, and their tanh, for all stored integers."""
    stored = clipped(stored_integers(spec), spec, threshold)
    return stored.astype(np.float64) - grid_of(spec)[1], unit(tanh, stored, spec) * UNIT
