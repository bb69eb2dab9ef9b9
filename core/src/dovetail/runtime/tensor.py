"""Tensor handles, and the data that applications give for tensors."""

from __future__ import annotations

import numpy as np

from dovetail import ir
from dovetail.errors import GraphError
from dovetail.ir import Array, Blob
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


def owned_blob(data: Blob | Array, dtype: ir.DType) -> Blob:
    """Return data as a blob that no array of the application can change.

    Args:
        data: Stored bytes as a blob, or logical values as an array, which is copied unless its
            memory is read-only.
        dtype: Type of the tensor.

    Raises:
        GraphError: The type cannot hold a value, or the array has no numbers.
    """
    if isinstance(data, Blob):
        return data
    try:
        blob = ir.pack(data, dtype)
    except (TypeError, ValueError) as error:
        raise GraphError(
            f"data of type {data.dtype} are no {dtype.name}: {error}",
            code="TENSOR_ERROR_INVALID_TENSOR_PARAM",
            hint="pass an array of numbers, or a Blob with stored bytes",
        ) from error
    if np.may_share_memory(blob.bytes, data) and not _is_read_only(data):
        return Blob(blob.bytes.copy())
    return blob


def _is_read_only(array: Array) -> bool:
    """Return whether an array's memory cannot be written: bytes, or a read-only mapping."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        owner = owner.base
    try:
        return owner is not None and memoryview(owner).readonly  # type: ignore[arg-type]
    except TypeError:
        return False
