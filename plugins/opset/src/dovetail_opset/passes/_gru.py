"""A Gru written out step by step, for backends without the op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.ir import Array, Graph, Node, Spec, Tensor
from dovetail_opset.build import add_all, static
from dovetail_opset.passes._rewrite import bound, first_input, is_constant, is_inner

Step = Callable[..., Tensor]

# Each step has about ten nodes: 10,000 in all, as many as the ONNX frontend unrolls.
_MAX_STEPS = 1000
_WEIGHTS = range(1, 13)
_H0, _RESET = 13, 14


def can_write_out_gru(node: Node) -> bool:
    """Return whether a Gru of floats has constant weights, few steps, and keeps no state."""
    op: Any = bound(node)
    x = first_input(node)
    weights = [tensor for i in _WEIGHTS if (tensor := _given(node, i)) is not None]
    return (
        op is not None
        and _given(node, _RESET) is None
        and all(map(is_constant, weights))
        and not any(x.dynamic)
        and 0 < x.shape[0 if op.time_major else 1] <= _MAX_STEPS
    )


def write_out_gru(graph: Graph, node: Node, step: Step) -> None:
    """Add the nodes that compute a Gru, which is no longer in the graph.

    Args:
        graph: The graph.
        node: The Gru.
        step: Adds a node in place of the Gru; takes op, inputs and params, and returns the output.
    """
    _Writer(graph, node, step).write()


def _given(node: Node, index: int) -> Tensor | None:
    return node.inputs[index] if index < len(node.inputs) else None


def _values(node: Node, index: int) -> Array | None:
    tensor = _given(node, index)
    return None if tensor is None else tensor.values()


@dataclass(frozen=True, slots=True)
class _Writer:
    """Adds the nodes of a Gru: those of all steps at once, then those of each step.

    All tensors between have the shape (batch, features), or that of all steps one below the other.
    """

    graph: Graph
    node: Node
    step: Step

    def write(self) -> None:
        """Add all nodes."""
        op: Any = bound(self.node)
        x = first_input(self.node)
        steps, batch = x.shape[:2] if op.time_major else x.shape[1::-1]
        weights = op.packed([None, *(_values(self.node, i) for i in _WEIGHTS)])
        units = len(weights.recurrent) // 3
        is_turned = not op.time_major and batch > 1
        if is_turned:
            x = self.step("Transpose", x, perm=[1, 0, 2])
        rows = self._reshaped(x, (steps * batch, x.shape[-1]))
        opened, new = (
            self._pieces(self._layer(rows, weights.inputs[part], weights.bias[part]), steps)
            for part in (slice(2 * units), slice(2 * units, None))
        )
        of_gates = self._static(weights.recurrent[: 2 * units])
        of_new = self._static(weights.recurrent[2 * units :])
        new_bias = self._static(weights.new_bias) if op.linear_before_reset else None
        h = self._start(batch, units)
        results: dict[int, Tensor] = {}
        for i in range(steps) if op.direction == 0 else reversed(range(steps)):
            gates = self.step("ElementWiseAdd", opened[i], self.step("FullyConnected", h, of_gates))
            update, reset = self._pieces(self.step("Sigmoid", gates), 2, axis=1)
            if op.linear_before_reset:
                hidden = self.step("FullyConnected", h, of_new, new_bias)
                hidden = self.step("ElementWiseMultiply", reset, hidden)
            else:
                hidden = self.step("ElementWiseMultiply", reset, h)
                hidden = self.step("FullyConnected", hidden, of_new)
            fresh = self.step("Tanh", self.step("ElementWiseAdd", new[i], hidden))
            change = self.step("ElementWiseSubtract", h, fresh)
            change = self.step("ElementWiseMultiply", update, change)
            h = results[i] = self.step("ElementWiseAdd", fresh, change)
        self._finish(h, [results[i] for i in range(steps)], is_turned=is_turned)

    def _start(self, batch: int, units: int) -> Tensor:
        """Return h before the first step."""
        h0 = _given(self.node, _H0)
        if h0 is not None:
            return self._reshaped(h0, (batch, units))
        return self._static(np.zeros((batch, units), first_input(self.node).dtype.storage))

    def _finish(self, last: Tensor, results: Sequence[Tensor], *, is_turned: bool) -> None:
        """Write the outputs of the Gru that are read."""
        sequence, final = self.node.outputs
        if self._is_read(final):
            self.step("Reshape", last, outputs=final)
        else:
            self.graph.remove_tensor(final)
        if not self._is_read(sequence):
            self.graph.remove_tensor(sequence)
            return
        rows = results[0] if len(results) == 1 else self.step("Concat", *results, axis=0)
        if not is_turned:
            self.step("Reshape", rows, outputs=sequence)
            return
        shape = (len(results), *last.shape)
        self.step("Transpose", self._reshaped(rows, shape), perm=[1, 0, 2], outputs=sequence)

    def _is_read(self, tensor: Tensor) -> bool:
        return bool(self.graph.consumers(tensor)) or not is_inner(tensor)

    def _layer(self, rows: Tensor, weight: Array, bias: Array) -> Tensor:
        return self.step("FullyConnected", rows, self._static(weight), self._static(bias))

    def _pieces(self, x: Tensor, count: int, axis: int = 0) -> Sequence[Tensor]:
        """Return equal pieces of a tensor along an axis."""
        if count == 1:
            return [x]
        size = x.shape[axis] // count
        begins = np.arange(size, size * count, size, dtype=np.uint32)
        name, sources = f"{self.node.name}.split", self.node.sources
        return add_all(
            self.graph, "Split", [x], name=name, sources=sources, axis=axis, split_index=begins
        )

    def _reshaped(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        return x if x.shape == shape else self.step("Reshape", x, spec=Spec(x.dtype, shape))

    def _static(self, values: Array) -> Tensor:
        return static(self.graph, f"{self.node.name}.weight", values)
