"""Registered memory: the application's arrays, checked once and used many times."""

from __future__ import annotations

import numpy as np

from dovetail.errors import BackendError
from dovetail.ir import Array, DType
from dovetail.runtime.handle import Handle, api_call


class Memory(Handle):
    """An array for use as input or output. Created by `Context.register_memory`.

    Attributes:
        array: The application's array: C-contiguous, stored values of `dtype`.
        dtype: Type of its elements.
    """

    kind = "memory handle"
    invalid_code = "MEM_ERROR_INVALID_HANDLE"

    def __init__(self, array: Array, dtype: DType) -> None:
        super().__init__()
        if not isinstance(array, np.ndarray) or not array.flags.c_contiguous:
            raise BackendError(
                "only C-contiguous NumPy arrays can be registered",
                code="MEM_ERROR_INVALID_ARGUMENT",
            )
        if array.dtype != dtype.storage:
            raise BackendError(
                f"an array of {array.dtype} cannot contain {dtype.name}, "
                f"which is stored as {dtype.storage}",
                code="MEM_ERROR_INVALID_ARGUMENT",
            )
        self.array = array
        self.dtype = dtype

    @api_call("memory_deregister")
    def deregister(self) -> None:
        """Invalidate the handle; the array remains the application's.

        Executions that already use the array continue.
        """
        self.invalidate()
