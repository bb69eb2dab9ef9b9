"""Recurrent layers with known weights, in float32: all steps of a sequence in one primitive.

Both directions of a layer are one primitive too, where their results are only read side by side:
over short sequences the work around a primitive takes as long as what it computes.

Weights of all gates are packed together, once per context. What the library has no form of is left
to the op's other kernel: projections, peepholes, norms, clipping, coupled gates, kept states.

The library calls what it has for GRU its reference, but that is made of its fast matrix products:
it took from 1.1 times less than NumPy (2 steps of 20 units) to 10 times less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import KernelCall, Step
from dovetail_onednn._api import FORWARD_INFERENCE, Arg
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.directions import Direction, Ports, are_made_for, directions_of
from dovetail_onednn.handles import engine
from dovetail_onednn.layouts import OneDnnLayout, dense, permuted
from dovetail_onednn.primitives import Attributes, PrimitiveDesc
from dovetail_onednn.reorder import pack
from dovetail_onednn.steps import Arguments
from dovetail_onednn.threads import threads_for

# Source: oneDNN 3.2, dnnl_types.h, dnnl_rnn_direction_t: from the first step on, from the last one,
# both with their results side by side. By the op's directions.
_DIRECTIONS = {(0,): 1, (1,): 2, (0, 1): 3}
_STATE_ARGS = (Arg.OTHER, Arg.THIRD)
_LAST_ARGS = (Arg.DESTINATION_ITER, Arg.DESTINATION_ITER_C)


# Gates: input, forget, cell, output. States: h and c. Left out: norms, peepholes, the projection
# and its bias, reset.
_LSTM = Ports(
    inputs=(16, 1, 2, 3),
    recurrent=(17, 4, 5, 6),
    biases=(21, 7, 8, 9),
    states=(10, 11),
    last=(2, 1),
    left_out=(*range(12, 16), *range(18, 21), 22, 23, 24),
)
# Gates: update, reset, new; biases of x, then of h. Left out: reset.
_GRU = Ports(
    inputs=(1, 2, 3),
    recurrent=(4, 5, 6),
    biases=tuple(range(7, 13)),
    states=(13,),
    last=(1,),
    left_out=(14,),
)


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer's primitive and operands; `d` is the number of directions.

    Attributes:
        primitive: `lstm`, `gru` or `lbr_gru`.
        directions: 0 forward, 1 reverse.
        source, target: Sequences, (steps, batch, n) in whatever order they lie.
        inputs, recurrent: Stacked weights as they are before packing, (1, d, n, gates, units).
        bias: (1, d, gates, units).
        state: (1, d, batch, units).
        states: How many there are.
        has_start: Whether they are given; else they start as 0.
        has_last: Whether what they are after the last step is wanted.
    """

    primitive: str
    directions: tuple[int, ...]
    source: MemoryDesc
    inputs: MemoryDesc
    recurrent: MemoryDesc
    bias: MemoryDesc
    target: MemoryDesc
    state: MemoryDesc
    states: int
    has_start: bool
    has_last: bool

    @property
    def products(self) -> int:
        """How many numbers are multiplied in a step of one direction."""
        weights = math.prod(self.inputs.dims) + math.prod(self.recurrent.dims)
        return weights // len(self.directions) * self.state.dims[2]

    def described(self) -> PrimitiveDesc:
        """Describe the primitive, with weights as it wants them.

        Raises:
            BackendError: There is no such primitive.
        """
        start, last = (
            [self.state if wanted else None] * self.states
            for wanted in (self.has_start, self.has_last)
        )
        weights = [MemoryDesc.any(self.inputs.dims), MemoryDesc.any(self.recurrent.dims)]
        none = [None, None] if self.primitive == "lstm" else []  # peepholes, projection
        flags = 0
        what = (
            f"a float32 {self.primitive} layer: source {self.source.key}, weights "
            f"{self.inputs.key}, result {self.target.key}, directions {self.directions}"
        )
        with Attributes(multiplies=True) as attributes:
            return PrimitiveDesc(
                f"{self.primitive}_forward",
                engine(),
                FORWARD_INFERENCE,
                _DIRECTIONS[self.directions],
                self.source,
                *start,
                *weights,
                *none,
                self.bias,
                self.target,
                *last,
                flags,
                attributes,
                description=what,
            )


def lstm(call: KernelCall) -> Step | None:
    """Run Lstm as one primitive; see `Kernel.make`."""
    directions = directions_of(call)
    for each in directions:
        is_plain = len(each.view.outs) <= 3 and not each.op.cell_clip_threshold
        if not is_plain or not each.has(_LSTM.inputs[0]):
            return None
    if not are_made_for(directions, _LSTM):
        return None
    bias = np.stack([each.stacked(_LSTM.biases) for each in directions])
    return _step(directions, "lstm", _LSTM, bias)


def gru(call: KernelCall) -> Step | None:
    """Run Gru as one primitive; see `Kernel.make`."""
    directions = directions_of(call)
    linear = {bool(each.op.linear_before_reset) for each in directions}
    if len(linear) > 1 or not are_made_for(directions, _GRU):
        return None
    of_x, of_h = np.split(np.stack([each.stacked(_GRU.biases) for each in directions]), 2, axis=1)
    if linear == {True}:
        # the last row is what r multiplies together with what comes of h
        rows = (of_x + of_h)[:, :2], of_x[:, 2:], of_h[:, 2:]
        return _step(directions, "lbr_gru", _GRU, np.concatenate(rows, axis=1))
    return _step(directions, "gru", _GRU, of_x + of_h)


def _step(directions: tuple[Direction, ...], primitive: str, ports: Ports, bias: Array) -> Step:
    """Return the step of a layer.

    Args:
        directions: Forward before reverse.
        primitive: The library's.
        ports: Where its operands are among the op's.
        bias: (directions, gates, units).
    """
    call = directions[0].call
    layer = _layer(directions, primitive, ports, bias.shape[1])
    with threads_for(layer.products):
        desc = layer.described()
    with desc:
        places = Arguments(call, desc)
        places.read(Arg.SOURCE, 0, layer.source)
        if layer.has_start:
            for arg, port in zip(_STATE_ARGS, ports.states, strict=False):
                _read_state(directions, places, arg, port, layer.state)
        args = (Arg.WEIGHTS, Arg.WEIGHTS_ITER)
        forms = (layer.inputs, layer.recurrent)
        for arg, form, gates in zip(args, forms, (ports.inputs, ports.recurrent), strict=True):
            packed = OneDnnLayout(desc.desc(arg), form)
            # a format of the library's own, whose key does not tell all, depends on these
            variant = f"{primitive} {layer.state.dims[2]}"
            _pack_weights(directions, places, packed, arg, gates, variant)
        places.constant(Arg.BIAS, call.constant(bias), layer.bias)
        places.write(Arg.DESTINATION, 0, layer.target)
        if layer.has_last:
            for arg, index in zip(_LAST_ARGS, ports.last, strict=False):
                places.write(arg, index, layer.state)
        # states are copied in as many threads as there are at execution: beside other processes,
        # waiting for a second one took ten times as long as all the rest
        return places.step(fixed_threads=True)


def _layer(directions: tuple[Direction, ...], primitive: str, ports: Ports, biases: int) -> Layer:
    call, count, gates = directions[0].call, len(directions), len(ports.inputs)
    units, features = call.spec(1).shape
    source, target = _sequence(call, features), _sequence(call, count * units)
    return Layer(
        primitive,
        tuple(each.way for each in directions),
        source,
        permuted((1, count, gates, units, features), (0, 1, 4, 2, 3)),
        permuted((1, count, gates, units, units), (0, 1, 4, 2, 3)),
        dense((1, count, biases, units)),
        target,
        dense((1, count, source.dims[1], units)),
        len(ports.states),
        any(each.has(port) for each in directions for port in ports.states),
        has_last=count == 1,
    )


def _sequence(call: KernelCall, size: int) -> MemoryDesc:
    """Describe a sequence of the layer as (steps, batch, size); one of rank 2 is one step."""
    first, second = ((1, *call.spec(0).shape)[-3:])[:2]
    if call.op.time_major or len(call.spec(0).shape) == 2:
        return dense((first, second, size))
    return permuted((first, second, size), (1, 0, 2))


def _read_state(
    directions: Sequence[Direction], places: Arguments, arg: Arg, port: int, state: MemoryDesc
) -> None:
    """Declare an initial state; one that is left out beside another one is 0."""
    first, *others = directions
    index = first.index(port)
    if index is not None and not others:
        places.read(arg, index, state)
        return
    made = np.zeros(state.dims, np.float32)
    for each, part in zip(directions, made[0], strict=True):
        if (known := each.static(port)) is not None:
            part[...] = known.reshape(part.shape)
    places.constant(arg, first.call.constant(made), state)


def _pack_weights(
    directions: Sequence[Direction],
    places: Arguments,
    packed: OneDnnLayout,
    arg: Arg,
    ports: Sequence[int],
    variant: str,
) -> None:
    """Declare the weights of all gates, packed together."""
    call = directions[0].call
    indices = [i for each in directions for p in ports if (i := each.index(p)) is not None]
    name = f"{engine().library.fingerprint}/{packed.dense.key}/{packed.desc.key}/{variant}"

    def pack_all() -> Array:
        return pack(np.stack([each.stacked(ports) for each in directions]), packed)

    made = call.packed(indices, name, pack_all)
    places.constant(arg, call.constant(made, packed), packed.desc)
