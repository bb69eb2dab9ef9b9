"""Buffers of inputs and outputs: what is allocated and copied for raw and registered memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import reference_backend
from msgspec.structs import replace
from reference_backend import OPS, BareBackend, ReferenceBackend, chain, out

from dovetail import runtime
from dovetail.container import Model, Producer
from dovetail.errors import BackendError, UnsupportedOpError
from dovetail.ir import Array, DType, Graph, MemoryType, Tensor, TensorKind
from dovetail.runtime.contract import Capabilities
from dovetail.runtime.interface import Interface
from dovetail.runtime.io_buffers import IoBuffers, Results

X = np.arange(6, dtype=np.float32).reshape(2, 3)
RAW, MEMHANDLE = MemoryType.RAW, MemoryType.MEMHANDLE
IO = 2 * X.nbytes  # of the input and the output
Execute = Callable[[str, runtime.Profile | None], None]


class EmulatingBackend(ReferenceBackend):
    """A backend that emulates a processor without access to raw memory."""

    name = "emulating"

    def capabilities(self) -> Capabilities:
        return replace(super().capabilities(), emulates_io_buffers=True)


@pytest.fixture(params=[ReferenceBackend, EmulatingBackend])
def backend(request: Any) -> Iterator[runtime.Backend]:
    with runtime.Backend.create(request.param, ops=OPS) as made:
        yield made


def prepared(
    backend: runtime.Backend, memory_type: MemoryType, *ops: str
) -> tuple[runtime.Graph, int]:
    """Return a finalized chain, and the bytes of the buffers that `finalize` has allocated."""
    graph = chain(*(ops or ("Scale", "Scale")))
    runtime.set_io_memory_type(graph, memory_type)
    model = Model.of(graph, producer=Producer("test", "1"), registry=OPS)
    (handle,) = backend.create_context().compose(model)
    profile = backend.create_profile()
    handle.finalize(profile)
    return handle, counters(profile)["io_buffer_bytes"]


def counters(profile: runtime.Profile) -> dict[str, int]:
    """Return the counters of the last call, by name."""
    return {counter.name: int(counter.value) for counter in profile.events[-1].counters}


def executing(graph: runtime.Graph) -> Execute:
    """Return a function that executes on raw memory or registered one, and checks the result."""
    buffers = runtime.SharedBuffers(graph)

    def execute(how: str, profile: runtime.Profile | None) -> None:
        buffers.arrays["x"][...] = X
        given = {"x": X if "raw" in how else buffers.inputs["x"]}
        taken: Mapping[str, Any] = out() if "raw" in how else buffers.outputs
        if "async" in how:
            assert graph.execute_async(given, taken, profile).wait(20)
        else:
            graph.execute(given, taken, profile)
        result = taken["y"] if "raw" in how else buffers.arrays["y"]
        np.testing.assert_array_equal(result, X * 4)

    return execute


def profiled(execute: Execute, how: str, backend: runtime.Backend) -> tuple[int, int, int]:
    """Return the copies, the copied bytes, and the allocated bytes of an execution."""
    profile = backend.create_profile()
    execute(how, profile)
    found = counters(profile)
    return found["io_copies"], found["io_copied_bytes"], found["io_buffer_bytes"]


@pytest.mark.parametrize("mode", ["", " async"])
@pytest.mark.parametrize(
    ("preparation", "execution", "at_finalize", "first", "later"),
    [
        (RAW, "raw", IO, (2, IO, 0), (2, IO, 0)),
        (RAW, "memhandle", IO, (0, 0, 0), (0, 0, 0)),
        (MEMHANDLE, "raw", 0, (2, IO, IO), (2, IO, 0)),
        (MEMHANDLE, "memhandle", 0, (0, 0, 0), (0, 0, 0)),
    ],
)
def test_memory_types_at_preparation_and_execution(
    preparation: MemoryType,
    execution: str,
    at_finalize: int,
    first: tuple[int, int, int],
    later: tuple[int, int, int],
    mode: str,
) -> None:
    """Check the four rows of the SDK's table for graphs with a hint on their memory."""
    with runtime.Backend.create(EmulatingBackend, ops=OPS) as backend:
        graph, allocated = prepared(backend, preparation)
        assert allocated == at_finalize
        execute = executing(graph)
        found = [profiled(execute, execution + mode, backend) for _ in range(3)]
        assert found == [first, later, later]


def test_a_run_without_a_profile_allocates_too() -> None:
    with runtime.Backend.create(EmulatingBackend, ops=OPS) as backend:
        for mode in ("", " async"):
            graph, _ = prepared(backend, MEMHANDLE)
            execute = executing(graph)
            execute("memhandle" + mode, None)
            execute("raw" + mode, None)
            assert profiled(execute, "raw" + mode, backend) == (2, IO, 0)


@pytest.mark.parametrize("memory_type", [RAW, MEMHANDLE])
@pytest.mark.parametrize("execution", ["raw", "memhandle", "raw async"])
def test_arrays_that_are_used_directly_are_not_copied(
    memory_type: MemoryType, execution: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with runtime.Backend.create(ReferenceBackend, ops=OPS) as backend:
        graph, _ = prepared(backend, memory_type)
        x, y = X.copy(), np.empty_like(X)
        given: dict[str, Any] = {"x": x}
        taken: dict[str, Any] = {"y": y}
        if execution == "memhandle":
            given = {"x": graph.context.register_memory(x, DType.FLOAT_32)}
            taken = {"y": graph.context.register_memory(y, DType.FLOAT_32)}
        bound: dict[str, Array] = {}
        inner = graph._prepared
        assert inner is not None
        run = inner.run

        def spy(inputs: Any, outputs: Any, control: Any) -> None:
            bound.update(inputs, **outputs)
            run(inputs, outputs, control)

        monkeypatch.setattr(inner, "run", spy)
        profile = backend.create_profile()
        if "async" in execution:
            assert graph.execute_async(given, taken, profile).wait(20)
        else:
            graph.execute(given, taken, profile)
        assert bound["x"] is x
        assert bound["y"] is y
        np.testing.assert_array_equal(y, X * 4)
        assert set(counters(profile).values()) == {0}


def test_outputs_of_the_runtime_are_allocated_when_they_are_needed() -> None:
    with runtime.Backend.create(ReferenceBackend, ops=OPS) as backend:
        for memory_type, at_finalize, first in ((RAW, X.nbytes, 0), (MEMHANDLE, 0, X.nbytes)):
            graph, allocated = prepared(backend, memory_type)
            assert allocated == at_finalize
            for in_run in (first, 0):
                profile = backend.create_profile()
                np.testing.assert_array_equal(graph.execute({"x": X}, None, profile)["y"], X * 4)
                found = counters(profile)
                assert found["io_buffer_bytes"] == in_run
                assert (found["io_copies"], found["io_copied_bytes"]) == (1, X.nbytes)


def test_inputs_that_are_not_contiguous_are_copied() -> None:
    with runtime.Backend.create(ReferenceBackend, ops=OPS) as backend:
        graph, _ = prepared(backend, RAW)
        profile = backend.create_profile()
        graph.execute({"x": np.asfortranarray(X)}, out(), profile)
        assert counters(profile)["io_copied_bytes"] == X.nbytes


def test_results_keep_their_order_when_they_are_allocated_later() -> None:
    graph = Graph("g")
    for name, memory_type in (("a", MEMHANDLE), ("b", RAW), ("c", MEMHANDLE)):
        how = {"memory_type": memory_type}
        graph.add_tensor(Tensor(name, DType.FLOAT_32, (2,), TensorKind.APP_READ, **how))  # type: ignore[arg-type]
    results = Results(Interface.of(graph.name, graph.inputs, graph.outputs))
    assert (results.nbytes, results.missing_bytes) == (8, 16)
    arrays = results.arrays()
    assert list(arrays) == list(results.taken(arrays)) == ["a", "b", "c"]
    assert results.arrays() is arrays
    assert (results.nbytes, results.missing_bytes) == (24, 0)


def test_a_device_copies_whatever_is_passed() -> None:
    graph = chain("Scale")
    io = IoBuffers(Interface.of("g", graph.inputs, graph.outputs))
    copied = {"x": 24, "y": 24}
    assert io.nbytes(copied) == 48 + 24  # the output that the runtime returns, too
    values = [int(counter.value) for counter in io.use(copied, {"x": X}, out())]
    assert values == [2, 48, 0]


def test_shared_buffers_are_memory_of_a_graph(backend: runtime.Backend) -> None:
    graph, _ = prepared(backend, MEMHANDLE)
    with runtime.SharedBuffers(graph) as buffers:
        assert {n: a.shape for n, a in buffers.arrays.items()} == {"x": (2, 3), "y": (2, 3)}
        buffers.arrays["x"][...] = X
        graph.execute(buffers.inputs, buffers.outputs)
        np.testing.assert_array_equal(buffers.arrays["y"], X * 4)
        handles = (*buffers.inputs.values(), *buffers.outputs.values())
    assert all(handle.is_freed for handle in handles)
    assert not buffers.arrays
    buffers.close()
    with runtime.SharedBuffers(graph) as buffers:
        graph.context.free()  # its memory ends before the buffers are closed


def test_memory_types_need_memory_handles() -> None:
    with runtime.Backend.create(BareBackend, ops=OPS) as backend:
        with pytest.raises(UnsupportedOpError, match="memory_type is MEMHANDLE; allowed: RAW"):
            prepared(backend, MEMHANDLE)
        graph, _ = prepared(backend, RAW)
        with pytest.raises(BackendError, match="'memory_handles'"):
            runtime.SharedBuffers(graph)


def test_values_between_graphs_are_not_copied(backend: runtime.Backend) -> None:
    context = backend.create_context()
    shared = context.create_tensor("s", DType.FLOAT_32, (2, 3))
    first, second = (context.create_graph(name) for name in ("first", "second"))
    x = first.create_tensor("x", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE)
    first.add_node("a", reference_backend.PACKAGE.name, "Scale", [x], [shared])
    y = second.create_tensor("y", DType.FLOAT_32, (2, 3), TensorKind.APP_READ)
    second.add_node("b", reference_backend.PACKAGE.name, "Scale", [shared], [y])
    profile, taken = backend.create_profile(), out()
    for graph in (first, second):
        graph.finalize(profile)
    for _ in range(2):
        first.execute({"x": x_memory(context)}, {}, profile)
        assert counters(profile)["io_copies"] == 0
        second.execute({}, {"y": context.register_memory(taken["y"], DType.FLOAT_32)}, profile)
        assert counters(profile)["io_copies"] == 0
        np.testing.assert_array_equal(taken["y"], X * 4)


def x_memory(context: runtime.Context) -> runtime.Memory:
    return context.register_memory(X.copy(), DType.FLOAT_32)
