"""Lstm with 8-bit data and weights and 16-bit cells, as LiteRT's integer kernel computes.

Sums in gates saturate in 16 bits after each product. Sigmoid and tanh are functions of 16 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.ir import Array, DType, ScaleOffset, Spec
from dovetail.ops import NodeView
from dovetail_numpy.integer.definitions import DEFINITIONS, Run
from dovetail_numpy.integer.fixed.arithmetic import Multiplier, Rounding, divided
from dovetail_numpy.integer.fixed.functions import FixedPoint
from dovetail_numpy.integer.gates import ARGUMENT, clipped
from dovetail_numpy.integer.norms import single
from dovetail_numpy.integer.recurrent import prepare_lstm
from dovetail_numpy.integer.rescaling import grid_of, levels, real_bias, scales
from dovetail_opset.lstm_ports import (
    CELL,
    FORGET,
    INPUT,
    MATRICES,
    NORMS,
    OUTPUT,
    PEEPHOLES,
    PROJECTION,
    PROJECTION_BIAS,
    RESET,
    Gate,
)
from dovetail_opset.recurrent_weights import given

_NARROW = FixedPoint(16)
_INT16 = (-(2**15), 2**15 - 1)
_ARGUMENT_BITS = 3


def is_lstm(view: NodeView) -> bool:
    """Return whether a layer has the types of LiteRT's kernel, and no normalization."""
    if DEFINITIONS.of(view) is None or len(view.outs) > 3:
        return False
    ins = [*view.ins, *[None] * (RESET + 1 - len(view.ins))]
    if any(ins[i] is not None for i in NORMS):
        return False
    data = [s for s in (ins[0], view.outs[0]) if s is not None]
    weights = [s for i in MATRICES if (s := ins[i]) is not None]
    peepholes = [s for i in PEEPHOLES if (s := ins[i]) is not None]
    cell, _, _ = grid_of(view.outs[1])
    mantissa, power = np.frexp(cell)
    return (
        all(s.dtype.bits == 8 for s in data)
        and all(_is_symmetric(s, DType.SFIXED_POINT_8) for s in weights)
        and all(_is_symmetric(s, DType.SFIXED_POINT_16) for s in (view.outs[1], *peepholes))
        and bool(mantissa == 0.5 and -15 <= power - 1 <= -9)
        and (ins[PROJECTION] is None or single(view.op.hidden_state_qscale) > 0)
    )


def lstm(rounding: Rounding, view: NodeView) -> Run:
    """Run the steps of a layer; with the input `reset`, it keeps its state between runs."""
    return prepare_lstm(view, lambda node, ins: _Lstm(rounding, node, ins))


class _Lstm:
    """The weights of a layer, and one step."""

    def __init__(self, rounding: Rounding, view: NodeView, ins: Sequence[Array | None]) -> None:
        self._rounding = rounding
        self._view, self._ins = view, ins
        out = view.outs[0]
        self._hidden = out
        if ins[PROJECTION] is not None:
            step, zero = single(view.op.hidden_state_qscale), int(view.op.hidden_state_offset)
            self._hidden = Spec(out.dtype, (), ScaleOffset(step, zero))

    def step(self, x: Array, h: Array, c: Array) -> tuple[Array, Array, list[Array]]:
        """Return h and c, stored, and the gates, which are no results here."""
        cell = self._view.outs[1]
        power = int(np.frexp(grid_of(cell)[0])[1]) - 1
        forget = _NARROW.logistic(self._argument(FORGET, x, h, c), _ARGUMENT_BITS)
        new = _NARROW.tanh(self._argument(CELL, x, h, c), _ARGUMENT_BITS)
        if self._ins[INPUT.weights] is None:
            taken = _INT16[1] - forget
        else:
            taken = _NARROW.logistic(self._argument(INPUT, x, h, c), _ARGUMENT_BITS)
        kept = divided(forget * c, 15)
        c = np.clip(kept + divided(taken * new, 30 + power), *_INT16).astype(np.int16)
        c = clipped(c, cell, self._view.op.cell_clip_threshold)
        out = _NARROW.logistic(self._argument(OUTPUT, x, h, c), _ARGUMENT_BITS)
        return self._result(out * _NARROW.tanh(c.astype(np.int64), 15 + power)), c, []

    def _result(self, products: Array) -> Array:
        """Return h from o * tanh(c), over 2**30."""
        step, zero, limits = grid_of(self._hidden)
        found = Multiplier.of(2.0**-15 / step * 2.0**-15).times(products, self._rounding) + zero
        hidden = np.asarray(np.clip(found, *limits), self._hidden.dtype.storage)
        if self._ins[PROJECTION] is None:
            return hidden
        out = self._view.outs[0]
        _, zero, limits = grid_of(out)
        scaled = self._sum(PROJECTION, hidden, self._hidden, out, PROJECTION_BIAS) + zero
        stored = np.asarray(np.clip(scaled, *limits), out.dtype.storage)
        return clipped(stored, out, self._view.op.output_clip_threshold)

    def _argument(self, gate: Gate, x: Array, h: Array, c: Array) -> Array:
        data, out = self._view.spec(0), self._view.outs[0]
        total = np.clip(self._sum(gate.weights, x, data, ARGUMENT, gate.bias), *_INT16)
        total = np.clip(total + self._sum(gate.recurrent, h, out, ARGUMENT), *_INT16)
        if gate.peephole is not None and (peephole := self._ins[gate.peephole]) is not None:
            real = scales(self._view.outs[1]) * scales(self._view.spec(gate.peephole))
            multiplier = Multiplier.of(real / grid_of(ARGUMENT)[0])
            products = c.astype(np.int64) * peephole
            total = np.clip(total + multiplier.times(products, self._rounding), *_INT16)
        return np.asarray(total)

    def _sum(
        self, port: int, stored: Array, spec: Spec, target: Spec, bias: int | None = None
    ) -> Array:
        """Return products with weights, plus a bias, in steps of a grid."""
        weights = levels(given(self._ins[port]), self._view.spec(port))
        acc = (levels(stored, spec) @ weights.T).astype(np.int64)
        products = scales(spec) * scales(self._view.spec(port))
        if bias is not None and (added := self._ins[bias]) is not None:
            real = real_bias(added, self._view.spec(bias), products)
            acc += np.rint(real / products).astype(np.int64)
        return Multiplier.of(products / grid_of(target)[0]).times(acc, self._rounding)


def _is_symmetric(spec: Spec, dtype: DType) -> bool:
    encoding = spec.encoding
    return spec.dtype is dtype and isinstance(encoding, ScaleOffset) and encoding.offset == 0
