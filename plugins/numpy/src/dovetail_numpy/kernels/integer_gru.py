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
    stored_integers,
)
from dovetail_numpy.kernels._registry import KERNELS
from dovetail_opset import STANDARD
from dovetail_opset.directions import Direction, directions_of

# By gate: update, reset, new.
_INPUTS, _RECURRENT = (1, 2, 3), (4, 5, 6)
_BIASES_OF_X, _BIASES_OF_H = (7, 8, 9), (10, 11, 12)
_STATE, _RESET = 13, 14


@KERNELS.register(STANDARD, "Gru", quantized=True, can_fuse=can_fuse, branch=Branch.SIBLING)
def gru(call: KernelCall) -> Step | None:
    """Run Gru with 8-bit data and constant weights, without `reset`."""
    directions = directions_of(call)
    is_linear = bool(call.op.linear_before_reset)
    for each in directions:
        biases = (*_BIASES_OF_X, *_BIASES_OF_H)
        if each.has(_RESET) or not are_bytes(each, (*_INPUTS, *_RECURRENT), biases):
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
    type_of_h = np.result_type(*(each.levels for each in (*early, *late)))
    sequences = Sequences(call, directions, of_x, bias, type_of_h)
    products = tuple(
        StepProducts(call, sequences.steps, matrices, type_of_h) for matrices in (early, late)
    )
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
        products: Sequence[StepProducts],
        of_new: Array | None,
    ) -> None:
        self._directions, self._sequences, self._of_new = directions, sequences, of_new
        self._early, self._late = products
        shape = self._shape = (*sequences.steps, sequences.units)
        self._index = Room(call, (2, *shape), np.int64)
        self._opened = Room(call, (2, *shape), np.float64)
        self._reals = Room(call, (3, *shape), np.float64)  # levels of h, new state, spare
        self._gated = Room(call, shape, sequences.type_of_h)  # levels of what reset leaves of h
        self._h_index = Room(call, shape, np.int64)
        self._state = call.read(_STATE) if call.has(_STATE) else None
        self._last = None if call.fused else call.write(1)
        state, last = directions[0].view.outs
        self._to_last = requantized(stored_integers(state), state, last)
        self._steps: Bound | None = None

    def bind(self, buffers: Buffers) -> Bound:
        arrays = self._sequences.bind(buffers)
        level, index = self._reals.array(buffers)[0], self._h_index.array(buffers)
        if self._steps is None:  # on scratchpads, which never move
            self._steps = self._bound_steps(buffers, arrays)
        before = [*arrays.before, *self._start(buffers, arrays.h[0], level)]
        after = list(arrays.after)
        if self._last is not None:
            after.append(looked_up(self._to_last, index, buffers.array(self._last)))
        return call_sequence([*before, self._steps, *after])

    def _start(self, buffers: Buffers, h: Array, level: Array) -> list[Call]:
        """Return the calls that set the state."""
        if self._state is None:
            return [partial(h.fill, 0), partial(level.fill, 0)]
        view, given = self._directions[0].view, buffers.array(self._state)
        ins = [None] * _STATE + [given, None]
        zero = float(grid_of(view.outs[0])[1])

        def start() -> None:
            (stored,) = start_of(view, ins, (_STATE,), _RESET, [])
            np.subtract(stored, zero, level)
            np.copyto(h, level, "same_kind")

        return [start]

    def _bound_steps(self, buffers: Buffers, arrays: Arrays) -> Bound:
        level, new, spare = self._reals.array(buffers)
        index, opened = self._index.array(buffers), self._opened.array(buffers)
        h_index, gated = self._h_index.array(buffers), self._gated.array(buffers)
        early, late = self._early, self._late
        grids = Grids([each.view.outs[0] for each in self._directions], self._shape)
        take = levels_of(grids.specs[0], gated.dtype).take
        opening = early.arguments(buffers, index)
        opening.append(looked_up(function_of_arguments("sigmoid"), index, opened))
        if self._of_new is not None:
            opening += self._linear(buffers, opened[1], spare)
        else:
            opening += [
                partial(np.multiply, opened[1], level, spare),
                *grids.rounding(spare, h_index),
                partial(take, h_index, None, gated, "clip"),
                *late.of(gated, buffers),
            ]
        sums, hidden = early.sums.array(buffers), late.sums.array(buffers)
        closing = late.arguments(buffers, index[:1])
        closing += [
            looked_up(function_of_arguments("tanh"), index[0], new),
            partial(np.subtract, np.ones(self._shape), opened[0], spare),
            partial(np.multiply, spare, new, spare),
            partial(np.multiply, spare, grids.per_unit, spare),
            partial(np.multiply, level, opened[0], level),
            partial(np.add, spare, level, spare),
            *grids.rounding(spare, h_index),
            looked_up(levels_of(grids.specs[0]), h_index, level),
        ]
        width = sums.shape[-1]
        calls: list[Call] = []
        for before, x, after in zip(arrays.h[:-1], arrays.of_x, arrays.h[1:], strict=True):
            calls += [
                *([] if self._of_new is None else late.of(before, buffers)),
                *early.of(before, buffers),
                partial(np.add, sums, x[..., :width], sums),
                *opening,
                partial(np.add, hidden, x[..., width:], hidden),
                *closing,
                partial(take, h_index, None, after, "clip"),
            ]
        return call_sequence(calls)

    def _linear(self, buffers: Buffers, reset: Array, spare: Array) -> list[Call]:
        """Return the calls that multiply the sum with h by the reset gate."""
        if self._of_new is None:
            raise AssertionError("a bias that is not there")
        hidden = self._late.sums.array(buffers)
        bias = np.ascontiguousarray(np.broadcast_to(self._of_new[:, None], hidden.shape))
        low, high = (np.full_like(hidden, end) for end in ARGUMENT.dtype.stored_range())
        return [
            partial(np.add, hidden, bias, hidden),
            partial(np.rint, hidden, hidden),
            partial(np.clip, hidden, low, high, hidden),
            partial(np.copyto, spare, hidden),
            partial(np.multiply, spare, reset, spare),
            partial(np.copyto, hidden, spare, "same_kind"),
        ]
