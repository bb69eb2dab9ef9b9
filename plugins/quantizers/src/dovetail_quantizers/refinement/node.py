"""A node with weights as algorithms see it: its inputs in both networks, and its stored numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import QuantizationError
from dovetail.ir import Array, Node, Tensor, pack
from dovetail.ops import to_real
from dovetail.quantization import Layer
from dovetail_quantizers.annotation.annotate import Decisions
from dovetail_quantizers.annotation.statics import values_of
from dovetail_quantizers.planning.plan import Plan
from dovetail_quantizers.planning.roles import present
from dovetail_quantizers.refinement.node_runner import NodeRunner

Floats = NDArray[np.float32]
# What flows into a node, by the number of the input: an array for each sample.
Flowing = Mapping[int, Sequence[Floats]]


class RefinedNode:
    """See `dovetail.quantization.WeightedNode`.

    Args:
        plan: The plan; its graph is the quantized one.
        node: The node in it.
        twin: The node in the float graph.
        flowing: Real values of its inputs in the float network, and in the quantized one.
        outputs: What the float network computes as its first output.
        decisions: Get what is decided for tensors that are new.
    """

    layer: Layer | None = None

    def __init__(
        self,
        plan: Plan,
        node: Node,
        twin: Node,
        flowing: tuple[Flowing, Flowing],
        outputs: Sequence[Floats],
        decisions: Decisions,
    ) -> None:
        self.node = node
        self.twin = twin
        self.float_inputs, self.quantized_inputs = flowing
        self.float_outputs = outputs
        self.plan = plan
        self.decisions = decisions

    def float_static(self, i: int) -> Floats | None:
        """Return a static input before it was quantized, None where there is none."""
        tensor = _statics(self.twin).get(i)
        return None if tensor is None else values_of(tensor)

    def quantized_static(self, i: int) -> Floats | None:
        """Return the real values of a static input as it is by now, None where there is none."""
        tensor = _statics(self.node).get(i)
        return None if tensor is None else real_values(tensor)

    def accumulated(self) -> Iterator[Floats]:
        """Compute from the quantized inputs and the present weights, in real numbers."""
        statics = {i: real_values(t) for i, t in _statics(self.node).items()}
        count = len(self.float_outputs)
        given = ({i: each[s] for i, each in self.quantized_inputs.items()} for s in range(count))
        yield from self.computed(given, statics)

    def set_stored(self, i: int, stored: Array) -> None:
        """Store other integers in a static input's type, of its shape, under its encoding."""
        tensor = self.own(i)
        if stored.shape != tensor.shape:
            raise QuantizationError(
                f"integers of shape {stored.shape} for a weight of {tensor.shape}",
                where=self.node.where,
            )
        tensor.data = pack(stored, tensor.dtype)

    def float_statics(self) -> dict[int, Array]:
        """Return all static inputs before they were quantized, by number."""
        return {i: values_of(t) for i, t in _statics(self.twin).items()}

    def computed(
        self, given: Iterator[Mapping[int, Floats]], statics: Mapping[int, Array]
    ) -> Iterator[Floats]:
        """Compute the first output from real values, some of them the same each time."""
        shape = Node(
            self.twin.name,
            self.twin.package,
            self.twin.op_type,
            self.node.inputs,
            self.node.outputs,
            self.twin.params,
        )
        run = NodeRunner(shape, statics, self.plan.ops, self.plan.options.calibration_backend)
        try:
            for values in given:
                yield run(values)[0]
        finally:
            run.close()

    def own(self, i: int) -> Tensor:
        """Return a static input as a tensor that no other node reads."""
        tensor = static(self.node, i)
        graph = self.plan.graph
        if len(graph.consumers(tensor)) == 1 and self.node.inputs.count(tensor) == 1:
            return tensor
        made = Tensor(
            graph.fresh_name(f"{tensor.name}.{self.node.name}"),
            tensor.dtype,
            tensor.shape,
            tensor.kind,
            encoding=tensor.encoding,
            data=tensor.data,
            source=tensor.source,
            source_perm=tensor.source_perm,
        )
        graph.add_tensor(made)
        inputs = [made if j == i else t for j, t in enumerate(self.node.inputs)]
        graph.set_inputs(self.node, inputs)
        if tensor in self.decisions:
            self.decisions[made] = self.decisions[tensor]
        return made


def static(node: Node, i: int) -> Tensor:
    """Return an input that must be there."""
    found = _tensor(node, i)
    if found is None:
        raise AssertionError(f"{node.where} has no input {i}")
    return found


def real_values(tensor: Tensor) -> Array:
    """Return the real values of a static tensor of any type."""
    return to_real(tensor.stored(), tensor.spec)


def _tensor(node: Node, i: int) -> Tensor | None:
    return dict(present(node)).get(i)


def _statics(node: Node) -> dict[int, Tensor]:
    return {i: t for i, t in present(node) if t.kind.is_static}
