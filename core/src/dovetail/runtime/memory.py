"""Registered memory: checked once and used many times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dovetail.errors import BackendError
from dovetail.runtime.contract import Binding, MemoryDescriptor
from dovetail.runtime.handle import Handle, api_call

if TYPE_CHECKING:  # memory belongs to a context, which imports it
    from dovetail.runtime.context import Context


class Memory(Handle):
    """Memory for use as input or output. Created by `Context.register_memory`.

    Attributes:
        context: The context that it belongs to.
        descriptor: What the application registered.
        binding: What the backend uses: the array, or a token of its own.
    """

    kind = "memory handle"
    invalid_code = "MEM_ERROR_INVALID_HANDLE"

    def __init__(self, context: Context, descriptor: MemoryDescriptor) -> None:
        super().__init__()
        array, dtype = descriptor.array, descriptor.dtype
        if array is not None and not (isinstance(array, np.ndarray) and array.flags.c_contiguous):
            raise BackendError(
                "only C-contiguous NumPy arrays can be registered",
                code="MEM_ERROR_INVALID_ARGUMENT",
            )
        if array is not None and array.dtype != dtype.storage:
            raise BackendError(
                f"an array of {array.dtype} cannot contain {dtype.name}, "
                f"which is stored as {dtype.storage}",
                code="MEM_ERROR_INVALID_ARGUMENT",
            )
        if array is not None and array.shape != descriptor.shape:
            raise BackendError(
                f"an array of shape {array.shape} is not of shape {descriptor.shape}",
                code="MEM_ERROR_INVALID_ARGUMENT",
            )
        self.context = context
        self.descriptor = descriptor
        self.binding: Binding | None = array

    @api_call("memory_deregister")
    def deregister(self) -> None:
        """Invalidate the handle; an array remains the application's.

        Executions that already use the memory continue.
        """
        self.invalidate()

    def invalidate(self) -> None:
        """Invalidate the handle and release the backend's token; called by the context, too.

        A token that executions use is released at their end.
        """
        binding, self.binding = self.binding, None
        super().invalidate()
        if binding is not None:
            self.context.tokens.release(binding)
