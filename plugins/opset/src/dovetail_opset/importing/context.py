"""The argument of an importer: one node's inputs and attributes, and methods that emit ops."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from dovetail.ir import Array, DType, Graph, Shape, Spec, Tensor
from dovetail.ir.check import is_possible
from dovetail.ops import OpPackage, unstorable
from dovetail_opset import build
from dovetail_opset._package import is_op
from dovetail_opset.importing.constant import Constant, Value
from dovetail_opset.importing.node_context import NodeContext
from dovetail_opset.perms import composed, is_identity, perm_of


class ImportContext(NodeContext):
    """One node being imported, and the graph that grows.

    An importer returns the node's outputs, in order: tensors (those that it emitted,
    or inputs passed through), or arrays where the value is known.
    """

    @property
    def graph(self) -> Graph:
        """The graph as built so far, for importers that inspect the producers of their inputs."""
        return self._values.graph

    def as_tensor(self, value: Value) -> Tensor:
        """Return a value as a tensor of the graph; the same one for the same constant."""
        return self._values.tensor(value)

    def shared(self, key: Hashable, make: Callable[[], Constant]) -> Constant:
        """Return a constant that nodes of the graph share; create it at the first request."""
        return self._values.shared(key, make)

    # -- emitting --------------------------------------------------------------------------------

    def emit(
        self,
        op_type: str,
        inputs: Sequence[Tensor | None],
        *,
        output: int = 0,
        spec: Spec | None = None,
        package: OpPackage | None = None,
        **params: Any,
    ) -> Tensor:
        """Add the op that writes one of the node's outputs, and return that tensor.

        Args:
            op_type: Name of the op.
            inputs: Tensors of the graph, None for a left-out one.
            output: Index of the output, by default the first.
            spec: The output's type and shape, for ops that do not infer them.
            package: The op's package, by default `qti.aisw`.
            params: Values by name; None leaves one out.
        """
        written = self.node.outputs[output] or self._values.fresh(self.node.name)
        return self._add(
            op_type, inputs, self.node.name, [written], [spec], package=package, **params
        )[0]

    def emit_all(
        self,
        op_type: str,
        inputs: Sequence[Tensor | None],
        *,
        specs: Sequence[Spec | None] = (),
        package: OpPackage | None = None,
        min_outputs: int = 0,
        **params: Any,
    ) -> tuple[Tensor, ...]:
        """Add the op that writes all of the node's outputs, and return these tensors.

        Args:
            op_type: Name of the op.
            inputs: Tensors of the graph, None for a left-out one.
            specs: The outputs' types and shapes, for ops that do not infer them.
            package: The op's package, by default `qti.aisw`.
            min_outputs: The minimum number of outputs; those that the node leaves out get names.
            params: As in `emit`.
        """
        left_out = ("",) * (min_outputs - len(self.node.outputs))
        names = [
            name or self._values.fresh(f"{self.node.name}.{i}")
            for i, name in enumerate((*self.node.outputs, *left_out))
        ]
        return self._add(op_type, inputs, self.node.name, names, specs, package=package, **params)

    def step(
        self,
        suffix: str,
        op_type: str,
        inputs: Sequence[Tensor | None],
        *,
        spec: Spec | None = None,
        source: tuple[str, Shape] | None = None,
        **params: Any,
    ) -> Tensor:
        """Add an op that computes an intermediate value of the node, and return its output.

        Args:
            suffix: Names it, after the node's name.
            op_type: Name of the op.
            inputs: Tensors of the graph, None for a left-out one.
            spec: As in `emit`.
            source: The tensor of the model that the output equals, and the order of its axes.
            params: As in `emit`.
        """
        name = self._values.fresh(f"{self.node.name}.{suffix}")
        (made,) = self._add(op_type, inputs, name, [name], [spec], **params)
        if source is not None:
            made.source, made.source_perm = source
        return made

    def step_all(
        self,
        suffix: str,
        op_type: str,
        inputs: Sequence[Tensor | None],
        names: Sequence[str],
        *,
        specs: Sequence[Spec | None] = (),
        **params: Any,
    ) -> tuple[Tensor, ...]:
        """Add an op of several outputs that computes intermediate values, and return its outputs.

        Args:
            suffix: Names it, after the node's name.
            op_type: Name of the op.
            inputs: Tensors of the graph, None for a left-out one.
            names: Names of its outputs; an empty one requests a fresh name.
            specs: As in `emit_all`.
            params: As in `emit`.
        """
        own = self._values.fresh(f"{self.node.name}.{suffix}")
        filled = [name or self._values.fresh(f"{own}.{i}") for i, name in enumerate(names)]
        return self._add(op_type, inputs, own, filled, specs, **params)

    def _add(
        self,
        op_type: str,
        inputs: Sequence[Tensor | None],
        name: str,
        outputs: Sequence[str],
        specs: Sequence[Spec | None],
        **params: Any,
    ) -> tuple[Tensor, ...]:
        if not self.budget.has_op():
            raise self.unsupported(
                f"the model becomes more than {self.budget.most_ops} ops, which its "
                "size does not explain",
                hint="convert parts of it, cut with --out-name",
            )
        try:
            made = build.add_all(
                self._values.graph,
                op_type,
                inputs,
                name=name,
                outputs=outputs,
                specs=specs,
                sources=self.node.sources,
                **params,
            )
        except OverflowError as error:  # attributes may have 64 bits, QNN's params have 32
            raise self.invalid(f"an attribute does not fit 32 bits: {error}") from error
        for tensor in made:
            if not is_possible(tensor.shape):
                raise self.invalid(f"the output would have the impossible shape {tensor.shape}")
        return made

    def static(self, suffix: str, values: Array, dtype: DType, grid: Spec | None = None) -> Tensor:
        """Add a static tensor of computed values, on a grid if one is given, and return it.

        Raises:
            FrontendError: The type cannot hold a value; or the tensor would take, with all others
                of the model, more than the size of its file explains.
        """
        name, made = f"{self.node.name}.{suffix}", np.asarray(values)
        if not dtype.is_float and (wrong := unstorable(made, dtype)).any():
            raise self.invalid(f"constant {made[wrong].flat[0]} does not fit {dtype.name}")
        if not self.budget.has(dtype.nbytes(made.shape), made.nbytes):
            raise self._excessive(made.shape)
        return self._values.derived(name, made, dtype, grid)

    def arranged(self, i: int, perm: Shape) -> Tensor:
        """Return an input with its axes permuted; computed at import if its value is known."""
        value = self.value(i)
        if isinstance(value, Constant):
            return self._values.transposed(value, perm)
        name = self.node.inputs[i]
        if (updateable := self._values.rearranged(value, perm)) is not None:
            return updateable
        if (before := _turned_back(self.graph, value, perm)) is not None:
            return before
        return self.step(f"input{i}", "Transpose", [value], perm=perm, source=(name, perm))


def _turned_back(graph: Graph, tensor: Tensor, perm: Shape) -> Tensor | None:
    """Return what was transposed to a tensor if `perm` undoes that, as between spatial ops."""
    maker = graph.producer(tensor)
    if maker is None or not is_op(maker, "Transpose"):
        return None
    (source,) = maker.inputs
    if source is None or source.kind.is_updateable:
        return None
    return source if is_identity(composed(perm_of(maker), perm)) else None
