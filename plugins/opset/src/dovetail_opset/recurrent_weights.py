"""Weights of Lstm and Gru by gate, and rules for their inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.errors import OpError, Problem
from dovetail.ir import Array, DType, Shape, Spec
from dovetail.ops import Arrays, Specs
from dovetail_opset._shapes import need_encoding, need_same_type
from dovetail_opset.lstm_ports import (
    ANY_NORM,
    ANY_PEEPHOLE,
    CELL,
    FORGET,
    INPUT,
    OUTPUT,
    PEEPHOLES,
    PROJECTION,
    PROJECTION_BIAS,
    gates_of,
)

# The number that TFLite adds to a variance before it divides by the root.
_EPSILON = 1e-8

# Inputs of Lstm that must be given together, or not at all.
_GROUPS = {
    "the input gate": (INPUT.weights, INPUT.recurrent, INPUT.bias),
    "layer normalization": (FORGET.norm, CELL.norm, OUTPUT.norm),
    "peepholes": PEEPHOLES[1:],
}


@dataclass(frozen=True, slots=True)
class LstmWeights:
    """The weights of an Lstm, gate after gate.

    The gates are input (unless coupled), forget, output and cell.

    Attributes:
        inputs: (gates * units, input size).
        recurrent: (gates * units, output size).
        bias: (gates, units).
        norm: (gates, units), or None.
        peepholes: (gates - 1, units), or None.
        projection: (output size, units), or None.
        projection_bias: (output size,), or None.
    """

    inputs: Array
    recurrent: Array
    bias: Array
    norm: Array | None
    peepholes: Array | None
    projection: Array | None
    projection_bias: Array | None

    @classmethod
    def of(cls, ins: Arrays) -> LstmWeights:
        """Return the weights from the inputs of Lstm, real values."""
        gates = gates_of(ins)
        has_norm, has_peepholes = ins[ANY_NORM] is not None, ins[ANY_PEEPHOLE] is not None
        seen = [ins[g.peephole] for g in gates if g.peephole is not None]
        return cls(
            np.concatenate([given(ins[g.weights]) for g in gates]),
            np.concatenate([given(ins[g.recurrent]) for g in gates]),
            np.stack([given(ins[g.bias]) for g in gates]),
            np.stack([given(ins[g.norm]) for g in gates]) if has_norm else None,
            np.stack([given(p) for p in seen]) if has_peepholes else None,
            ins[PROJECTION],
            ins[PROJECTION_BIAS],
        )

    def settled(self, gates: Array, which: slice) -> Array:
        """Return the arguments of the functions of some gates: normalized if there are norms.

        Args:
            gates: Sums of all gates, (batch, gates, units), with the bias if there are no norms.
            which: Some of the gates.
        """
        sums = gates[:, which]
        if self.norm is None:
            return sums
        centered = sums - sums.mean(-1, keepdims=True)
        deviation = np.sqrt(np.square(centered).mean(-1, keepdims=True) + _EPSILON)
        scaled: Array = centered / deviation * self.norm[which] + self.bias[which]
        return scaled


@dataclass(frozen=True, slots=True)
class GruWeights:
    """The weights of a Gru, its gates z, r and n in order.

    Attributes:
        inputs: (3 * units, input size).
        recurrent: (3 * units, units).
        bias: Biases of x and h, (3 * units,).
        new_bias: The bias of h in n, which r multiplies and `bias` does not contain, (units,).
    """

    inputs: Array
    recurrent: Array
    bias: Array
    new_bias: Array

    @classmethod
    def of(cls, ins: Arrays, *, linear: bool) -> GruWeights:
        """Return the weights from the inputs of Gru, real values.

        Args:
            ins: All inputs.
            linear: Whether r multiplies the weighted h, with its bias, instead of h itself.
        """
        inputs = np.concatenate([given(w) for w in ins[1:4]])
        recurrent = np.concatenate([given(w) for w in ins[4:7]])
        zero = np.zeros(len(given(ins[1])), inputs.dtype)
        of_x, of_h = ([zero if b is None else b for b in ins[i : i + 3]] for i in (7, 10))
        shared = [*of_h[:2], zero if linear else of_h[2]]
        new_bias = of_h[2] if linear else zero
        return cls(inputs, recurrent, np.concatenate(of_x) + np.concatenate(shared), new_bias)


def given(array: Array | None) -> Array:
    """Return an input that the schema does not allow to be omitted."""
    if array is None:
        raise AssertionError("missing required input")
    return array


def need_layer(
    ins: Specs, weights: int, recurrent: int, *, ranks: tuple[int, ...]
) -> tuple[Spec, Spec, Spec]:
    """Return the specs of x and of one gate's weights, which determine all sizes.

    Args:
        ins: All inputs; only `reset` may be BOOL_8.
        weights: Index of an input with weights of x.
        recurrent: Index of an input with weights of the state.
        ranks: Allowed ranks of x.

    Raises:
        OpError: A type or a rank is wrong.
    """
    x, of_x, of_h = (s for i in (0, weights, recurrent) if (s := ins[i]) is not None)
    need_same_type(*(s for s in ins if s is not None and s.dtype is not DType.BOOL_8))
    if not (x.dtype.is_float or x.dtype.is_fixed_point):
        raise OpError(f"in[0] is {x.dtype.name}; it must be a float or fixed-point type")
    need_encoding(x, "in[0]")
    faults = []
    if len(x.shape) not in ranks:
        allowed = " or ".join(map(str, ranks))
        faults.append(f"in[0] must have rank {allowed}, but its shape is {x.shape}")
    for i, spec in ((weights, of_x), (recurrent, of_h)):
        if len(spec.shape) != 2:
            faults.append(f"the weights in[{i}] must have rank 2, but their shape is {spec.shape}")
    raise_faults(faults)
    return x, of_x, of_h


def group_faults(ins: Specs, units: int, size: int) -> Iterator[str]:
    """Yield the faults in which inputs of an Lstm are given and omitted.

    Args:
        ins: All inputs.
        units: Elements of the cell.
        size: Elements of h.
    """
    present = {i for i, spec in enumerate(ins) if spec is not None}
    for what, group in _GROUPS.items():
        lacking = ", ".join(f"in[{i}]" for i in group if i not in present)
        if lacking and present.intersection(group):
            listed = ", ".join(f"in[{i}]" for i in group)
            yield f"{what} needs all of {listed} or none of them, but {lacking} is left out"
    has_input_gate = INPUT.weights in present
    for port, other in ((INPUT.norm, FORGET.norm), PEEPHOLES[:2]):
        if (port in present) != (has_input_gate and other in present):
            verb = "must not" if port in present else "must"
            yield (
                f"in[{port}] {verb} be given: it belongs to in[{other}] and the input gate "
                f"in[{INPUT.weights}], and to nothing else"
            )
    if PROJECTION not in present:
        if PROJECTION_BIAS in present:
            yield (
                f"in[{PROJECTION_BIAS}] is the bias of a projection, but in[{PROJECTION}], the "
                "projection, is left out"
            )
        if size != units:
            yield f"{units} units give {size} outputs, which needs a projection in[{PROJECTION}]"


def shape_faults(ins: Specs, wanted: Iterable[tuple[int, Shape]]) -> list[str]:
    """Return the faults in the shapes of the given inputs."""
    return [
        f"in[{i}] has shape {spec.shape}; it must be {shape}"
        for i, shape in sorted(wanted)
        if (spec := ins[i]) is not None and spec.shape != shape
    ]


def raise_faults(faults: Sequence[str]) -> None:
    """Raise if inputs have faults.

    Raises:
        OpError: There are faults; lists all.
    """
    if len(faults) == 1:
        raise OpError(faults[0])
    if faults:
        raise OpError("the inputs do not match", problems=[Problem(f) for f in faults])
