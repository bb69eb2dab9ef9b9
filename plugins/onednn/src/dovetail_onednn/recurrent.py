"""Recurrent layers with constant weights, in float32: all steps of a sequence in one primitive.

Both directions of a layer run as one primitive too, if their results are only read concatenated:
with short sequences the overhead of a primitive is as long as its computation.

The weights of all gates are packed together, once per context. Features that the library lacks are
left to the op's other kernel: projections, peepholes, norms, clipping, coupled gates, `reset`.

The library's code for GRU is called its reference, but uses its fast matrix products: it was from
1.1 times (2 steps of 20 units) to 10 times as fast as NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import KernelCall, Step
from dovetail_numpy.kernels.directions import Ports, are_supported
from dovetail_onednn._api import FORWARD_INFERENCE, Arg
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.layouts import OneDnnLayout, dense, permuted
from dovetail_onednn.precision import math_mode
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.reorder import Arrays, given, pack
from dovetail_onednn.steps import Arguments
from dovetail_onednn.threads import threads_for
from dovetail_opset.directions import Direction, directions_of
from dovetail_opset.lstm_ports import CELL, FORGET, INPUT, OUTPUT, RARE, STATES

# By the op's directions: forward, reverse, both with concatenated results.
# Source: oneDNN 3.2, dnnl_types.h, dnnl_rnn_direction_t.
_DIRECTIONS = {(0,): 1, (1,): 2, (0, 1): 3}
_STATE_ARGS = (Arg.OTHER, Arg.THIRD)
_LAST_ARGS = (Arg.DESTINATION_ITER, Arg.DESTINATION_ITER_C)

_GATES = (INPUT, FORGET, CELL, OUTPUT)
_LSTM = Ports(
    inputs=tuple(gate.weights for gate in _GATES),
    recurrent=tuple(gate.recurrent for gate in _GATES),
    biases=tuple(gate.bias for gate in _GATES),
    states=STATES,
    last=(2, 1),
    unsupported=RARE,
)
# Gates: update, reset, new; biases of x, then of h. Unsupported: reset.
_GRU = Ports(
    inputs=(1, 2, 3),
    recurrent=(4, 5, 6),
    biases=tuple(range(7, 13)),
    states=(13,),
    last=(1,),
    unsupported=(14,),
)


class Layer(msgspec.Struct, frozen=True):
    """The primitive and operands of a layer; `d` is the number of directions.

    Attributes:
        primitive: `lstm`, `gru` or `lbr_gru`.
        directions: 0 forward, 1 reverse.
        source, target: Sequences, (steps, batch, n), of any strides.
        inputs, recurrent: Stacked weights before packing, (1, d, n, gates, units).
        bias: (1, d, gates, units).
        state: (1, d, batch, units).
        states: Number of states.
        has_start: Whether initial states are inputs; otherwise they are 0.
        has_last: Whether the states after the last step are outputs.
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
        """Number of products in a step of one direction."""
        weights = math.prod(self.inputs.dims) + math.prod(self.recurrent.dims)
        return weights // len(self.directions) * self.state.dims[2]

    def described(self) -> PrimitiveDesc:
        """Describe the primitive, which chooses the layout of the weights.

        Raises:
            BackendError: The library has no such primitive.
        """
        start, last = (
            [self.state if exists else None] * self.states
            for exists in (self.has_start, self.has_last)
        )
        weights = [MemoryDesc.any(self.inputs.dims), MemoryDesc.any(self.recurrent.dims)]
        none = [None, None] if self.primitive == "lstm" else []  # peepholes, projection
        flags = 0
        operands = (self.source, *start, *weights, *none, self.bias, self.target, *last)
        return PrimitiveDesc(
            Description(
                f"{self.primitive}_forward",
                (ENGINE, FORWARD_INFERENCE, _DIRECTIONS[self.directions], *operands, flags),
                lambda: (
                    f"a float32 {self.primitive} layer: source {self.source.key}, weights "
                    f"{self.inputs.key}, result {self.target.key}, directions {self.directions}"
                ),
                math_mode=math_mode(),
                # states are copied with the number of threads at execution: next to other
                # processes, waiting for a second thread took ten times as long as everything else
                fixed_threads=True,
            )
        )


def lstm(call: KernelCall) -> Step | None:
    """Run Lstm as one primitive; see `Kernel.make`."""
    directions = directions_of(call)
    for each in directions:
        is_plain = len(each.view.outs) <= 3 and not each.op.cell_clip_threshold
        if not is_plain or not each.has(_LSTM.inputs[0]):
            return None
    if not are_supported(directions, _LSTM):
        return None
    bias = np.stack([each.stacked(_LSTM.biases) for each in directions])
    return _step(directions, "lstm", _LSTM, bias)


def gru(call: KernelCall) -> Step | None:
    """Run Gru as one primitive; see `Kernel.make`."""
    directions = directions_of(call)
    linear = {bool(each.op.linear_before_reset) for each in directions}
    if len(linear) > 1 or not are_supported(directions, _GRU):
        return None
    of_x, of_h = np.split(np.stack([each.stacked(_GRU.biases) for each in directions]), 2, axis=1)
    if linear == {True}:
        # the last row is multiplied by r together with the product of h
        rows = (of_x + of_h)[:, :2], of_x[:, 2:], of_h[:, 2:]
        return _step(directions, "lbr_gru", _GRU, np.concatenate(rows, axis=1))
    return _step(directions, "gru", _GRU, of_x + of_h)


def _step(directions: tuple[Direction, ...], primitive: str, ports: Ports, bias: Array) -> Step:
    """Return the step of a layer.

    Args:
        directions: Forward before reverse.
        primitive: Name of the primitive.
        ports: Its operands among those of the op.
        bias: (directions, gates, units).
    """
    call = directions[0].call
    layer = _layer(directions, primitive, ports, bias.shape[1])
    with threads_for(layer.products):
        desc = layer.described()
    with desc:
        arguments = Arguments(call, desc)
        arguments.read(Arg.SOURCE, 0, layer.source)
        if layer.has_start:
            for arg, port in zip(_STATE_ARGS, ports.states, strict=False):
                _read_state(directions, arguments, arg, port, layer.state)
        args = (Arg.WEIGHTS, Arg.WEIGHTS_ITER)
        forms = (layer.inputs, layer.recurrent)
        for arg, form, gates in zip(args, forms, (ports.inputs, ports.recurrent), strict=True):
            packed = OneDnnLayout(desc.desc(arg), form)
            # an opaque format, whose key is incomplete, depends on these
            variant = f"{primitive} {layer.state.dims[2]}"
            _pack_weights(directions, arguments, packed, arg, gates, variant)
        arguments.constant(Arg.BIAS, call.constant(bias), layer.bias)
        arguments.write(Arg.DESTINATION, 0, layer.target)
        if layer.has_last:
            for arg, index in zip(_LAST_ARGS, ports.last, strict=False):
                arguments.write(arg, index, layer.state)
        return arguments.step()


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
    """Describe a sequence of the layer as (steps, batch, size); rank 2 is a single step."""
    first, second = ((1, *call.spec(0).shape)[-3:])[:2]
    if call.op.time_major or len(call.spec(0).shape) == 2:
        return dense((first, second, size))
    return permuted((first, second, size), (1, 0, 2))


def _read_state(
    directions: Sequence[Direction], arguments: Arguments, arg: Arg, port: int, state: MemoryDesc
) -> None:
    """Declare an initial state; a missing one is 0 if another is given."""
    first, *others = directions
    index = first.index(port)
    if index is not None and not others:
        arguments.read(arg, index, state)
        return
    values = np.zeros(state.dims, np.float32)
    for each, part in zip(directions, values[0], strict=True):
        if (known := each.static(port)) is not None:
            part[...] = known.reshape(part.shape)
    arguments.constant(arg, first.call.constant(values), state)


def _pack_weights(
    directions: Sequence[Direction],
    arguments: Arguments,
    packed: OneDnnLayout,
    arg: Arg,
    ports: Sequence[int],
    variant: str,
) -> None:
    """Declare the weights of all gates, packed together."""
    call = directions[0].call
    indices = [i for each in directions for p in ports if (i := each.index(p)) is not None]
    name = f"{packed.key}/{variant}"

    def pack_all(arrays: Arrays, _: object) -> Array:
        gates = np.stack([given(array) for array in arrays])
        return pack(gates.reshape(len(directions), len(ports), *gates.shape[1:]), packed)

    arguments.constant(arg, call.read_packed(indices, name, pack_all, packed), packed.desc)
