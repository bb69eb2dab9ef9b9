"""The learning tasks of a node: products of rows and weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array
from dovetail.ops import OpRegistry
from dovetail.quantization import Layer, WeightedNode
from dovetail_quantizers.algorithms.adaround_choice import Choice
from dovetail_quantizers.algorithms.adaround_gates import (
    RECURRENT,
    Gates,
    Recurrence,
    recurrence_of,
    rows_of_gates,
    statics_of,
)
from dovetail_quantizers.algorithms.adaround_problem import Problem
from dovetail_quantizers.algorithms.adaround_rows import Rows, outputs_at, rows_of
from dovetail_quantizers.algorithms.linear_layer import is_standard

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
Cut = tuple[float, float]
UNCUT: Cut = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Task:
    """A learning task.

    Attributes:
        problem: The problem.
        store: Stores the weights, from a mask of those to round up in the form of the problem.
    """

    problem: Problem
    store: Callable[[Bools], None]


@dataclass(frozen=True, slots=True)
class Draw:
    """The drawing of positions.

    Attributes:
        rows: Number of positions, from all samples together.
        random: The random generator.
    """

    rows: int
    random: np.random.Generator

    def positions(self, positions: int, samples: int) -> NDArray[np.int64]:
        """Return the drawn positions of one sample."""
        share = max(-(-self.rows // samples), 1)
        return self.random.permutation(positions)[:share]

    def mixed(self, rows: Sequence[Array], targets: Sequence[Array]) -> tuple[Floats, Floats]:
        """Return the rows of all samples, (groups, m, k), and their targets, in random order."""
        order = self.random.permutation(sum(each.shape[1] for each in rows))
        return _ordered(rows, order), _ordered(targets, order)


def _ordered(parts: Sequence[Array], order: NDArray[np.int64]) -> Floats:
    return np.ascontiguousarray(np.concatenate(parts, axis=1)[:, order], np.float32)


def tasks_of(each: WeightedNode, ops: OpRegistry, cut: Cut, draw: Draw) -> list[Task] | str:
    """Return the learning tasks of a node, or the reason why it is left out.

    Args:
        each: The node.
        ops: Finds its op.
        cut: Bounds of a following clip.
        draw: The drawing of positions.
    """
    if each.layer is not None:
        form = rows_of(each.node, ops)
        if form is None:
            return "the weight is not one constant matrix"
        return [_of_layer(each.layer, form, cut, draw)]
    if not is_standard(each.node, *RECURRENT):
        return "the weight or the bias is not a constant"
    recurrence = recurrence_of(each.node, ops)
    if recurrence is None:
        return "the layer keeps its state from call to call"
    inputs = (each.node.inputs[i] for i in (*recurrence.weights, *recurrence.biases))
    if any(t is not None and not t.kind.is_static for t in inputs):
        return "a weight or a bias of the gates is not a constant"
    if any(
        t is None or t.encoding is None
        for t in map(each.node.inputs.__getitem__, recurrence.weights)
    ):
        return "a weight of the gates is not fixed-point"
    return list(_of_gates(each, recurrence, draw))


def _of_layer(layer: Layer, form: Rows, cut: Cut, draw: Draw) -> Task:
    weight = layer.node.inputs[layer.weight]
    assert weight is not None
    choice = Choice.of(weight, layer.float_weight)
    low = form.columns(choice.low)
    groups = len(low)
    taken, target = [], []
    for data, output in zip(layer.quantized_inputs, layer.float_outputs, strict=True):
        positions = draw.positions(math.prod(output.shape[:-1]), len(layer.float_outputs))
        taken.append(form.rows(data, positions))
        target.append(outputs_at(output, groups, positions))
    rows, wanted = draw.mixed(taken, target)
    bias = layer.quantized_bias
    if bias is None:
        bias = np.zeros(groups * low.shape[2], np.float32)
    problem = Problem(
        low,
        form.columns(choice.step),
        form.columns(choice.fraction),
        form.columns(choice.nearest),
        rows,
        wanted,
        bias.reshape(groups, 1, -1),
        cut,
    )
    return Task(problem, lambda up: layer.set_weight(choice.stored(form.weight(up))))


def _of_gates(each: WeightedNode, recurrence: Recurrence, draw: Draw) -> Iterator[Task]:
    exact = statics_of(each, recurrence, exact=True)
    near = statics_of(each, recurrence, exact=False)
    tensors = {i: tensor for i in recurrence.weights if (tensor := each.node.inputs[i])}
    for gates in recurrence.gates:
        choices = {i: Choice.of(tensors[i], exact[i]) for i in gates.weights}
        columns, bias = gates.columns(exact)[0], gates.bias(exact)
        taken, target = [], []
        found = (rows_of_gates(each, recurrence, gates, exact=exactly) for exactly in (False, True))
        for rows, wanted in zip(*found, strict=True):
            positions = draw.positions(len(rows), len(each.float_outputs))
            taken.append(rows[None, positions])
            target.append(wanted[None, positions] @ columns + bias)
        drawn, results = draw.mixed(taken, target)
        problem = Problem(
            gates.columns({i: choice.low for i, choice in choices.items()}),
            gates.columns({i: choice.step for i, choice in choices.items()}),
            gates.columns({i: choice.fraction for i, choice in choices.items()}),
            gates.columns({i: choice.nearest for i, choice in choices.items()}),
            drawn,
            results,
            gates.bias(near),
        )
        yield Task(problem, _storing(each, gates, choices))


def _storing(
    each: WeightedNode, gates: Gates, choices: dict[int, Choice]
) -> Callable[[Bools], None]:
    def store(up: Bools) -> None:
        shapes = {i: choice.low for i, choice in choices.items()}
        for i, of_one in gates.split(up, shapes).items():
            each.set_stored(i, choices[i].stored(of_one))

    return store
