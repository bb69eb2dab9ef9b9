"""The node being imported: inputs, attributes, outputs, and limits."""

from __future__ import annotations

import math
from collections.abc import Set

import numpy as np

from dovetail.errors import FrontendError, UnsupportedOpError
from dovetail.ir import Array, Shape, Spec, Tensor
from dovetail_opset.importing.budget import Budget
from dovetail_opset.importing.constant import MAX_BYTES, Constant, Value
from dovetail_opset.importing.problems import ValueNeededError
from dovetail_opset.importing.source import SourceNode
from dovetail_opset.importing.values import Values


class NodeContext:
    """One node being imported; `ImportContext` adds the methods that emit ops.

    Args:
        node: The node of the model.
        values: Values of the model's tensors read so far.
        wanted: Names of the tensors that something uses.
        read: Names of those that nodes read.

    Attributes:
        node: As given.
    """

    def __init__(
        self,
        node: SourceNode,
        values: Values,
        wanted: Set[str],
        read: Set[str],
    ) -> None:
        self.node = node
        self._values = values
        self._wanted = wanted
        self._read = read

    # -- inputs ----------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """The number of inputs that the node lists, omitted ones in the middle included."""
        return len(self.node.inputs)

    def has(self, i: int) -> bool:
        """Return whether an input is given."""
        return i < len(self.node.inputs) and self.node.inputs[i] != ""

    def value(self, i: int) -> Value:
        """Return an input in the form that is known: a tensor or a constant.

        Raises:
            FrontendError: The input is left out.
        """
        name = self.node.inputs[i] if i < len(self.node.inputs) else ""
        found = self._values.get(name) if name else None
        if found is None:
            raise self.invalid(f"missing required input {i}")
        return found

    def tensor(self, i: int) -> Tensor:
        """Return an input as a tensor of the graph."""
        return self._values.tensor(self.value(i))

    def optional(self, i: int) -> Tensor | None:
        """Return an input as a tensor of the graph, None if it is omitted."""
        return self.tensor(i) if self.has(i) else None

    def spec(self, i: int) -> Spec:
        """Return type and shape of an input."""
        value = self.value(i)
        return Spec(value.dtype, tuple(value.shape))

    def packed(self, i: int) -> int | None:
        """Return the element type of an input if it has 4 bits, stored in bytes; else None."""
        return self._values.packed(self.value(i)) if self.has(i) else None

    def constant(self, i: int) -> Array | None:
        """Return the values of an input, None if it is omitted or not known at import."""
        value = self.value(i) if self.has(i) else None
        return value.values if isinstance(value, Constant) else None

    def is_static(self, i: int) -> bool:
        """Return whether an input's values are part of the model, updateable ones included."""
        value = self.value(i) if self.has(i) else None
        return isinstance(value, Constant) or (value is not None and value.kind.is_static)

    def need_constant(self, i: int, what: str) -> Array:
        """Return the values of an input that must be known at import.

        Args:
            i: The input.
            what: Its role for the operator, for the error.

        Raises:
            UnsupportedOpError: The values are not known.
        """
        value = self.value(i)
        if self.is_static(i) and not isinstance(value, Constant):
            raise self.unsupported(
                f"{what} '{self.node.inputs[i]}' must be constant, but is updateable",
                hint="remove the name from the list of updateable tensors",
            )
        if not isinstance(value, Constant):
            raise ValueNeededError(
                f"{what} '{self.node.inputs[i]}' is computed from the model's inputs; it must "
                "be known when the model is converted",
                self.node.inputs[i],
                where=self.node.where,
                hint="export the model with static shapes, or simplify it with fixed input shapes",
            )
        return value.values

    def need_ints(self, i: int, what: str) -> tuple[int, ...]:
        """Return the values of an integer input that must be known at import, flattened.

        Raises:
            UnsupportedOpError: They are not.
        """
        found = self.need_constant(i, what)
        if not np.isfinite(found).all():  # OneHot's depth may be a float
            raise self.invalid(f"{what} must be finite")
        return tuple(int(v) for v in found.reshape(-1))

    def need_number(self, i: int, what: str) -> Array:
        """Return the value, an array of rank 0, of an input that must be known at import.

        Raises:
            FrontendError: It is not one number.
            UnsupportedOpError: It is not known.
        """
        found = self.need_constant(i, what)
        if found.size != 1:
            raise self.invalid(f"{what} must be a single number, got {found.size} elements")
        return found.reshape(())

    def grid(self, i: int) -> Spec | None:
        """Return the grid of an input that the model stores as integers; None if there is none."""
        value = self.value(i) if self.has(i) else None
        return value.grid if isinstance(value, Constant) else None

    # -- bounds ----------------------------------------------------------------------------------

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from the front.

        Raises:
            FrontendError: There is no such axis.
        """
        if not -rank <= axis < rank:
            raise self.invalid(f"axis {axis} is out of range for rank {rank}")
        return axis % rank

    def check_size(self, shape: Shape) -> None:
        """Raise if a shape is too large for any real model.

        Raises:
            FrontendError: It would take more than 512 MiB.
        """
        if math.prod(shape) * 4 > MAX_BYTES:
            raise self.invalid(f"the output shape {shape} is too large")

    def reserve_constant(self, shape: Shape) -> None:
        """Count a constant that is about to be created, with 4 bytes per element.

        Raises:
            FrontendError: It would take more than 512 MiB, or with all others of the model more
                than the size of its file explains.
        """
        self.check_size(shape)
        if not self.budget.has(math.prod(shape) * 4, 0):
            raise self._excessive(shape)

    def _excessive(self, shape: Shape) -> FrontendError:
        return self.invalid(
            f"the node becomes a constant of shape {shape}, which is too large together "
            "with those of "
            "other nodes"
        )

    @property
    def budget(self) -> Budget:
        """The computation allowed at import, and how much of it is left."""
        return self._values.budget

    # -- outputs ---------------------------------------------------------------------------------

    def is_output_used(self, i: int) -> bool:
        """Return whether anything uses an output."""
        return i < len(self.node.outputs) and self.node.outputs[i] in self._wanted

    def feeds_nodes(self, i: int) -> bool:
        """Return whether another node of the model reads an output."""
        return i < len(self.node.outputs) and self.node.outputs[i] in self._read

    # -- errors ----------------------------------------------------------------------------------

    def unsupported(self, why: str, hint: str = "") -> UnsupportedOpError:
        """Return the error for a node that cannot be converted, to be raised."""
        return UnsupportedOpError(why, where=self.node.where, hint=hint)

    def invalid(self, why: str, hint: str = "") -> FrontendError:
        """Return the error for an invalid node, to be raised."""
        return FrontendError(why, where=self.node.where, hint=hint)
