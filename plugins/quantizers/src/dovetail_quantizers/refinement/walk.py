"""Runs of both networks, node by node over the samples, for `Refinement.layers`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from dovetail.ir import Array, Graph, Node, Tensor
from dovetail.ops import OpRegistry, from_real, to_real
from dovetail.quantization import (
    Bias,
    Calibration,
    Layer,
    QuantizationOptions,
    Weight,
    WeightedNode,
)
from dovetail_quantizers.annotation.annotate import Decisions
from dovetail_quantizers.calibration.running import node_runner
from dovetail_quantizers.calibration.samples import require_repeatable, samples_of
from dovetail_quantizers.planning.plan import Plan
from dovetail_quantizers.planning.roles import present, roles_of
from dovetail_quantizers.refinement.layer import (
    RefinedLayer,
    RefinedNode,
    real_values,
    with_params,
)


class Walk:
    """See `dovetail.quantization.Refinement`.

    Args:
        plan: The plan, annotated: its graph is the quantized one.
        float_graph: The float graph.
        calibration: The samples.
        decisions: The decision on each tensor; layers update them.
    """

    def __init__(
        self, plan: Plan, float_graph: Graph, calibration: Calibration | None, decisions: Decisions
    ) -> None:
        self._plan = plan
        self._float = float_graph
        self._calibration = calibration
        self._decisions = decisions

    @property
    def float_graph(self) -> Graph:
        """The float graph, as the algorithms rewrote it. Not to be changed."""
        return self._float

    @property
    def graph(self) -> Graph:
        """The quantized graph."""
        return self._plan.graph

    @property
    def ops(self) -> OpRegistry:
        """Find ops."""
        return self._plan.ops

    @property
    def options(self) -> QuantizationOptions:
        """The user's."""
        return self._plan.options

    def layers(self, samples: int = 32) -> Iterator[Layer]:
        """Return the layers in the order of computation; see `Refinement.layers`."""
        return (each.layer for each in self.weighted(samples) if each.layer is not None)

    def weighted(self, samples: int = 32) -> Iterator[WeightedNode]:
        """Yield the nodes with weights, layers among them; see `Refinement.weighted`."""
        taken = self._samples(samples)
        exact = _Values(self._float, taken)
        rounded = _Values(self.graph, taken)
        siblings = {node.name: node for node in self._float.nodes}
        for node in self.graph.nodes:
            sibling = siblings.get(node.name)
            if sibling is None:  # a Convert that the quantizer inserted
                rounded.set(node.outputs[0], rounded.of(node.inputs[0]))
                rounded.release(node)
                continue
            exact.run(sibling, sibling, self._plan)
            if self._has_weights(node):
                yield self._weighted(node, sibling, exact, rounded)
            rounded.run(node, sibling, self._plan)
            rounded.release(node)
            exact.release(sibling)

    def _samples(self, count: int) -> list[dict[str, Array]]:
        purpose = "an algorithm compares both networks on the samples"
        given = require_repeatable(self._calibration, self.graph, purpose)
        specs = {t.name: t.spec for t in self._float.inputs}
        found = itertools.islice(samples_of(self._float, given), count)
        return [
            {name: np.array(to_real(a, specs[name])) for name, a in sample.items()}
            for sample in found
        ]

    def _has_weights(self, node: Node) -> bool:
        """Return whether a static input of a node is a weight in fixed point.

        Weights without elements, and weights of a node that computes none, do not count.
        """
        roles = roles_of(node, self.ops)
        weights = [t for i, t in present(node) if isinstance(roles.get(i), Weight) and all(t.shape)]
        is_fixed = any(t.kind.is_static and t.dtype.is_fixed_point for t in weights)
        return is_fixed and all(node.outputs[0].shape)

    def _weighted(self, node: Node, sibling: Node, exact: _Values, rounded: _Values) -> RefinedNode:
        given = (
            self._plan,
            node,
            sibling,
            exact.flowing(sibling),
            rounded.flowing(node),
            exact.of(sibling.outputs[0]),
            self._decisions,
        )
        bias = self._bias(node)
        return RefinedNode(*given, layer=None if bias is None else RefinedLayer(*given, *bias))

    def _bias(self, node: Node) -> tuple[int, int, int] | None:
        """Return the numbers of the bias, data and weight of a fixed-point node.

        None if there is no static weight, or if the bias is computed or fed at run time.
        """
        inputs = dict(present(node))
        for i, role in roles_of(node, self.ops).items():
            if not isinstance(role, Bias) or role.data is None or role.weight is None:
                continue
            data, weight = node.inputs[role.data], node.inputs[role.weight]
            if data is None or data.kind.is_static or weight is None:
                continue
            if i in inputs and not inputs[i].kind.is_static:
                continue
            if weight.kind.is_static and weight.dtype.is_fixed_point:
                return i, role.data, role.weight
        return None


def _interface(node: Node, values: list[Array]) -> list[Array]:
    """Return values after a node between integers of the application and fixed-point tensors.

    The values represent these integers; only their type changes.
    """
    (x,), (y,) = node.inputs, node.outputs
    assert x is not None
    if node.op_type != "Cast":
        return values
    if y.dtype.is_fixed_point:
        ends = y.dtype.stored_range()
        # a cast of NaN, or beyond the type, would depend on the processor
        near = (np.clip(np.nan_to_num(value.astype(np.float64)), *ends) for value in values)
        return [to_real(value.astype(y.dtype.storage), y.spec) for value in near]
    return [from_real(value, x.spec) for value in values]


class _Values:
    """The values of one network's tensors for all samples, until all consumers have run."""

    def __init__(self, graph: Graph, samples: Sequence[dict[str, Array]]) -> None:
        self._graph = graph
        self._count = len(samples)
        self._values: dict[Tensor, list[Array]] = {}
        self._waiting: dict[Tensor, int] = {}
        for tensor in graph.inputs:
            self.set(tensor, [sample[tensor.name] for sample in samples])

    def of(self, tensor: Tensor | None) -> list[Array]:
        """Return the real values of a tensor that is not static."""
        assert tensor is not None
        return self._values[tensor]

    def flowing(self, node: Node) -> dict[int, list[Array]]:
        """Return the real values of a node's inputs that are not static, by number."""
        return {i: self._values[t] for i, t in present(node) if not t.kind.is_static}

    def set(self, tensor: Tensor, values: list[Array]) -> None:
        """Store values, rounded to the tensor's type and encoding."""
        spec = tensor.spec
        self._values[tensor] = [to_real(from_real(v, spec), spec) for v in values]
        self._waiting[tensor] = len(self._graph.consumers(tensor))

    def run(self, node: Node, sibling: Node, plan: Plan) -> None:
        """Compute the outputs of a node in real numbers, with the params of its sibling."""
        if any(
            t is not None and t.dtype.is_fixed_point for t in (*sibling.inputs, *sibling.outputs)
        ):
            self.set(node.outputs[0], _interface(node, self.of(node.inputs[0])))
            return
        inputs = [(i, t) for i, t in present(node)]
        fixed = {i: real_values(t) for i, t in inputs if t.kind.is_static}
        backend = plan.options.calibration_backend
        with node_runner(with_params(node, sibling), fixed, plan.ops, backend) as run:
            results = [
                run({i: self._values[t][s] for i, t in inputs if i not in fixed})
                for s in range(self._count)
            ]
        for i, tensor in enumerate(node.outputs):
            self.set(tensor, [each[i] for each in results])

    def release(self, node: Node) -> None:
        """Free tensors without further consumers after a node."""
        for tensor in {t for _, t in present(node) if not t.kind.is_static}:
            self._waiting[tensor] -= 1
            if self._waiting[tensor] == 0:
                del self._values[tensor]
        for tensor in node.outputs:
            if self._waiting.get(tensor) == 0:
                self._values.pop(tensor, None)
