"""Recurrent layers written out step by step: any activations of ONNX, sequences of any lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.errors import counted
from dovetail.ir import Array, DType, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._parts import apply_operator
from dovetail_onnx.operators._recurrence import Layer

# As many nodes as take as long to convert as the unrolled loops of `_reader.MAX_BODY_NODES`.
_MOST_NODES = 10_000
_LENGTHS_NODES = 4  # of a step, at most, if sequences end before it
# ONNX's activations, and which of them take an alpha and a beta; without these the default of the
# operator of the same name holds.
_PARAMETERS: dict[str, tuple[str, ...]] = {
    "Affine": ("alpha", "beta"),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "ScaledTanh": ("alpha", "beta"),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": ("alpha",),
}
_NAMES = {name.lower(): name for name in _PARAMETERS}

States = tuple[Tensor | None, ...]
# Takes a name, the sums of x in a step and the states, h first; returns the next states.
Cell = Callable[[str, Tensor, States], tuple[Tensor, ...]]


@dataclass(frozen=True, slots=True)
class Activation:
    """A function of one direction: ONNX's operator and its attributes."""

    op: OpContext
    operator: str
    attributes: dict[str, Any]

    def __call__(self, name: str, x: Tensor) -> Tensor:
        """Add the function of a tensor."""
        value = apply_operator(self.op, name, self.operator, [x], **self.attributes)
        return self.op.as_tensor(value)


def is_activation(function: str) -> bool:
    """Return whether ONNX has an activation of this name."""
    return function in _PARAMETERS


def most_steps(nodes: int) -> int:
    """Return the maximum number of steps that have this many nodes each."""
    return _MOST_NODES // nodes


def read_activations(
    op: OpContext, defaults: Sequence[str], directions: int
) -> list[list[Activation]]:
    """Return the functions of each direction.

    Those that take an alpha or a beta take the next number of the attribute of that name.

    Raises:
        FrontendError: There is another number of functions, or an unknown one.
    """
    names = op.attr.texts("activations") or tuple(defaults) * directions
    each = len(defaults)
    if len(names) != each * directions:
        expected = counted(each * directions, "activation")
        raise op.invalid(
            f"expected {expected} for {counted(directions, 'direction')}, got {len(names)}"
        )
    numbers = {p: iter(op.attr.numbers(f"activation_{p}") or ()) for p in ("alpha", "beta")}
    found: list[Activation] = []
    for name in names:
        if name.lower() not in _NAMES:
            known = ", ".join(_PARAMETERS)
            raise op.invalid(f"unknown activation '{name}'; expected one of {known}")
        operator = _NAMES[name.lower()]
        given = {p: next(numbers[p], None) for p in _PARAMETERS[operator]}
        if operator == "ScaledTanh" and None in given.values():
            raise op.invalid("ScaledTanh needs activation_alpha and activation_beta")
        found.append(Activation(op, operator, {p: v for p, v in given.items() if v is not None}))
    return [found[i : i + each] for i in range(0, len(found), each)]


def write_out(
    layer: Layer, d: int, bias: Array | None, states: States, cell: Cell
) -> tuple[Tensor, ...]:
    """Return h after all steps of one direction, in order of time, and the last states.

    Args:
        layer: The layer.
        d: Index of the direction.
        bias: The bias of the product of x, (gates * hidden,); None if it is 0.
        states: Those before the first step, (batch, hidden) each; None for 0.
        cell: Adds the nodes of a step.
    """
    op, word, time = layer.op, layer.word(d), 0 if layer.time_major else 1
    addend = None if bias is None else layer.static(d, "B", bias)
    connected = [op.tensor(0), layer.static(d, "W", layer.weights[d]), addend]
    projected = op.step(f"{word}.inputs", "FullyConnected", connected, keep_dims=True)
    steps = projected.shape[time]
    order = range(steps - 1, -1, -1) if layer.directions[d] else range(steps)
    results: dict[int, Tensor] = {}
    lengths = _Lengths(layer, d)
    for t in order:
        name = f"{word}.{t}"
        runs = lengths.runs(name, t)
        if runs is False:
            results[t] = lengths.filled(None)
            continue
        ranges = [(0, size, 1) for size in projected.shape]
        ranges[time] = (t, t + 1, 1)
        sums = op.step(
            f"{name}.x", "StridedSlice", [projected], ranges=ranges, shrink_axes=1 << time
        )
        results[t], states = lengths.end(name, runs, states, cell(name, sums, states))
    shape = (1, layer.batch, layer.hidden) if time == 0 else (layer.batch, 1, layer.hidden)
    rows = [layer.reshaped(f"{word}.{t}.row", results[t], shape) for t in range(steps)]
    joined = rows[0] if steps == 1 else op.step(f"{word}.rows", "Concat", rows, axis=time)
    return joined, *(lengths.filled(state) for state in states)


class _Lengths:
    """Ends each sequence of a batch after its own number of steps.

    Later results are 0, and the states stay. In reverse, a sequence begins at its last step.

    Args:
        layer: The layer.
        d: Index of the direction.
    """

    def __init__(self, layer: Layer, d: int) -> None:
        self._layer, self._d, self._op = layer, d, layer.op
        self._given = layer.lengths
        if isinstance(self._given, Tensor):
            spec = Spec(self._given.dtype, (layer.batch, 1))
            name = f"{layer.word(d)}.lengths"
            self._given = self._op.step(name, "Reshape", [self._given], spec=spec)

    def runs(self, name: str, t: int) -> Tensor | bool:
        """Return whether a step is one of each sequence, (batch, 1), or of all or of none.

        Args:
            name: Name of the step.
            t: Its index.
        """
        if self._given is None:
            return True
        if isinstance(self._given, Tensor):
            step = self._op.static(f"{name}.t", np.array(t), self._given.dtype)
            return self._op.step(f"{name}.runs", "ElementWiseGreater", [self._given, step])
        runs = self._given > t
        if runs.all() or not runs.any():
            return bool(runs.all())
        return self._op.static(f"{name}.runs", runs[:, None], DType.BOOL_8)

    def end(
        self, name: str, runs: Tensor | bool, before: States, after: tuple[Tensor, ...]
    ) -> tuple[Tensor, States]:
        """Return h of a step, or 0, and the states after it.

        Args:
            name: Name of the step.
            runs: Whether it is one of each sequence.
            before: The states before it.
            after: The states after it in the sequences that have it.
        """
        if isinstance(runs, bool):
            return after[0], after
        kept = tuple(
            self._chosen(f"{name}.state{i}", runs, new, old)
            for i, (new, old) in enumerate(zip(after, before, strict=True))
        )
        return self._chosen(f"{name}.result", runs, after[0], None), kept

    def filled(self, state: Tensor | None) -> Tensor:
        """Return a state; zeros if it is None."""
        if state is not None:
            return state
        zeros = np.zeros((self._layer.batch, self._layer.hidden))
        return self._layer.static(self._d, "zeros", zeros)

    def _chosen(self, name: str, runs: Tensor, new: Tensor, old: Tensor | None) -> Tensor:
        return self._op.step(name, "ElementWiseSelect", [runs, new, self.filled(old)])


def check_steps(layer: Layer, nodes: int, why: str) -> None:
    """Raise if a layer has too many steps, or none.

    Args:
        layer: The layer.
        nodes: Number of nodes of a step.
        why: The reason why steps are written out, apart from the lengths of sequences.

    Raises:
        UnsupportedOpError: It has.
    """
    steps = layer.op.spec(0).shape[0 if layer.time_major else 1]
    if layer.lengths is not None:
        nodes, why = nodes + _LENGTHS_NODES, "no op has sequences of different lengths"
    if not 1 <= steps <= most_steps(nodes):
        raise layer.op.unsupported(
            f"{steps} steps; {why}, and only 1 to {most_steps(nodes)} steps are written out",
            hint="use LSTM or GRU with the default activations, and without sequence lengths",
        )
