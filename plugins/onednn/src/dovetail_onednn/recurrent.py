"""Recurrent layers with known weights, in float32: all steps of a sequence in one primitive.

Both directions of a layer are one primitive too, where their results are only read side by side:
over short sequences the work around a primitive takes as long as what it computes.

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
from typing import Any

import numpy as np

from dovetail.ir import Array
from dovetail.runtime.contract import NodeView
from dovetail.runtime.plan import KernelCall, Step
from dovetail_onednn._api import FORWARD_INFERENCE, Arg
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.handles import engine
from dovetail_onednn.layouts import OneDnnLayout, dense, permuted
from dovetail_onednn.primitives import Attributes, PrimitiveDesc
from dovetail_onednn.reorder import pack
from dovetail_onednn.steps import Places, is_float32
from dovetail_onednn.threads import threads_for

# Source: oneDNN 3.2, dnnl_types.h, dnnl_rnn_direction_t: from the first step on, from the last one,
# both with their results side by side. By the op's directions.
_DIRECTIONS = {(0,): 1, (1,): 2, (0, 1): 3}
_STATE_ARGS = (Arg.OTHER, Arg.THIRD)
_LAST_ARGS = (Arg.DESTINATION_ITER, Arg.DESTINATION_ITER_C)


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a primitive's operands are among the inputs and outputs of an op.

    Attributes:
        inputs, recurrent: Weights of x and of h by gate, in the library's order.
        biases: By gate likewise.
        states: The initial ones.
        last: Outputs: those after the last step.
        left_out: Inputs that it has nothing for.
    """

    inputs: tuple[int, ...]
    recurrent: tuple[int, ...]
    biases: tuple[int, ...]
    states: tuple[int, ...]
    last: tuple[int, ...]
    left_out: tuple[int, ...]

    @property
    def weights(self) -> tuple[int, ...]:
        """All that must be known."""
        return (*self.inputs, *self.recurrent, *self.biases)


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
class Direction:
    """A node that goes over the sequence one way: the call's head, or the twin that it absorbed.

    Attributes:
        call: The call.
        view: The node.
        operands: For each of its inputs, the index of the call's.
    """

    call: KernelCall
    view: NodeView
    operands: Sequence[int | None]

    @property
    def op(self) -> Any:
        """The node's op with its params; its class is the registered one."""
        return self.view.op

    @property
    def way(self) -> int:
        """0 forward, 1 reverse."""
        return int(self.op.direction)

    def index(self, port: int) -> int | None:
        """Gives the index of the call's input, None for one that is left out."""
        found = self.operands[port] if port < len(self.operands) else None
        return None if found is None or not self.call.has(found) else found

    def has(self, port: int) -> bool:
        """Whether an input is there."""
        return self.index(port) is not None

    def static(self, port: int) -> Array | None:
        """Gives the elements of an input that are known."""
        index = self.index(port)
        return None if index is None else self.call.static(index)

    def stacked(self, ports: Sequence[int]) -> Array:
        """Gives the weights or biases of gates as (gates, units, ...); left-out biases are 0."""
        units = self.call.spec(1).shape[0]
        found = [self.static(port) for port in ports]
        return np.stack([np.zeros(units, np.float32) if each is None else each for each in found])

    def is_made_for(self, known: Sequence[int], left_out: Sequence[int]) -> bool:
        """Whether these inputs, where they are there, are known, and others left out."""
        are_known = all(self.static(port) is not None for port in known if self.has(port))
        return are_known and not any(self.has(port) for port in left_out)


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
        """Describes the primitive, with weights as it wants them.

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


def absorbs_twin(group: Sequence[NodeView], node: NodeView) -> bool:
    """Whether a node is the layer's other direction, or then what puts both side by side."""
    op: Any = node.op  # its class is the op set's, which this package does not import
    heads: list[Any] = [view.op for view in group]
    if len(group) == 1 and node.op_type == group[0].op_type:
        same_form = heads[0].time_major == op.time_major and group[0].outs[0] == node.outs[0]
        return same_form and heads[0].direction != op.direction
    if len(group) != 2 or node.op_type != "Concat":
        return False
    results = [view.node.outputs[0] for view in group]
    if heads[0].direction:  # the reverse one stands first
        results.reverse()
    return list(node.node.inputs) == results and op.axis == len(results[0].shape) - 1


def lstm(call: KernelCall) -> Step | None:
    """Runs Lstm as one primitive; see `Kernel.make`."""
    directions = _directions(call)
    for each in directions:
        is_plain = len(each.view.outs) <= 3 and not each.op.cell_clip_threshold
        if not is_plain or not each.has(_LSTM.inputs[0]):
            return None
    if not _are_made_for(directions, _LSTM):
        return None
    bias = np.stack([each.stacked(_LSTM.biases) for each in directions])
    return _step(directions, "lstm", _LSTM, bias)


def gru(call: KernelCall) -> Step | None:
    """Runs Gru as one primitive; see `Kernel.make`."""
    directions = _directions(call)
    linear = {bool(each.op.linear_before_reset) for each in directions}
    if len(linear) > 1 or not _are_made_for(directions, _GRU):
        return None
    of_x, of_h = np.split(np.stack([each.stacked(_GRU.biases) for each in directions]), 2, axis=1)
    if linear == {True}:
        # the last row is what r multiplies together with what comes of h
        rows = (of_x + of_h)[:, :2], of_x[:, 2:], of_h[:, 2:]
        return _step(directions, "lbr_gru", _GRU, np.concatenate(rows, axis=1))
    return _step(directions, "gru", _GRU, of_x + of_h)


def _directions(call: KernelCall) -> tuple[Direction, ...]:
    """Gives the layer's directions, forward before reverse."""
    found = [Direction(call, call.head, range(len(call.head.node.inputs)))]
    found += [Direction(call, tail.view, tail.operands) for tail in call.tail if not tail.joins]
    return tuple(sorted(found, key=lambda each: each.way))


def _are_made_for(directions: Sequence[Direction], ports: Ports) -> bool:
    """Whether all is FLOAT_32 with elements, weights are known and some inputs left out."""
    known = ports.weights
    if len(directions) > 1:  # states of both are one memory
        known += ports.states
    return is_float32(directions[0].call) and all(
        each.is_made_for(known, ports.left_out) for each in directions
    )


def _step(directions: tuple[Direction, ...], primitive: str, ports: Ports, bias: Array) -> Step:
    """Gives the step of a layer.

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
        places = Places(call, desc)
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
    """Describes a sequence of the layer as (steps, batch, size); one of rank 2 is one step."""
    first, second = ((1, *call.spec(0).shape)[-3:])[:2]
    if call.op.time_major or len(call.spec(0).shape) == 2:
        return dense((first, second, size))
    return permuted((first, second, size), (1, 0, 2))


def _read_state(
    directions: Sequence[Direction], places: Places, arg: Arg, port: int, state: MemoryDesc
) -> None:
    """Declares an initial state; one that is left out beside another one is 0."""
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
    places: Places,
    packed: OneDnnLayout,
    arg: Arg,
    ports: Sequence[int],
    variant: str,
) -> None:
    """Declares the weights of all gates, packed together."""
    call, all_ports = directions[0].call, [(each, port) for each in directions for port in ports]
    indices = [i for each, port in all_ports if (i := each.index(port)) is not None]
    # they are kept under one input's content, so the others' belong into the name of the form
    found = [call.tensors[i] for i in indices]
    hashes = " ".join(t.data.hash for t in found if t is not None and t.data is not None)
    gates = hashlib.sha256(hashes.encode()).hexdigest()
    name = f"{engine().library.fingerprint}/{packed.dense.key}/{packed.desc.key}/{variant}/{gates}"

    def pack_all() -> Array:
        return pack(np.stack([each.stacked(ports) for each in directions]), packed)

    made = call.packed(indices[0], name, pack_all)
    places.constant(arg, call.constant(made, packed), packed.desc)
