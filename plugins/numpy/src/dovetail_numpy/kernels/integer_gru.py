"""Gru on stored integers, with the bits of its definition; see `integer_lstm`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import Bound, Branch, Buffers, KernelCall, Step, call_sequence
from dovetail_numpy.integer.gates import ARGUMENT, offsets, requantized
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
    levels_of,
)
from dovetail_opset import STANDARD
from dovetail_opset.directions import Direction, directions_of

# By gate: update, reset, new.
_INPUTS, _RECURRENT = (1, 2, 3), (4, 5, 6)
_BIASES_OF_X, _BIASES_OF_H = (7, 8, 9), (10, 11, 12)
_STATE, _RESET = 13, 14


@KERNELS.register(STANDARD, "Gru", quantized=True, can_fuse=can_fuse, branch=Branch.SIBLING)
def _on_numpy(call: KernelCall) -> Step | None:
    return gru(call, NUMPY)


def gru(call: KernelCall, engine: Engine) -> Step | None:
    """Run Gru with constant weights of 8 bits, without `reset`."""
    directions = directions_of(call)
    is_linear = bool(call.op.linear_before_reset)
    for each in directions:
        biases = (*_BIASES_OF_X, *_BIASES_OF_H)
        if each.has(_RESET) or not is_narrow(each, (*_INPUTS, *_RECURRENT), biases):
            return None
        if bool(each.op.linear_before_reset) != is_linear:
            return None
        if len(directions) > 1 and each.has(_STATE):
            return None
    data, state = call.spec(0), directions[0].view.outs[0]
    of_x = [Matrices.of(each, _INPUTS, data) for each in directions]
    early, late = (
        [Matrices.of(each, ports, state) for each in directions]
        for ports in (_RECURRENT[:2], _RECURRENT[2:])
    )
    real = [_biases(each, data, state, is_linear=is_linear) for each in directions]
    bias, of_new = (offsets(np.stack([each[i] for each in real]), ARGUMENT) for i in (0, 1))
    most = 2 * max(each.most for each in (*of_x, *early, *late))
    if not most + float(np.abs(bias).max() + np.abs(of_new).max()) < MOST_ARGUMENT:
        return None
    widths = [each[0].shape[1] for each in (early, late)]
    sequences = Sequences(call, directions, engine.inputs(call, of_x, bias), widths)
    products = [engine.products(call, sequences.sizes, matrices) for matrices in (early, late)]
    gated = of_new if is_linear else None
    return call.step(_Gru(call, directions, sequences, products, gated).bind)


def _biases(each: Direction, data: Spec, state: Spec, *, is_linear: bool) -> tuple[Array, Array]:
    """Return the real biases of the sums with x, and that of h alone in the new state."""
    of_x, of_h = (
        [bias_of(each, b, each.view.spec(w), vectors) for b, w in zip(biases, weights, strict=True)]
        for biases, weights, vectors in (
            (_BIASES_OF_X, _INPUTS, data),
            (_BIASES_OF_H, _RECURRENT, state),
        )
    )
    shared = [*of_h[:2], np.zeros_like(of_h[2]) if is_linear else of_h[2]]
    return np.concatenate(of_x) + np.concatenate(shared), of_h[2]


class _Gru:
    def __init__(
        self,
        call: KernelCall,
        directions: Sequence[Direction],
        sequences: Sequences,
        products: Sequence[Products],
        of_new: Array | None,
    ) -> None:
        self._directions, self._sequences, self._of_new = directions, sequences, of_new
        self._early, self._late = products
        shape = self._shape = (*sequences.sizes, sequences.units)
        self._index = Room(call, (2, *shape), np.int64)
        self._opened = Room(call, (2, *shape), np.float64)
        self._reals = Room(call, (3, *shape), np.float64)  # levels of h, new state, spare
        self._gated = Room(call, shape, np.int64)  # the index of what reset leaves of h
        self._sums = Room(call, shape, np.float32)  # of the new state, with `linear_before_reset`
        self._start_of = call.read(_STATE) if call.has(_STATE) else None
        self._last = None if call.fused else call.write(1)
        self._grids = Grids([each.view.outs[0] for each in directions], shape)
        state, last = directions[0].view.outs
        self._to_last = requantized(stored_integers(state), state, last)
        self._steps: Bound | None = None

    def bind(self, buffers: Buffers) -> Bound:
        arrays = self._sequences.bind(buffers)
        if self._steps is None:  # on scratchpads, which never move
            self._steps = self._bound_steps(buffers, arrays)
        before = [*arrays.before, *self._start(buffers, self._reals.array(buffers)[0])]
        after = list(arrays.after)
        if self._last is not None:
            after.append(looked_up(self._to_last, arrays.states[-1], buffers.array(self._last)))
        return call_sequence([*before, self._steps, *after])

    def _start(self, buffers: Buffers, level: Array) -> list[Call]:
        """Return the calls that set the state."""
        products = [self._early] if self._of_new is None else [self._early, self._late]
        if self._start_of is None:
            return [*(each.clear(buffers) for each in products), partial(level.fill, 0)]
        view, given = self._directions[0].view, buffers.array(self._start_of)
        ins = [None] * _STATE + [given, None]
        zero = float(grid_of(view.outs[0])[1])

        def start() -> None:
            (stored,) = start_of(view, ins, (_STATE,), _RESET, [])
            for each in products:
                each.set(stored, buffers)
            np.subtract(stored, zero, level)

        return [start]

    def _bound_steps(self, buffers: Buffers, arrays: Arrays) -> Bound:
        level, new, spare = self._reals.array(buffers)
        index, opened = self._index.array(buffers), self._opened.array(buffers)
        early, late, grids = self._early, self._late, self._grids
        is_exact, is_linear = grids.is_exact, self._of_new is not None
        opening: list[Call] = [looked_up(function_of_arguments("sigmoid"), index, opened)]
        if not is_linear:
            gated = self._gated.array(buffers)
            opening += [
                partial(np.multiply, opened[1], level, spare),
                *grids.rounding(spare, is_any_order=False)(gated),
                *late.take(gated, buffers),
            ]
        tanh = function_of_arguments("tanh")
        closing: list[Call] = [
            looked_up(tanh / grid_of(grids.specs[0])[0] if is_exact else tanh, index[0], new),
            partial(np.subtract, np.ones(self._shape), opened[0], spare),
            partial(np.multiply, spare, new, spare),
            *([] if is_exact else [partial(np.multiply, spare, grids.per_unit, spare)]),
            partial(np.multiply, level, opened[0], level),
            partial(np.add, spare, level, spare),
        ]
        levels, rounded = (
            levels_of(grids.specs[0]),
            grids.rounding(spare, is_any_order=is_exact),
        )
        calls: list[Call] = []
        for x, of_new, state in zip(*arrays.of_x, arrays.states, strict=True):
            calls += [
                *early.indices(x, index, buffers),
                *opening,
                *(self._linear if is_linear else late.indices)(of_new, index[:1], buffers),
                *closing,
                *rounded(state),
                looked_up(levels, state, level),
                *early.take(state, buffers),
                *(late.take(state, buffers) if is_linear else ()),
            ]
        return call_sequence(calls)

    def _linear(self, x: Array, index: Array, buffers: Buffers) -> list[Call]:
        """Return the calls that compute the new state's index, as `Products.indices` does."""
        if self._of_new is None:
            raise AssertionError("a bias that is not there")
        sums, spare = self._sums.array(buffers), self._reals.array(buffers)[2]
        bias = np.ascontiguousarray(np.broadcast_to(self._of_new[:, None], sums.shape))
        return [
            *self._late.indices(bias, index, buffers),
            looked_up(levels_of(ARGUMENT), index[0], spare),
            partial(np.multiply, spare, self._opened.array(buffers)[1], spare),
            partial(sums.__setitem__, ..., spare),
            partial(np.add, sums, x, sums),
            *indices_of(sums, index),
        ]
