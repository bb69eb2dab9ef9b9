"""Registered memory of the application: shared memory, buffers and DLPack, without copies."""

from __future__ import annotations

import array
import ctypes
import mmap
import threading
from collections.abc import Callable, Iterator
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np
import pytest
import reference_backend
from reference_backend import OPS, ReferenceBackend, finalized
from spaced_backend import SpacedBackend

from dovetail import runtime
from dovetail.errors import BackendError
from dovetail.ir import DType

F32 = DType.FLOAT_32
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def segments() -> Iterator[Callable[[int], SharedMemory]]:
    made: list[SharedMemory] = []

    def create(nbytes: int) -> SharedMemory:
        made.append(SharedMemory(create=True, size=nbytes))
        return made[-1]

    yield create
    for each in made:
        each.close()  # BufferError if anything still refers to the memory
        each.unlink()


class Exporter:
    """An object that is nothing but a DLPack producer."""

    def __init__(self, values: np.ndarray[Any, Any], *, on_device: bool = False) -> None:
        self._values, self._on_device = values, on_device

    def __dlpack__(self, **settings: Any) -> Any:
        if self._on_device:
            raise BufferError("the values are on a device")
        return self._values.__dlpack__(**settings)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2 if self._on_device else 1), 0


def test_a_graph_reads_and_writes_shared_memory(
    backend: runtime.Backend, segments: Callable[[int], SharedMemory]
) -> None:
    graph = finalized(backend, "Scale")
    source, target = segments(24), segments(4096)
    x = graph.context.register_memory(source, F32, (2, 3))
    y = graph.context.register_memory(target, F32, (2, 3))
    other = SharedMemory(source.name)  # as another process opens it
    try:
        for shift in range(2):
            other.buf[:24] = (X + shift).tobytes()
            graph.execute({"x": x}, {"y": y})
            assert bytes(target.buf[:24]) == ((X + shift) * 2).tobytes()
    finally:
        other.close()
    with pytest.raises(BufferError):
        source.close()
    x.deregister()
    source.close()
    y.deregister()
    target.close()
    assert x.descriptor.array is None


@pytest.mark.parametrize("kind", [ReferenceBackend, SpacedBackend])
def test_memory_can_be_closed_as_soon_as_a_queued_run_has_ended(
    kind: Any, segments: Callable[[int], SharedMemory]
) -> None:
    with runtime.Backend.create(kind, ops=OPS) as backend:
        graph = finalized(backend, "Scale")
        for _ in range(10):
            memory = [segments(24) for _ in range(2)]
            x, y = (graph.context.register_memory(each, F32, (2, 3)) for each in memory)
            memory[0].buf[:24] = X.tobytes()
            assert graph.execute_async({"x": x}, {"y": y}).wait(20)
            assert bytes(memory[1].buf[:24]) == (X * 2).tobytes()
            for handle, each in zip((x, y), memory, strict=True):
                handle.deregister()
                each.close()


def test_memory_that_a_run_uses_is_released_at_its_end(
    backend: runtime.Backend, segments: Callable[[int], SharedMemory]
) -> None:
    graph = finalized(backend, "Wait", "Scale")
    source = segments(24)
    source.buf[:24] = X.tobytes()
    x = graph.context.register_memory(source, F32, (2, 3))
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(graph.execute({"x": x})["y"]))
    thread.start()
    assert reference_backend.ENTERED.wait(20)
    x.deregister()
    with pytest.raises(BufferError):
        source.close()
    reference_backend.GATE.set()
    thread.join(20)
    source.close()
    np.testing.assert_array_equal(found[0], X * 2)
    np.testing.assert_array_equal(graph.execute({"x": X + 1})["y"], (X + 1) * 2)


def test_freeing_a_context_releases_memory(segments: Callable[[int], SharedMemory]) -> None:
    source = segments(24)
    with runtime.Backend.create(ReferenceBackend, ops=OPS) as backend:
        graph = finalized(backend, "Scale")
        graph.execute({"x": graph.context.register_memory(source, F32, (2, 3))})
    source.close()


def test_buffers_and_dlpack_are_registered_without_copies(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Scale")
    wide = np.zeros(24, np.uint8)
    floats = (ctypes.c_float * 3 * 2)()
    for memory in (X.copy(), Exporter(X.copy()), floats, wide, bytearray(40), mmap.mmap(-1, 24)):
        handle = graph.context.register_memory(memory, F32, (2, 3))
        view = handle.descriptor.array
        assert view is not None
        view[...] = X + 5
        np.testing.assert_array_equal(graph.execute({"x": handle})["y"], (X + 5) * 2)
        if not isinstance(memory, Exporter):
            assert np.shares_memory(view, np.asarray(memoryview(memory)))
        handle.deregister()
    context = graph.context
    assert context.register_memory(floats, F32).descriptor.shape == (2, 3)
    assert context.register_memory(bytearray(4), DType.UINT_8).descriptor.shape == (4,)
    x = X.copy()
    handle = graph.context.register_memory(Exporter(x), F32)
    x += 1
    np.testing.assert_array_equal(graph.execute({"x": handle})["y"], x * 2)


def test_read_only_memory_is_an_input_only(backend: runtime.Backend) -> None:
    graph = finalized(backend, "Scale")
    handle = graph.context.register_memory(X.tobytes(), F32, (2, 3))
    np.testing.assert_array_equal(graph.execute({"x": handle})["y"], X * 2)
    with pytest.raises(BackendError, match="must be writable"):
        graph.execute({"x": X}, {"y": handle})


def closed() -> SharedMemory:
    memory = SharedMemory(create=True, size=24)
    memory.close()
    memory.unlink()
    return memory


@pytest.mark.parametrize(
    ("memory", "shape", "text"),
    [
        (lambda: [1.0], (1,), r"the list exports no memory\nhint: pass a NumPy array"),
        (closed, (2, 3), "the SharedMemory is closed"),
        (lambda: Exporter(X, on_device=True), (2, 3), "without a copy: the values are on a device"),
        (lambda: bytearray(23), (2, 3), r"23 bytes are too few for FLOAT_32 \(2, 3\), .* 24"),
        (lambda: bytearray(24), None, "a shape is required"),
        (lambda: bytearray(24), (2**40, 2**40), "24 bytes are too few"),
        (lambda: bytearray(24), (-2, -3), "must not be negative"),
        (lambda: array.array("d", range(6)), (6,), "memory of float64 cannot contain FLOAT_32"),
        (lambda: X.T, (3, 2), "only C-contiguous"),
        (lambda: X, (3, 2), r"shape \(2, 3\) is not of shape \(3, 2\)"),
        (lambda: memoryview(bytearray(25))[1:], (2, 3), "not aligned"),
    ],
)
def test_unsuitable_memory_is_refused(
    backend: runtime.Backend, memory: Callable[[], object], shape: Any, text: str
) -> None:
    context = backend.create_context()
    with pytest.raises(BackendError, match=text) as caught:
        context.register_memory(memory(), F32, shape)
    assert caught.value.number == 8000
