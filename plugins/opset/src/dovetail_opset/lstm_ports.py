"""The inputs of Lstm by number: those of each gate, and the others by what they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Gate(NamedTuple):
    """Inputs with the parts of one gate; the cell has no peephole."""

    weights: int
    recurrent: int
    bias: int
    norm: int
    peephole: int | None


PEEPHOLES = (18, 19, 20)
INPUT = Gate(16, 17, 21, 12, PEEPHOLES[0])
FORGET = Gate(1, 4, 7, 13, PEEPHOLES[1])
OUTPUT = Gate(3, 6, 9, 15, PEEPHOLES[2])
CELL = Gate(2, 5, 8, 14, None)
GATES = (INPUT, FORGET, OUTPUT, CELL)

STATES = START_H, START_C = 10, 11  # h and c before the first step
PROJECTION, PROJECTION_BIAS = 22, 23
RESET = 24

NORMS = tuple(sorted(gate.norm for gate in GATES))
MATRICES = (*sorted(port for gate in GATES for port in gate[:2]), PROJECTION)
BIASES = (*sorted(gate.bias for gate in GATES), PROJECTION_BIAS)
# Inputs that a plain layer lacks; it may have states.
RARE = (*NORMS, *PEEPHOLES, PROJECTION, PROJECTION_BIAS, RESET)
# Inputs that a layer with norms or peepholes has, with the input gate or without.
ANY_NORM, ANY_PEEPHOLE = FORGET.norm, PEEPHOLES[1]


def gates_of(ins: Sequence[object]) -> tuple[Gate, ...]:
    """Return the gates of a layer with these inputs, in the order of `GATES`."""
    return GATES[1:] if ins[INPUT.weights] is None else GATES
