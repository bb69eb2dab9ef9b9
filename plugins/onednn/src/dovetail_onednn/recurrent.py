"""Recurrent layers with known weights, in float32: all steps of a sequence in one primitive.

Weights of all gates are packed together, once per context. What the library has no form of is left
to the op's other kernel: projections, peepholes, norms, clipping, coupled gates, kept states.

The library calls what it has for GRU its reference, but that is made of its fast matrix products:
it took from 1.1 times less than NumPy (2 steps of 20 units) to 10 times less.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import KernelCall, Step
from dovetail_onednn._api import FORWARD_INFERENCE, Arg
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.handles import engine
from dovetail_onednn.layouts import OneDnnLayout, dense, permuted
from dovetail_onednn.primitives import Attributes, PrimitiveDesc
from dovetail_onednn.reorder import pack
from dovetail_onednn.steps import Places, is_float32
from dovetail_onednn.threads import threads_for

# Source: oneDNN 3.2, dnnl_types.h, dnnl_rnn_direction_t: from the first step on, from the last one
_DIRECTIONS = (1, 2)
# Inputs of Lstm by gate, in the library's order: input, forget, cell, output.
_LSTM_INPUTS, _LSTM_RECURRENT, _LSTM_BIASES = (16, 1, 2, 3), (17, 4, 5, 6), (21, 7, 8, 9)
# The initial h and c, and the outputs with those after the last step.
_LSTM_STATES, _LSTM_LAST = (10, 11), (2, 1)
# Norms, peepholes, the projection and its bias, reset.
_LSTM_LEFT_OUT = (*range(12, 16), *range(18, 21), 22, 23, 24)
# Inputs of Gru by gate: update, reset, new; biases of x, then of h.
_GRU_INPUTS, _GRU_RECURRENT, _GRU_BIASES = (1, 2, 3), (4, 5, 6), range(7, 13)
_GRU_RESET = 14
_STATE_ARGS = (Arg.OTHER, Arg.THIRD)
_LAST_ARGS = (Arg.DESTINATION_ITER, Arg.DESTINATION_ITER_C)


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer's primitive and operands.

    Attributes:
        primitive: `lstm`, `gru` or `lbr_gru`.
        direction: 0 forward, 1 reverse.
        source, target: Sequences, (steps, batch, n) in whatever order they lie.
        inputs, recurrent: Stacked weights as they are before packing, (1, 1, n, gates, units).
        bias: (1, 1, gates, units).
        state: (1, 1, batch, units).
        states: How many there are.
        has_start: Whether they are given; else they start as 0.
    """

    primitive: str
    direction: int
    source: MemoryDesc
    inputs: MemoryDesc
    recurrent: MemoryDesc
    bias: MemoryDesc
    target: MemoryDesc
    state: MemoryDesc
    states: int
    has_start: bool

    @property
    def products(self) -> int:
        """How many numbers are multiplied in a step."""
        return (math.prod(self.inputs.dims) + math.prod(self.recurrent.dims)) * self.state.dims[2]

    def described(self) -> PrimitiveDesc:
        """Describes the primitive, with weights as it wants them.

        Raises:
            BackendError: There is no such primitive.
        """
        states = [self.state] * self.states
        start: list[MemoryDesc | None] = [*states] if self.has_start else [None] * self.states
        weights = [MemoryDesc.any(self.inputs.dims), MemoryDesc.any(self.recurrent.dims)]
        none = [None, None] if self.primitive == "lstm" else []  # peepholes, projection
        flags = 0
        what = (
            f"a float32 {self.primitive} layer: source {self.source.key}, "
            f"weights {self.inputs.key}, result {self.target.key}, direction {self.direction}"
        )
        with Attributes(multiplies=True) as attributes:
            return PrimitiveDesc(
                f"{self.primitive}_forward",
                engine(),
                FORWARD_INFERENCE,
                _DIRECTIONS[self.direction],
                self.source,
                *start,
                *weights,
                *none,
                self.bias,
                self.target,
                *states,
                flags,
                attributes,
                description=what,
            )


def lstm(call: KernelCall) -> Step | None:
    """Runs Lstm as one primitive; see `Kernel.make`."""
    weights = (*_LSTM_INPUTS, *_LSTM_RECURRENT, *_LSTM_BIASES)
    if (
        len(call.outputs) > 3
        or call.op.cell_clip_threshold
        or not call.has(_LSTM_INPUTS[0])
        or not _is_made_for(call, weights, _LSTM_LEFT_OUT)
    ):
        return None
    bias = _stacked(call, _LSTM_BIASES)
    return _step(call, "lstm", (_LSTM_INPUTS, _LSTM_RECURRENT), bias, _LSTM_STATES, _LSTM_LAST)


def gru(call: KernelCall) -> Step | None:
    """Runs Gru as one primitive; see `Kernel.make`."""
    weights = (*_GRU_INPUTS, *_GRU_RECURRENT, *_GRU_BIASES)
    if not _is_made_for(call, weights, (_GRU_RESET,)):
        return None
    of_x, of_h = np.split(_stacked(call, _GRU_BIASES), 2)
    if call.op.linear_before_reset:
        # the last row is what r multiplies together with what comes of h
        primitive, bias = "lbr_gru", np.stack([*(of_x + of_h)[:2], of_x[2], of_h[2]])
    else:
        primitive, bias = "gru", of_x + of_h
    return _step(call, primitive, (_GRU_INPUTS, _GRU_RECURRENT), bias, (13,), (1,))


def _is_made_for(call: KernelCall, weights: Sequence[int], left_out: Sequence[int]) -> bool:
    """Whether all is FLOAT_32 with elements, these weights are known and some inputs left out."""
    return (
        is_float32(call)
        and all(call.static(i) is not None for i in weights if call.has(i))
        and not any(call.has(i) for i in left_out)
    )


def _stacked(call: KernelCall, ports: Sequence[int]) -> Array:
    """Gives the weights or biases of gates as (gates, units, ...); left-out biases are 0."""
    found = [call.static(i) for i in ports]
    units = call.spec(1).shape[0]
    return np.stack([np.zeros(units, np.float32) if each is None else each for each in found])


def _step(
    call: KernelCall,
    primitive: str,
    weights: tuple[Sequence[int], Sequence[int]],
    bias: Array,
    states: Sequence[int],
    last: Sequence[int],
) -> Step:
    """Gives the step of a layer.

    Args:
        call: Of the layer.
        primitive: The library's.
        weights: The inputs that are weights of x by gate, and of h.
        bias: (gates, units).
        states: The inputs that are states.
        last: The outputs that are states.
    """
    layer = _layer(call, primitive, len(weights[0]), len(bias), states)
    with threads_for(layer.products):
        desc = layer.described()
    with desc:
        places = Places(call, desc)
        places.read(Arg.SOURCE, 0, layer.source)
        if layer.has_start:
            for arg, index in zip(_STATE_ARGS, states, strict=False):
                _read_state(call, places, arg, index, layer.state)
        args = (Arg.WEIGHTS, Arg.WEIGHTS_ITER)
        for arg, form, ports in zip(args, (layer.inputs, layer.recurrent), weights, strict=True):
            packed = OneDnnLayout(desc.desc(arg), form)
            # a format of the library's own, whose key does not tell all, depends on these
            variant = f"{primitive} {layer.state.dims[2]}"
            _pack_weights(call, places, packed, arg, ports, variant)
        places.constant(Arg.BIAS, call.constant(bias), layer.bias)
        places.write(Arg.DESTINATION, 0, layer.target)
        for arg, index in zip(_LAST_ARGS, last, strict=False):
            places.write(arg, index, layer.state)
        # states are copied in as many threads as there are at execution: beside other processes,
        # waiting for a second one took ten times as long as all the rest
        return places.step(fixed_threads=True)


def _layer(
    call: KernelCall, primitive: str, gates: int, biases: int, states: Sequence[int]
) -> Layer:
    units, features = call.spec(1).shape
    source, target = _sequence(call, features), _sequence(call, units)
    return Layer(
        primitive,
        int(call.op.direction),
        source,
        permuted((1, 1, gates, units, features), (0, 1, 4, 2, 3)),
        permuted((1, 1, gates, units, units), (0, 1, 4, 2, 3)),
        dense((1, 1, biases, units)),
        target,
        dense((1, 1, source.dims[1], units)),
        len(states),
        any(call.has(index) for index in states),
    )


def _sequence(call: KernelCall, size: int) -> MemoryDesc:
    """Describes a sequence of the layer as (steps, batch, size); one of rank 2 is one step."""
    first, second = ((1, *call.spec(0).shape)[-3:])[:2]
    if call.op.time_major or len(call.spec(0).shape) == 2:
        return dense((first, second, size))
    return permuted((first, second, size), (1, 0, 2))


def _read_state(call: KernelCall, places: Places, arg: Arg, index: int, state: MemoryDesc) -> None:
    """Declares an initial state; one that is left out beside another one is 0."""
    if call.has(index):
        places.read(arg, index, state)
    else:
        places.constant(arg, call.constant(np.zeros(state.dims, np.float32)), state)


def _pack_weights(
    call: KernelCall,
    places: Places,
    packed: OneDnnLayout,
    arg: Arg,
    ports: Sequence[int],
    variant: str,
) -> None:
    """Declares the weights of all gates, packed together."""
    # they are kept under one input's content, so the others' belong into the name of the form
    found = [call.tensors[i] for i in ports]
    hashes = " ".join(t.data.hash for t in found if t is not None and t.data is not None)
    gates = hashlib.sha256(hashes.encode()).hexdigest()
    name = f"{engine().library.fingerprint}/{packed.dense.key}/{packed.desc.key}/{variant}/{gates}"
    made = call.packed(ports[0], name, lambda: pack(_stacked(call, ports), packed))
    places.constant(arg, call.constant(made, packed), packed.desc)
