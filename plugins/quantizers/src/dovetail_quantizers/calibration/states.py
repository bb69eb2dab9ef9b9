"""Values inside nodes that share the encodings of outputs: the states of recurrent layers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from dovetail.ir import Array, Graph, Node, Tensor
from dovetail.ops import Op, OpRegistry, OpSchema, to_real
from dovetail_quantizers.planning.roles import present, schema_of
from dovetail_quantizers.planning.rules import op_of


@dataclass(frozen=True, slots=True)
class StateNode:
    """A node whose state is observed.

    Attributes:
        node: The node.
        schema: The schema of its op.
        op: Its op, which keeps the state between runs as the node does.
        constants: Real values of static inputs, by index.
        tensors: Observed outputs, by index.
    """

    node: Node
    schema: OpSchema
    op: Op
    constants: Mapping[int, Array]
    tensors: Mapping[int, Tensor]

    @property
    def shown(self) -> list[Tensor]:
        """The tensors that a run must show."""
        inputs = [t for i, t in present(self.node) if i not in self.constants]
        return [*inputs, *self.node.outputs]

    def values(self, shown: Mapping[str, Array]) -> Iterator[tuple[Tensor, Array]]:
        """Yield observed outputs with further values of their encodings, from one run."""
        varying = {
            i: to_real(shown[t.name], t.spec)
            for i, t in present(self.node)
            if i not in self.constants
        }
        known = {**self.constants, **varying}
        ins = [known.get(i) for i in range(len(self.node.inputs))]
        outs = [to_real(shown[t.name], t.spec) for t in self.node.outputs]
        for i, values in self.schema.states(self.op, ins, outs).items():
            if i in self.tensors:
                yield self.tensors[i], values


def state_nodes(graph: Graph, watched: Collection[Tensor], ops: OpRegistry) -> list[StateNode]:
    """Return the nodes of a graph with states that share the encodings of watched tensors."""
    found = []
    for node in graph.nodes:
        schema = schema_of(node, ops)
        indices = schema.op.state_outputs
        tensors = {i: t for i, t in enumerate(node.outputs) if i in indices and t in watched}
        if tensors:
            constants = {
                i: to_real(t.values(), t.spec) for i, t in present(node) if t.kind.is_static
            }
            found.append(StateNode(node, schema, op_of(node, ops), constants, tensors))
    return found
