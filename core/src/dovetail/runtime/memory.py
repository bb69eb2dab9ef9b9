"""Registered memory: checked once and used many times."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dovetail.runtime.contract import Binding, MemoryDescriptor
from dovetail.runtime.handle import Handle, api_call

if TYPE_CHECKING:  # memory belongs to a context, which imports it
    from dovetail.runtime.context import Context


class Memory(Handle):
    """Memory for use as input or output. Created by `Context.register_memory`.

    Attributes:
        context: The context that it belongs to.
        descriptor: What the application registered; without the array after the handle's end.
        binding: What the backend uses: the array, or a token of its own.
    """

    kind = "memory handle"
    invalid_code = "MEM_ERROR_INVALID_HANDLE"

    def __init__(self, context: Context, descriptor: MemoryDescriptor) -> None:
        super().__init__()
        self.context = context
        self.descriptor = descriptor
        self.binding: Binding | None = descriptor.array

    @api_call("memory_deregister")
    def deregister(self) -> None:
        """Invalidate the handle; the memory remains the application's.

        Executions that already use the memory continue. Then nothing here refers to it any more, so
        that a `SharedMemory` can be closed.
        """
        self.invalidate()

    def invalidate(self) -> None:
        """Invalidate the handle and release the backend's token; called by the context, too.

        A token that executions use is released at their end.
        """
        binding, self.binding = self.binding, None
        self.descriptor = replace(self.descriptor, array=None)
        super().invalidate()
        self.context.unbind()
        if binding is not None:
            self.context.tokens.release(binding)
