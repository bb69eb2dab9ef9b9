"""Runs of a single node on real values, on any backend."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

import numpy as np

from dovetail.ir import Array, DType, Graph, Node, Tensor, TensorKind
from dovetail.ops import OpRegistry, from_real, to_real
from dovetail_quantizers.calibration.running import Runner, runner
from dovetail_quantizers.planning.roles import present


class NodeRunner:
    """A runner of one node on real values; call `close` at the end.

    Args:
        node: The node, with the types and shapes of its tensors.
        fixed: Values of inputs that are the same in each run, by number.
        ops: Finds its op.
        backend: Name of the backend.
    """

    def __init__(
        self, node: Node, fixed: Mapping[int, Array], ops: OpRegistry, backend: str
    ) -> None:
        self._node = node
        graph = Graph("node")
        inputs: list[Tensor | None] = [None] * len(node.inputs)
        for i, tensor in present(node):
            inputs[i] = graph.add_tensor(_input(tensor, i, fixed.get(i)))
        self._inputs = {i: t for i, t in enumerate(inputs) if t and t.kind.is_input}
        self._outputs = [graph.add_tensor(_output(t, i)) for i, t in enumerate(node.outputs)]
        graph.add_node(
            Node(node.name, node.package, node.op_type, inputs, self._outputs, node.params)
        )
        self._stack = ExitStack()
        self._run: Runner = self._stack.enter_context(runner(graph, ops, backend, ()))

    def __call__(self, inputs: Mapping[int, Array]) -> list[Array]:
        """Run once.

        Args:
            inputs: Real values of the inputs that are not fixed, by number.

        Returns:
            The outputs, as new arrays of real values.
        """
        given = {
            tensor.name: np.asarray(from_real(inputs[i], tensor.spec), order="C")
            for i, tensor in self._inputs.items()
        }
        shown = self._run(given)
        return [np.array(to_real(shown[t.name], t.spec)) for t in self._outputs]

    def close(self) -> None:
        """Free all resources."""
        self._stack.close()


def _real_type(dtype: DType) -> DType:
    return DType.FLOAT_32 if dtype.is_float or dtype.is_fixed_point else dtype


def _input(tensor: Tensor, i: int, values: Array | None) -> Tensor:
    dtype = _real_type(tensor.dtype)
    if values is not None:
        return Tensor.static(f"in{i}", np.asarray(values, dtype.storage), dtype)
    return Tensor(f"in{i}", dtype, tensor.shape, TensorKind.APP_WRITE)


def _output(tensor: Tensor, i: int) -> Tensor:
    return Tensor(f"out{i}", _real_type(tensor.dtype), tensor.shape, TensorKind.APP_READ)
