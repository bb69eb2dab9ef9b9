"""The algorithm `adaround`: learns for each weight whether to round it up or down."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dovetail.ir import Array, Tensor, quantize
from dovetail.ops import UNBOUNDED, OpRegistry, Range
from dovetail.quantization import Layer, Refinement, WeightedNode
from dovetail_opset import is_op
from dovetail_quantizers.algorithms.adaround_learning import Learned, Problem, Schedule, learn
from dovetail_quantizers.algorithms.adaround_products import (
    RECURRENT,
    Gates,
    Recurrence,
    Rows,
    outputs_at,
    recurrence_of,
    rows_of,
    rows_of_gates,
    statics_of,
)
from dovetail_quantizers.algorithms.channel_paths import title
from dovetail_quantizers.algorithms.linear_layer import LINEAR
from dovetail_quantizers.algorithms.parameters import Count, ParameterizedAlgorithm, Share
from dovetail_quantizers.planning.rules import op_of

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class AdaRound(ParameterizedAlgorithm):
    """Rounds each weight up or down, to minimize the error of the layer's output.

    Layers are learned in order, each on its inputs in the quantized network. The target is the
    output in the float network, both after a following Relu or clip. Each weight goes to one of the
    two nearest points of its grid. For a recurrent layer, the targets are the sums in the gates.

    Attributes:
        samples: Number of samples to learn from, from the first. Memory grows with it.
        rows: Output positions of a layer to learn from, drawn from all samples.
        batch: Positions per iteration.
        iterations: Iterations per layer.
        rate: Adam's learning rate.
        regularization: Weight of the rounding regularizer.
        warm_start: Share of the iterations without the regularizer.
        first_beta, last_beta: Exponent of the regularizer after the warm start and at the end.
        seed: Seed for drawing positions.

    Source: Nagel et al. 2020, Up or Down? Adaptive Rounding for Post-Training Quantization.
    """

    name: ClassVar[str] = "adaround"

    samples: Count = 64
    rows: Annotated[int, Meta(ge=1, le=10_000_000)] = 4096
    batch: Count = 128
    iterations: Annotated[int, Meta(ge=1, le=10_000_000)] = 300
    rate: Annotated[float, Meta(ge=1e-6, le=10)] = 0.06
    regularization: Annotated[float, Meta(ge=0, le=100)] = 0.01
    warm_start: Share = 0.1
    first_beta: Annotated[float, Meta(ge=1, le=100)] = 8.0
    last_beta: Annotated[float, Meta(ge=1, le=100)] = 2.0
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0

    def refine(self, work: Refinement) -> Sequence[str]:
        """Round the weights of each layer and return notes on the errors."""
        return tuple(self._notes(work))

    def _notes(self, work: Refinement) -> Iterator[str]:
        schedule = Schedule(
            self.iterations,
            self.batch,
            self.rate,
            self.regularization,
            self.warm_start,
            self.first_beta,
            self.last_beta,
        )
        siblings = {node.name: node for node in work.float_graph.nodes}
        for count, each in enumerate(work.weighted(self.samples)):
            if each.layer is None and not is_op(each.node, *RECURRENT, *LINEAR):
                continue
            draw = Draw(self.rows, np.random.default_rng((self.seed, count)))
            readers = work.float_graph.consumers(siblings[each.node.name].outputs[0])
            after = op_of(readers[0], work.ops) if len(readers) == 1 else None
            cut = UNBOUNDED if after is None or not after.clips else after.value_range
            tasks = tasks_of(each, work.ops, cut, draw)
            if isinstance(tasks, str):
                yield f"{title(each.node)} is left out, its weights rounded to nearest: {tasks}"
                continue
            # Two threads of NumPy's BLAS gain nothing: most of a step is elementwise. With other
            # processes they take two to six times as long, since each product waits for both.
            with threadpool_limits(1, user_api="blas"):
                learned = [learn(task.problem, schedule) for task in tasks]
            for task, found in zip(tasks, learned, strict=True):
                task.store(found.up)
            yield f"{title(each.node)}: {_summary(learned)}"


def _summary(learned: Sequence[Learned]) -> str:
    before = sum(each.before for each in learned)
    share = sum(each.after for each in learned) / before if before else 1.0
    return (
        f"{sum(each.changed for each in learned)} of {sum(each.up.size for each in learned)} "
        f"weights rounded the other way; {share:.1%} of the squared error of rounding to "
        "nearest remains"
    )


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


def tasks_of(each: WeightedNode, ops: OpRegistry, cut: Range, draw: Draw) -> list[Task] | str:
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
    if not is_op(each.node, *RECURRENT):
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


def _of_layer(layer: Layer, form: Rows, cut: Range, draw: Draw) -> Task:
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


@dataclass(frozen=True, slots=True)
class Choice:
    """The two points of the grid next to each weight, all of the weight's shape.

    Attributes:
        below, above: The points as stored integers.
        low: The real value of the lower point.
        step: The difference of the real values.
        fraction: The position of the weight between them, 0 to 1.
        nearest: Whether rounding to nearest gives the upper point.
    """

    below: Array
    above: Array
    low: Floats
    step: Floats
    fraction: Floats
    nearest: NDArray[np.bool_]

    @classmethod
    def of(cls, tensor: Tensor, values: Floats) -> Choice:
        """Return the points of a fixed-point weight, from its float values."""
        assert tensor.encoding is not None
        dtype, encoding = tensor.dtype, tensor.encoding
        scale, offset = encoding.scales_and_offsets(values.shape)
        low, high = dtype.stored_range(encoding.bitwidth)
        wide = np.where(scale == 0, np.inf, scale.astype(np.float64))
        positions = values / wide - offset
        below = np.clip(np.floor(positions), low, high)
        above = np.clip(np.floor(positions) + 1, low, high)
        nearest = quantize(values, encoding, dtype) > below
        return cls(
            below.astype(dtype.storage),
            above.astype(dtype.storage),
            ((below + offset) * scale).astype(np.float32),
            ((above - below) * scale).astype(np.float32),
            np.clip(positions - below, 0, 1).astype(np.float32),
            nearest,
        )

    def stored(self, up: NDArray[np.bool_]) -> Array:
        """Return the stored integers for weights that are rounded up or down."""
        return np.where(up, self.above, self.below)
