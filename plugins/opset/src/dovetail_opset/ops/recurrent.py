"""Recurrent layers."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Shape, Spec
from dovetail.ops import (
    Arrays,
    Bias,
    In,
    Op,
    Out,
    Specs,
    Weight,
    bool8,
    choice,
    float32,
    scalar,
    uint32,
)
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, elements, rows
from dovetail_opset.lstm_ports import (
    BIASES,
    FORGET,
    GATES,
    MATRICES,
    NORMS,
    PEEPHOLES,
    PROJECTION,
    PROJECTION_BIAS,
    RESET,
    START_C,
    START_H,
    STATES,
)
from dovetail_opset.ops.activation import sigmoid
from dovetail_opset.recurrent_weights import (
    GruWeights,
    LstmWeights,
    given,
    group_faults,
    need_layer,
    raise_faults,
    shape_faults,
)

_OFFSET_TYPES = (DType.FLOAT_32, *(d for d in DType if d.is_int))


class Direction(enum.IntEnum):
    """Order of the steps."""

    FORWARD = 0
    REVERSE = 1


class _Recurrent(Op):
    # Without the input `reset` a layer is pure, but that depends on the node, not on the op.
    is_pure = False

    matrices: ClassVar[tuple[int, ...]]  # inputs that multiply x or the state

    direction = choice(Direction, Direction.FORWARD)
    time_major = bool8(True)

    def __init__(self, ins: Specs = (), **params: Any) -> None:
        super().__init__(ins, **params)
        self._left: tuple[Array, ...] | None = None

    def in_order(self, sequence: Array) -> Array:
        """Return a view of a declared sequence as (steps, batch, n), in order of computation."""
        if sequence.ndim == 2:
            sequence = sequence[None]
        elif not self.time_major:
            sequence = sequence.swapaxes(0, 1)
        return sequence[::-1] if self.direction is Direction.REVERSE else sequence

    def work(self, ins: Specs, outs: Specs) -> int:
        matrices = sum(elements(ins[i]) for i in self.matrices)
        return rows(ins[0]) * matrices  # all of them in each step, for each element of the batch

    def _batch(self, x: Shape) -> int:
        return x[1] if len(x) == 3 and self.time_major else x[0]

    def _start(
        self, states: Sequence[Array | None], shapes: Sequence[Shape], reset: Array | None
    ) -> tuple[Array, ...]:
        """Return the states before the first step: of the last call, as given, or 0."""
        if reset is not None and not reset and self._left is not None:
            return self._left
        return tuple(
            np.zeros(shape, np.float32) if state is None else state.reshape(shape)
            for state, shape in zip(states, shapes, strict=True)
        )


@PACKAGE.op("Lstm")
class Lstm(_Recurrent):
    """Long short-term memory over a sequence, or one step of it.

    x: (time, batch, k), or (batch, time, k) without time_major, or (batch, k): one step. With u
    units and o outputs, weights of x are (u, k), of h(t-1) (u, o), biases, peepholes p and norms
    (u,), the initial h (batch, o) and c (batch, u), 0 if omitted, the projection (o, u), its bias
    (o,); without a projection o is u.

        i = sigmoid(Wi x + Ri h + pi * c + bi)      f = sigmoid(Wf x + Rf h + pf * c + bf)
        c = clip(f * c + i * tanh(Wc x + Rc h + bc), cell_clip_threshold)
        o = sigmoid(Wo x + Ro h + po * c + bo)      h = o * tanh(c)

    With a projection h is clip(P h + b, output_clip_threshold); without one h is not clipped. A
    threshold of 0 does not clip. Without the input gate, i is 1 - f. With norms, the sum in a gate
    without its bias is normalized to mean 0 and variance 1 over the units and multiplied by the
    norm. REVERSE takes the last step first; results stay at the positions of their inputs.

    Where `reset` is given and false, h and c start with the values of the last call of this op;
    without `reset` no state is kept. The scales and the offset are for integer arithmetic and do
    not affect real values.

    Returns h for each step, as x but with o last; c and h after the last step; the gates i, f, the
    cell's tanh, o and h in the last step (0 if there is none). The gate o has u elements; the
    source says so only for u = o.
    """

    inputs = (
        *(In(f"in[{i}]", optional=i >= 10) for i in range(RESET)),
        In(f"in[{RESET}]", (DType.BOOL_8,), optional=True),
    )
    outputs = tuple(Out(f"out[{i}]", optional=i >= 3) for i in range(8))
    quantization_roles: ClassVar = {
        **dict.fromkeys(sorted((*MATRICES, *NORMS, *PEEPHOLES)), Weight()),
        **dict.fromkeys(BIASES, Bias()),
    }
    state_outputs = (0, 1)
    matrices = MATRICES
    source = "spec/qnn_ops.md, Lstm; NNAPI, UNIDIRECTIONAL_SEQUENCE_LSTM"

    cell_clip_threshold = float32(0.0)
    output_clip_threshold = float32(0.0)
    input_gate_qscale = float32(0.0)
    forget_gate_qscale = float32(0.0)
    cell_gate_qscale = float32(0.0)
    output_gate_qscale = float32(0.0)
    hidden_state_offset = scalar(0.0, dtypes=_OFFSET_TYPES)
    hidden_state_qscale = float32(0.0)

    def infer(self, ins: Specs, outs: Specs) -> tuple[Spec, ...]:
        x, weights, recurrent = need_layer(ins, FORGET.weights, FORGET.recurrent, ranks=(2, 3))
        units, batch, size = weights.shape[0], self._batch(x.shape), recurrent.shape[1]
        wanted = self._shapes(x.shape, units, batch, size)
        raise_faults([*group_faults(ins, units, size), *shape_faults(ins, wanted)])
        for name in ("cell_clip_threshold", "output_clip_threshold"):
            if getattr(self, name) < 0:
                raise OpError(f"{name} is {getattr(self, name)}; it must not be negative")
        state, result = (batch, units), (batch, size)
        shapes = [(*x.shape[:-1], size), state, result, state, state, state, state, result]
        return tuple(computed(x, s, out) for s, out in zip(shapes, outs, strict=True))

    def reference(self, ins: Arrays, outs: Sequence[Spec]) -> tuple[Array, ...]:
        weights = self.packed(ins)
        projected = self._projected(weights, given(ins[0]))
        _, batch, gates, units = projected.shape
        # a row-major copy of the transposed matrix is multiplied up to five times as fast as a view
        recurrent = np.ascontiguousarray(weights.recurrent.T)
        size = len(recurrent)
        h, c = self._start([ins[i] for i in STATES], [(batch, size), (batch, units)], ins[RESET])
        result = np.empty((*given(ins[0]).shape[:-1], size), projected.dtype)
        last = [np.zeros((batch, units), projected.dtype) for _ in range(4)]
        for step, position in zip(projected, self.in_order(result), strict=True):
            step += (h @ recurrent).reshape(batch, gates, units)
            h, c, *last = self._step(weights, step, c)
            position[...] = h
        if ins[RESET] is not None:
            self._left = (h.copy(), c.copy())
        return (result, c, h, *last, h)

    def states(self, ins: Arrays, outs: Arrays) -> Mapping[int, Array]:
        weights = self.packed(ins)
        sums = self._projected(weights, given(ins[0]))
        y, c, h = (given(outs[i]) for i in range(3))
        start = self._start([ins[i] for i in STATES], [h.shape, c.shape], ins[RESET])
        if ins[RESET] is not None:
            self._left = (h.copy(), c.copy())
        # h is known: one product for all steps
        before = np.concatenate([start[0][None], self.in_order(y)])[: len(sums)]
        sums += (before @ weights.recurrent.T).reshape(sums.shape)
        cells = [start[1]]
        for step in sums[:-1]:
            cells.append(self._cell(weights, step, cells[-1])[0])
        # the last c is a result; an omitted first one is 0, which is on every grid
        inner = np.array(cells)[int(ins[START_C] is None) :]
        return {1: inner} if ins[START_H] is None else {0: start[0], 1: inner}

    def _projected(self, weights: LstmWeights, x: Array) -> Array:
        """Return the part of sums that needs no state, (steps, batch, gates, units)."""
        steps = self.in_order(x)
        count, batch, features = steps.shape
        rows = steps.reshape(count * batch, features) @ weights.inputs.T
        projected = rows.reshape(count, batch, *weights.bias.shape)
        if weights.norm is None:
            projected += weights.bias
        return projected

    def packed(self, ins: Arrays) -> LstmWeights:
        """Return the weights of all gates in one array, from inputs as real values."""
        return LstmWeights.of(ins)

    def _shapes(self, x: Shape, units: int, batch: int, size: int) -> Iterator[tuple[int, Shape]]:
        for gate in GATES:
            yield gate.weights, (units, x[-1])
            yield gate.recurrent, (units, size)
            yield gate.bias, (units,)
            yield gate.norm, (units,)
            if gate.peephole is not None:
                yield gate.peephole, (units,)
        yield from zip(STATES, [(batch, size), (batch, units)], strict=True)
        yield from ((PROJECTION, (size, units)), (PROJECTION_BIAS, (size,)), (RESET, ()))

    def _step(self, weights: LstmWeights, gates: Array, c: Array) -> tuple[Array, ...]:
        """Return h, c, the gates i, f, the cell's tanh and o for sums (batch, gates, units)."""
        early = gates.shape[1] - 2
        c, *opened = self._cell(weights, gates, c)
        if weights.peepholes is not None:
            gates[:, early] += c * weights.peepholes[early]
        out = sigmoid(weights.settled(gates, slice(early, early + 1)))[:, 0]
        h = out * np.tanh(c)
        if weights.projection is not None:
            h = h @ weights.projection.T
            h = h if weights.projection_bias is None else h + weights.projection_bias
            h = clipped(h, self.output_clip_threshold)
        return h, c, *opened, out

    def _cell(self, weights: LstmWeights, gates: Array, c: Array) -> tuple[Array, ...]:
        """Return c, the gates i, f and the cell's tanh for sums (batch, gates, units)."""
        early = gates.shape[1] - 2  # the gates that read the cell before the step
        if weights.peepholes is not None:
            gates[:, :early] += c[:, None] * weights.peepholes[:early]
        opened = sigmoid(weights.settled(gates, slice(0, early)))
        new = np.tanh(weights.settled(gates, slice(early + 1, None)))[:, 0]
        forget = opened[:, -1]
        taken = opened[:, 0] if early == 2 else 1 - forget
        c = clipped(forget * c + taken * new, self.cell_clip_threshold)
        return c, taken, forget, new


@PACKAGE.op("Gru")
class Gru(_Recurrent):
    """Gated recurrent units over a sequence.

    x: (time, batch, k), or (batch, time, k) without time_major. With u units, weights of x are (u,
    k), of h(t-1) (u, u), biases (u,) and the initial h (1, batch, u), each 0 if omitted.

        z = sigmoid(Wz x + bz + Rz h + cz)      r = sigmoid(Wr x + br + Rr h + cr)
        n = tanh(Wn x + bn + Rn (r * h) + cn)   h = (1 - z) * n + z * h

    With linear_before_reset r multiplies Rn h + cn instead. REVERSE takes the last step first;
    results stay at the positions of their inputs. Where `reset` is given and false, h starts with
    the value of the last call of this op; without `reset` no state is kept.

    Returns h for each step, as x but with u last, and h after the last one, (1, batch, u).
    """

    inputs = (
        *(In(f"in[{i}]", optional=i >= 7) for i in range(14)),
        In("in[14]", (DType.BOOL_8,), optional=True),
    )
    outputs = (Out("out[0]"), Out("out[1]"))
    quantization_roles: ClassVar = {
        **dict.fromkeys(range(1, 7), Weight()),
        **dict.fromkeys(range(7, 13), Bias()),
    }
    state_outputs = (0,)
    matrices = tuple(range(1, 7))
    source = "spec/qnn_ops.md, Gru; ONNX, GRU"

    linear_before_reset = uint32(0)

    def infer(self, ins: Specs, outs: Specs) -> tuple[Spec, ...]:
        x, weights, _ = need_layer(ins, 1, 4, ranks=(3,))
        units, batch = weights.shape[0], self._batch(x.shape)
        wanted: list[tuple[int, Shape]] = [(i, (units, x.shape[-1])) for i in range(1, 4)]
        wanted += [(i, (units, units)) for i in range(4, 7)]
        wanted += [(i, (units,)) for i in range(7, 13)]
        raise_faults(shape_faults(ins, [*wanted, (13, (1, batch, units)), (14, ())]))
        shapes = ((*x.shape[:-1], units), (1, batch, units))
        return tuple(computed(x, s, out) for s, out in zip(shapes, outs, strict=True))

    def reference(self, ins: Arrays, outs: Sequence[Spec]) -> tuple[Array, ...]:
        weights = self.packed(ins)
        recurrent = np.ascontiguousarray(weights.recurrent.T)
        x = given(ins[0])
        steps = self.in_order(x)
        count, batch, features = steps.shape
        units = len(recurrent)
        projected = steps.reshape(count * batch, features) @ weights.inputs.T + weights.bias
        (h,) = self._start(ins[13:14], [(batch, units)], ins[14])
        result = np.empty((*x.shape[:-1], units), projected.dtype)
        by_step = projected.reshape(count, batch, 3 * units)
        for step, position in zip(by_step, self.in_order(result), strict=True):
            new = step[:, 2 * units :]
            if self.linear_before_reset:
                hidden = h @ recurrent
                update, reset = self._opened(step, hidden[:, : 2 * units])
                new = np.tanh(new + reset * (hidden[:, 2 * units :] + weights.new_bias))
            else:
                update, reset = self._opened(step, h @ recurrent[:, : 2 * units])
                new = np.tanh(new + (reset * h) @ recurrent[:, 2 * units :])
            h = new + update * (h - new)
            position[...] = h
        if ins[14] is not None:
            self._left = (h.copy(),)
        return result, h[None]

    def states(self, ins: Arrays, outs: Arrays) -> Mapping[int, Array]:
        # all others are results, of this run or of the last one
        return {} if ins[13] is None else {0: ins[13]}

    def packed(self, ins: Arrays) -> GruWeights:
        """Return the weights of all gates in one array, from inputs as real values."""
        return GruWeights.of(ins, linear=bool(self.linear_before_reset))

    def _opened(self, step: Array, hidden: Array) -> tuple[Array, Array]:
        units = hidden.shape[1] // 2
        both = sigmoid(step[:, : 2 * units] + hidden)
        return both[:, :units], both[:, units:]


def clipped(x: Array, threshold: float) -> Array:
    """Return x clipped to plus and minus a threshold; a threshold of 0 does not clip."""
    return np.clip(x, -threshold, threshold) if threshold else x
