"""A node with weights for algorithms: its inputs in both networks, and its weights."""

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
# Values of inputs by number: an array for each sample.
Flowing = Mapping[int, Sequence[Floats]]


class RefinedNode:
    """See `dovetail.quantization.WeightedNode`.

    Args:
        plan: The plan; its graph is the quantized one.
        node: The node in it.
        sibling: The node in the float graph.
        flowing: Real values of its inputs in the float network, and in the quantized one.
        outputs: Its first output in the float network.
        decisions: The decision on each tensor; those on new tensors are added.
    """

    layer: Layer | None = None

    def __init__(
        self,
        plan: Plan,
        node: Node,
        sibling: Node,
        flowing: tuple[Flowing, Flowing],
        outputs: Sequence[Floats],
        decisions: Decisions,
    ) -> None:
        self.node = node
        self.sibling = sibling
        self.float_inputs, self.quantized_inputs = flowing
        self.float_outputs = outputs
        self.plan = plan
        self.decisions = decisions

    def float_static(self, i: int) -> Floats | None:
        """Return a static input before quantization, None without one."""
        tensor = _statics(self.sibling).get(i)
        return None if tensor is None else values_of(tensor)

    def quantized_static(self, i: int) -> Floats | None:
        """Return the current real values of a static input, None without one."""
        tensor = _statics(self.node).get(i)
        return None if tensor is None else real_values(tensor)

    def accumulated(self) -> Iterator[Floats]:
        """Compute from the quantized inputs and the current weights, in real numbers."""
        statics = {i: real_values(t) for i, t in _statics(self.node).items()}
        count = len(self.float_outputs)
        given = ({i: each[s] for i, each in self.quantized_inputs.items()} for s in range(count))
        yield from self.computed(given, statics)

    def set_stored(self, i: int, stored: Array) -> None:
        """Store other integers for a static input, of the same shape, type and encoding."""
        tensor = self.own(i)
        if stored.shape != tensor.shape:
            raise QuantizationError(
                f"integers of shape {stored.shape} for a weight of {tensor.shape}",
                where=self.node.where,
            )
        tensor.data = pack(stored, tensor.dtype)

    def float_statics(self) -> dict[int, Array]:
        """Return all static inputs before quantization, by number."""
        return {i: values_of(t) for i, t in _statics(self.sibling).items()}

    def computed(
        self, given: Iterator[Mapping[int, Floats]], statics: Mapping[int, Array]
    ) -> Iterator[Floats]:
        """Compute the first output from real values and static inputs."""
        shape = Node(
            self.sibling.name,
            self.sibling.package,
            self.sibling.op_type,
            self.node.inputs,
            self.node.outputs,
            self.sibling.params,
        )
        run = NodeRunner(shape, statics, self.plan.ops, self.plan.options.calibration_backend)
        try:
            for values in given:
                yield run(values)[0]
        finally:
            run.close()

    def own(self, i: int) -> Tensor:
        """Return a static input, copied if other nodes read it."""
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
    """Return an input that must be present."""
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
