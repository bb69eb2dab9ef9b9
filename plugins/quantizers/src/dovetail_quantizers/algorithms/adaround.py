"""The algorithm `adaround`: learns for each weight whether to round it up or down."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array, Node, quantize
from dovetail.quantization import Layer, QuantizationAlgorithm, Refinement
from dovetail_opset.ops.activation import Neuron
from dovetail_quantizers.algorithms.adaround_learning import Problem, Schedule, learn
from dovetail_quantizers.algorithms.adaround_rows import Rows, outputs_at, rows_of
from dovetail_quantizers.algorithms.channel_paths import title
from dovetail_quantizers.algorithms.linear_layer import is_standard, number
from dovetail_quantizers.algorithms.parameters import Between, check_parameters

Floats = NDArray[np.float32]

_UNCUT = (-math.inf, math.inf)
_CUTS = {"Relu": (0.0, math.inf), "Relu6": (0.0, 6.0), "Relu1": (-1.0, 1.0)}


@dataclass(frozen=True)
class AdaRound(QuantizationAlgorithm):
    """Rounds each weight up or down, whichever leaves the layer's results nearest the float ones.

    Layers come in order. Each is fed with what the quantized network gives it, and what is to come
    out is what comes out of the float network, both after the Relu or clip behind it, if there is
    one. Weights stay on their grid; each goes to one of the two points beside it.

    Attributes:
        samples: As many of the first samples are learned from. Memory grows with it.
        rows: Of a layer's results, as many positions are learned from, drawn from all samples.
        batch: As many of them are looked at in each iteration.
        iterations: Of each layer.
        rate: Adam's learning rate.
        regularization: Weight of what drives decisions to up or down.
        warm_start: Share of the iterations without that.
        first_beta, last_beta: Its exponent, from the warm start to the end.
        seed: Of the positions that are drawn.

    Source: Nagel et al. 2020, Up or Down? Adaptive Rounding for Post-Training Quantization.
    """

    name: ClassVar[str] = "adaround"

    samples: int = field(default=64, metadata=Between(1, 1_000_000).metadata)
    rows: int = field(default=4096, metadata=Between(1, 10_000_000).metadata)
    batch: int = field(default=256, metadata=Between(1, 1_000_000).metadata)
    iterations: int = field(default=1000, metadata=Between(1, 10_000_000).metadata)
    rate: float = field(default=0.02, metadata=Between(1e-6, 10).metadata)
    regularization: float = field(default=0.01, metadata=Between(0, 100).metadata)
    warm_start: float = field(default=0.2, metadata=Between(0, 1).metadata)
    first_beta: float = field(default=20.0, metadata=Between(1, 100).metadata)
    last_beta: float = field(default=2.0, metadata=Between(1, 100).metadata)
    seed: int = field(default=0, metadata=Between(0, 2**63).metadata)

    def __post_init__(self) -> None:
        """Checks the parameters.

        Raises:
            ConfigError: A value is of the wrong type, or out of range; says all that are.
        """
        check_parameters(self, self.name)

    def refine(self, work: Refinement) -> Sequence[str]:
        """Rounds the weights of each layer; the notes say what became of its error."""
        return tuple(self._notes(work))

    def _notes(self, work: Refinement) -> Iterator[str]:
        twins = {node.name: node for node in work.float_graph.nodes}
        for count, layer in enumerate(work.layers(self.samples)):
            form = rows_of(layer.node, work.ops)
            if form is None:
                yield f"{title(layer.node)}: weights stay as they are, rounded to nearest"
                continue
            twin = twins[layer.node.name]
            readers = work.float_graph.consumers(twin.outputs[0])
            cut = _cut(readers[0]) if len(readers) == 1 else _UNCUT
            random = np.random.default_rng((self.seed, count))
            yield self._round(layer, form, cut, random)

    def _round(
        self, layer: Layer, form: Rows, cut: tuple[float, float], random: np.random.Generator
    ) -> str:
        weight = layer.node.inputs[layer.weight]
        assert weight is not None
        choice = _Choice.of(layer)
        problem = self._problem(layer, form, choice, cut, random)
        schedule = Schedule(
            self.iterations,
            self.batch,
            self.rate,
            self.regularization,
            self.warm_start,
            self.first_beta,
            self.last_beta,
        )
        up = learn(problem, schedule)
        layer.set_weight(np.where(form.weight(up), choice.above, choice.below))
        before = float(problem.errors(problem.nearest).sum())
        after = float(problem.errors(up).sum())
        share = after / before if before else 1.0
        changed = int((up != problem.nearest).sum())
        return (
            f"{title(layer.node)}: {changed} of {up.size} weights rounded the other way; "
            f"{share:.1%} of the square error of rounding to nearest is left"
        )

    def _problem(
        self,
        layer: Layer,
        form: Rows,
        choice: _Choice,
        cut: tuple[float, float],
        random: np.random.Generator,
    ) -> Problem:
        low = form.columns(choice.low)
        groups = len(low)
        bias = layer.quantized_bias
        count = low.shape[0] * low.shape[2]
        rows, target = _drawn(layer, form, groups, self.rows, random)
        return Problem(
            low,
            form.columns(choice.step),
            form.columns(choice.fraction),
            form.columns(choice.nearest),
            rows,
            np.clip(target, *cut),
            (np.zeros(count, np.float32) if bias is None else bias).reshape(groups, 1, -1),
            cut,
        )


@dataclass(frozen=True, slots=True)
class _Choice:
    """The two points of the grid beside each weight, all of the weight's shape.

    Attributes:
        below, above: As stored integers.
        low: The real value of the one below.
        step: What the one above has more.
        fraction: Where between them the weight is.
        nearest: Where rounding to nearest takes the one above.
    """

    below: Array
    above: Array
    low: Floats
    step: Floats
    fraction: Floats
    nearest: NDArray[np.bool_]

    @classmethod
    def of(cls, layer: Layer) -> _Choice:
        tensor = layer.node.inputs[layer.weight]
        assert tensor is not None
        assert tensor.encoding is not None
        dtype, encoding, values = tensor.dtype, tensor.encoding, layer.float_weight
        scale, offset = encoding.grid(values.shape)
        low, high = dtype.stored_range(encoding.bitwidth)
        wide = np.where(scale == 0, np.inf, scale.astype(np.float64))
        places = values / wide - offset
        below = np.clip(np.floor(places), low, high)
        above = np.clip(np.floor(places) + 1, low, high)
        nearest = quantize(values, encoding, dtype) > below
        return cls(
            below.astype(dtype.storage),
            above.astype(dtype.storage),
            ((below + offset) * scale).astype(np.float32),
            ((above - below) * scale).astype(np.float32),
            np.clip(places - below, 0, 1).astype(np.float32),
            nearest,
        )


def _drawn(
    layer: Layer, form: Rows, groups: int, count: int, random: np.random.Generator
) -> tuple[Floats, Floats]:
    """Gives rows of the data and the float results for them, of positions drawn at random."""
    taken, target = [], []
    each = max(-(-count // len(layer.float_outputs)), 1)
    for data, output in zip(layer.quantized_inputs, layer.float_outputs, strict=True):
        positions = math.prod(output.shape[:-1])
        places = random.permutation(positions)[:each]
        taken.append(form.rows(data, places))
        target.append(outputs_at(output, groups, places))
    order = random.permutation(sum(each.shape[1] for each in taken))
    return _ordered(taken, order), _ordered(target, order)


def _ordered(parts: Sequence[Array], order: NDArray[np.int64]) -> Floats:
    return np.ascontiguousarray(np.concatenate(parts, axis=1)[:, order], np.float32)


def _cut(node: Node) -> tuple[float, float]:
    """Gives the ends at which a node cuts its input off, if that is all it does."""
    if is_standard(node, "ReluMinMax"):
        return number(node, "min_value"), number(node, "max_value")
    if is_standard(node, "ElementWiseNeuron"):
        operation = number(node, "operation", -1)
        if operation == Neuron.RELU_MIN_MAX:
            return number(node, "min_value"), number(node, "max_value")
        return _CUTS["Relu"] if operation == Neuron.RELU else _UNCUT
    return _CUTS[node.op_type] if is_standard(node, *_CUTS) else _UNCUT
