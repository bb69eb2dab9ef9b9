"""The algorithm `adaround`: learns for each weight whether to round it up or down."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from dovetail.ir import Node
from dovetail.quantization import QuantizationAlgorithm, Refinement
from dovetail_opset.ops.activation import Neuron
from dovetail_quantizers.algorithms.adaround_gates import RECURRENT
from dovetail_quantizers.algorithms.adaround_learning import Learned, learn
from dovetail_quantizers.algorithms.adaround_problem import Schedule
from dovetail_quantizers.algorithms.adaround_tasks import UNCUT, Cut, Draw, tasks_of
from dovetail_quantizers.algorithms.channel_paths import title
from dovetail_quantizers.algorithms.linear_layer import LINEAR, is_standard, number
from dovetail_quantizers.algorithms.parameters import Between, check_parameters

_CUTS: dict[str, Cut] = {"Relu": (0.0, math.inf), "Relu6": (0.0, 6.0), "Relu1": (-1.0, 1.0)}


@dataclass(frozen=True)
class AdaRound(QuantizationAlgorithm):
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

    samples: int = field(default=64, metadata=Between(1, 1_000_000).metadata)
    rows: int = field(default=4096, metadata=Between(1, 10_000_000).metadata)
    batch: int = field(default=128, metadata=Between(1, 1_000_000).metadata)
    iterations: int = field(default=300, metadata=Between(1, 10_000_000).metadata)
    rate: float = field(default=0.06, metadata=Between(1e-6, 10).metadata)
    regularization: float = field(default=0.01, metadata=Between(0, 100).metadata)
    warm_start: float = field(default=0.1, metadata=Between(0, 1).metadata)
    first_beta: float = field(default=8.0, metadata=Between(1, 100).metadata)
    last_beta: float = field(default=2.0, metadata=Between(1, 100).metadata)
    seed: int = field(default=0, metadata=Between(0, 2**63).metadata)

    def __post_init__(self) -> None:
        """Check the parameters.

        Raises:
            ConfigError: Values have the wrong type or are out of range; all are listed.
        """
        check_parameters(self, self.name)

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
            if each.layer is None and not is_standard(each.node, *RECURRENT, *LINEAR):
                continue
            draw = Draw(self.rows, np.random.default_rng((self.seed, count)))
            readers = work.float_graph.consumers(siblings[each.node.name].outputs[0])
            cut = _cut(readers[0]) if len(readers) == 1 else UNCUT
            tasks = tasks_of(each, work.ops, cut, draw)
            if isinstance(tasks, str):
                yield f"{title(each.node)} is left out, its weights rounded to nearest: {tasks}"
                continue
            # Two threads of NumPy's BLAS gain nothing: most of a step is elementwise. Beside other
            # processes they take two to six times as long, since each product waits for both.
            with threadpool_limits(1, user_api="blas"):
                learned = [learn(task.problem, schedule) for task in tasks]
            for task, found in zip(tasks, learned, strict=True):
                task.store(found.up)
            yield f"{title(each.node)}: {_told(learned)}"


def _told(learned: Sequence[Learned]) -> str:
    before = sum(each.before for each in learned)
    share = sum(each.after for each in learned) / before if before else 1.0
    return (
        f"{sum(each.changed for each in learned)} of {sum(each.up.size for each in learned)} "
        f"weights rounded the other way; {share:.1%} of the squared error of rounding to "
        "nearest remains"
    )


def _cut(node: Node) -> Cut:
    """Return the bounds of a node that only clips; infinite bounds for other nodes."""
    if is_standard(node, "ReluMinMax"):
        return number(node, "min_value"), number(node, "max_value")
    if is_standard(node, "ElementWiseNeuron"):
        operation = number(node, "operation", -1)
        if operation == Neuron.RELU_MIN_MAX:
            return number(node, "min_value"), number(node, "max_value")
        return _CUTS["Relu"] if operation == Neuron.RELU else UNCUT
    return _CUTS[node.op_type] if is_standard(node, *_CUTS) else UNCUT
