"""Which recurrent layers a primitive of both directions supports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail_numpy.kernels.conditions import is_float32
from dovetail_opset.directions import Direction


@dataclass(frozen=True, slots=True)
class Ports:
    """Indices of a primitive's operands among the inputs and outputs of an op.

    Attributes:
        inputs, recurrent: Weights of x and of h by gate, in the library's order.
        biases: Biases by gate, in the same order.
        states: Initial states.
        last: Outputs with the states after the last step.
        unsupported: Inputs that the primitive does not support.
    """

    inputs: tuple[int, ...]
    recurrent: tuple[int, ...]
    biases: tuple[int, ...]
    states: tuple[int, ...]
    last: tuple[int, ...]
    unsupported: tuple[int, ...]

    @property
    def weights(self) -> tuple[int, ...]:
        """All inputs that must be constant."""
        return (*self.inputs, *self.recurrent, *self.biases)


def are_supported(directions: Sequence[Direction], ports: Ports) -> bool:
    """Return whether all tensors are FLOAT_32, weights constant and unsupported inputs missing."""
    known = ports.weights
    if len(directions) > 1:  # the states of both share a memory
        known += ports.states
    return is_float32(directions[0].call) and all(
        each.is_supported(known, ports.unsupported) for each in directions
    )
