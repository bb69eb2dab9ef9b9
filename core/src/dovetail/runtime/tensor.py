"""Tensor handles."""

from __future__ import annotations

from dovetail import ir
from dovetail.runtime.handle import Handle


class Tensor(Handle):
    """A tensor of a graph. Created by `Graph.create_tensor`.

    Attributes:
        ir: The tensor in the graph's IR.
    """

    kind = "tensor"
    invalid_code = "TENSOR_ERROR_INVALID_HANDLE"

    def __init__(self, tensor: ir.Tensor) -> None:
        super().__init__()
        self.ir = tensor

    @property
    def name(self) -> str:
        """Its name."""
        return self.ir.name

    def describe(self) -> str:
        """Return the tensor's name for errors."""
        return f"tensor '{self.name}'"
