"""Registered memory: checked once and used many times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from dovetail.ir import DType, Shape
from dovetail.runtime.contract import Binding, MemoryDescriptor
from dovetail.runtime.handle import Handle, api_call
from dovetail.runtime.host_memory import host_array
from dovetail.runtime.plugin_errors import translate_errors

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


def register(
    context: Context,
    array: object | None,
    dtype: DType,
    shape: Shape | None,
    custom: Mapping[str, Any] | None,
) -> Memory:
    """Return a handle of memory that the backend accepts; see `Context.register_memory`."""
    backend = context.backend
    backend.require("memory_handles", "MEM_ERROR_NOT_SUPPORTED")
    values = None
    if array is None:
        backend.require("custom_memory", "MEM_ERROR_UNSUPPORTED_MEMTYPE")
    else:
        values = host_array(array, dtype, shape)
        shape = values.shape
    descriptor = MemoryDescriptor(dtype, tuple(shape or ()), values, custom)
    memory = Memory(context, descriptor)
    with translate_errors(backend.name, "`register_memory` failed", "MEM_ERROR_INVALID_ARGUMENT"):
        memory.binding = context.plugin.register_memory(descriptor)
    context.tokens.add(memory.binding)
    return memory
