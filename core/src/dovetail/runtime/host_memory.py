"""Memory of the application as arrays, without copies: buffers, shared memory and DLPack."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dovetail.errors import BackendError
from dovetail.ir import Array, DType, Shape


def host_array(memory: object, dtype: DType, shape: Shape | None) -> Array:
    """Return an array over memory of the application; nothing is copied.

    The array keeps the memory exported: `SharedMemory.close` and the like fail while it exists.

    Args:
        memory: A NumPy array, a `multiprocessing.shared_memory.SharedMemory`, an object with
            `__dlpack__` whose memory is the host's, or one that exports a buffer, such as `mmap`.
        dtype: Type of the elements.
        shape: The shape; by default the memory's own. Memory that is a row of bytes has none; the
            elements begin at its first byte, and it may be longer.

    Raises:
        BackendError: The memory is not the host's, is closed, not C-contiguous or not aligned, or
            has another type, shape or size.
    """
    array = exported_array(memory)
    if not array.flags.c_contiguous:
        raise _unsuitable("only C-contiguous memory can be registered")
    if shape is not None and any(size < 0 for size in shape):
        raise _unsuitable(f"sizes must not be negative, got {shape}")
    if _is_bytes(array) and (array.dtype != dtype.storage or shape not in (None, array.shape)):
        array = _typed(array, dtype, shape)
    if array.dtype != dtype.storage:
        raise _unsuitable(
            f"memory of {array.dtype} cannot contain {dtype.name}, which is stored as "
            f"{dtype.storage}"
        )
    if shape is not None and array.shape != tuple(shape):
        raise _unsuitable(f"memory of shape {array.shape} is not of shape {tuple(shape)}")
    if not array.flags.aligned:
        raise _unsuitable(f"the address of the memory is not aligned for {dtype.storage}")
    return array


def exported_array(memory: object) -> Array:
    """Return an array over memory of the application, of the memory's own type and shape.

    Raises:
        BackendError: The object has no memory that the host can access.
    """
    if isinstance(memory, np.ndarray):
        return np.asarray(memory)
    if hasattr(memory, "__dlpack__"):
        try:
            return np.from_dlpack(memory)
        except Exception as error:  # whatever a foreign library raises
            raise _unsuitable(
                f"the {type(memory).__name__} cannot be used without a copy: {error}",
                hint="move it to the host; a type that NumPy lacks is registered as raw integers",
            ) from error
    buffer: Any = getattr(memory, "buf", memory)  # SharedMemory has it in an attribute
    try:
        return np.asarray(memoryview(buffer))
    except TypeError as error:
        closed = " is closed, or" if hasattr(memory, "buf") else ""
        raise _unsuitable(
            f"the {type(memory).__name__}{closed} exports no memory",
            hint="pass a NumPy array, a SharedMemory, an object with __dlpack__, or a buffer",
        ) from error
    except (ValueError, BufferError) as error:
        raise _unsuitable(f"the {type(memory).__name__} cannot be used: {error}") from error


def _is_bytes(array: Array) -> bool:
    return array.ndim == 1 and array.dtype.itemsize == 1 and array.dtype.kind in "uiS"


def _typed(data: Array, dtype: DType, shape: Shape | None) -> Array:
    """Return elements over the first bytes of a row of bytes."""
    if shape is None:
        raise _unsuitable("a shape is required for memory that is a row of bytes")
    nbytes = math.prod(shape) * dtype.storage.itemsize
    if nbytes > data.nbytes:
        raise _unsuitable(
            f"{data.nbytes} bytes are too few for {dtype.name} {tuple(shape)}, which takes {nbytes}"
        )
    return data[:nbytes].view(dtype.storage).reshape(shape)


def _unsuitable(text: str, hint: str = "") -> BackendError:
    return BackendError(text, code="MEM_ERROR_INVALID_ARGUMENT", hint=hint)
