"""Spaces and overlap: registered memory, and executions that are in progress together."""

from __future__ import annotations

import mmap

import numpy as np

from dovetail.errors import BackendError
from dovetail.ir import Array, MemoryType
from dovetail.runtime import Memory, SharedBuffers, set_io_memory_type
from dovetail.runtime.contract import RunControl
from dovetail.testing.bench import Bench, compose
from dovetail.testing.checks._plugin import SubmittedRun, prepared_on, run_sample
from dovetail.testing.outcome import Failure, Unsupported, demand, expect_error


def registered_memory_mixes_with_arrays(bench: Bench) -> None:
    """Check that memory and arrays can be mixed, and memory that is written later is read again."""
    with bench.create() as backend:
        graph = bench.finalized(backend.create_context())
        context, dtypes = graph.context, {t.name: t.dtype for t in graph.ir.tensors.values()}
        if not backend.capabilities.memory_handles:
            raise Unsupported("the backend has no memory handles")
        given = {name: np.array(array) for name, array in bench.feeds().items()}
        handles = {n: context.register_memory(a, dtypes[n]) for n, a in given.items()}
        taken = bench.outputs()
        results = {n: context.register_memory(a, dtypes[n]) for n, a in taken.items()}
        for shift in (0, 1):
            for name, array in bench.feeds(shift).items():
                given[name][...] = array
            wanted = graph.execute(bench.feeds(shift))
            found = graph.execute(handles)
            bench.demand_same(found, wanted, "memory and new outputs: something else")
            graph.execute(bench.feeds(shift), results)
            bench.demand_same(taken, wanted, "arrays and registered outputs: something else")


def registered_memory_belongs_to_its_context(bench: Bench) -> None:
    """Check that memory of another context or another form raises, and the graph still runs."""
    with bench.create() as backend:
        if not backend.capabilities.memory_handles:
            raise Unsupported("the backend has no memory handles")
        graph, other = (bench.finalized(backend.create_context()) for _ in range(2))
        name, array = next(iter(bench.feeds().items()))
        dtype = graph.ir.tensors[name].dtype
        wrong = np.zeros((*array.shape, 2), array.dtype)
        code, wanted = "GRAPH_ERROR_INVALID_TENSOR", graph.execute(bench.feeds())
        for memory in (
            other.context.register_memory(np.array(array), dtype),
            graph.context.register_memory(wrong, dtype),
        ):
            inputs: dict[str, Array | Memory] = {**bench.feeds(), name: memory}
            expect_error(lambda i=inputs: graph.execute(i), code, BackendError)  # type: ignore[misc]
        other.context.free()
        bench.demand_same(graph.execute(bench.feeds()), wanted, "rejected memory changes a graph")


def memory_types_do_not_change_results(bench: Bench) -> None:
    """Check that graphs prepared for either memory type run on arrays and on registered memory."""
    with bench.create() as backend:
        if not backend.capabilities.memory_handles:
            raise Unsupported("the backend has no memory handles")
        wanted = bench.finalized(backend.create_context()).execute(bench.feeds())
        for memory_type in (MemoryType.RAW, MemoryType.MEMHANDLE):
            context, profile = backend.create_context(), backend.create_profile()
            sample = bench.sample.graph(bench.schema(context), "case")
            set_io_memory_type(sample, memory_type)
            graph = compose(context, sample)
            graph.finalize()
            with SharedBuffers(graph) as buffers:
                for name, array in bench.feeds().items():
                    buffers.arrays[name][...] = array
                for _ in range(2):
                    graph.execute(buffers.inputs, buffers.outputs, profile)
                    found = {name: buffers.arrays[name] for name in buffers.outputs}
                    text = f"{memory_type.name} graph: registered memory gives something else"
                    bench.demand_same(found, wanted, text)
                    text = f"{memory_type.name} graph: arrays give something else"
                    bench.demand_same(graph.execute(bench.feeds()), wanted, text)
            if backend.capabilities.emulates_io_buffers:
                copies = [c.value for e in profile.events for c in e.counters]
                demand(not any(copies), "executions on registered memory have copies")


def deregistered_memory_is_released(bench: Bench) -> None:
    """Check that nothing refers to memory after it is deregistered, so that it can be closed."""
    with bench.create() as backend:
        graph = bench.finalized(backend.create_context())
        context, dtypes = graph.context, {t.name: t.dtype for t in graph.ir.tensors.values()}
        if not backend.capabilities.memory_handles:
            raise Unsupported("the backend has no memory handles")
        wanted = graph.execute(bench.feeds())
        for queued in (False, backend.capabilities.asynchronous):
            blocks = {n: mmap.mmap(-1, max(a.nbytes, 1)) for n, a in bench.feeds().items()}
            given = {
                name: context.register_memory(blocks[name], dtypes[name], array.shape)
                for name, array in bench.feeds().items()
            }
            for name, array in bench.feeds().items():
                blocks[name][: array.nbytes] = array.tobytes()
            taken = bench.outputs()
            if queued:
                demand(graph.execute_async(given, taken).wait(30), "a queued run does not end")
            else:
                graph.execute(given, taken)
            bench.demand_same(taken, wanted, "a run with mapped memory returns something else")
            for name, memory in given.items():
                memory.deregister()
                try:
                    blocks[name].close()
                except BufferError as error:
                    text = f"memory of '{name}' is still used after it was deregistered: {error}"
                    raise Failure(text) from error
        bench.demand_same(graph.execute(bench.feeds()), wanted, "the graph does not run any more")


def submitted_runs_end_once(bench: Bench) -> None:
    """Check that `submit` ends each run once, with its own outputs or its error."""
    with bench.create() as backend:
        graph = bench.composed(backend.create_context())
        prepared = prepared_on(backend, graph.ir)
        wanted = [run_sample(bench, prepared, shift=shift) for shift in range(3)]
        overlaps = backend.capabilities.overlap
        runs = []
        for shift in range(3):
            runs.append(SubmittedRun(prepared, bench.feeds(shift), bench.outputs()))
            if not overlaps:  # the next one may begin only after the end
                runs[-1].wait()
        if overlaps:
            found = run_sample(bench, prepared)
            bench.demand_same(found, wanted[0], "a run during submitted ones differs")
        for run, want in zip(runs, wanted, strict=True):
            run.wait()
            demand(run.errors == [None], f"a submitted run ended with {run.errors}")
            bench.demand_same(run.outputs, want, "a submitted run returns something else")


def submitted_runs_can_be_stopped(bench: Bench) -> None:
    """Check that a stopped run ends with the right error."""
    with bench.create() as backend:
        if not backend.capabilities.cancel:
            raise Unsupported("the backend has no signals")
        graph = bench.composed(backend.create_context())
        control = RunControl()
        control.stop()
        prepared = prepared_on(backend, graph.ir)
        run = SubmittedRun(prepared, bench.feeds(), bench.outputs(), control)
        run.demand_error("GRAPH_ERROR_ABORTED")


def overlapped_runs_end_before_their_context(bench: Bench) -> None:
    """Check that runs of a backend that overlaps them are whole when `free` returns."""
    with bench.create() as backend:
        if not backend.capabilities.overlap:
            raise Unsupported("the backend does not overlap runs")
        graph = bench.finalized(backend.create_context())
        wanted = [graph.execute(bench.feeds(shift)) for shift in range(4)]
        outputs = [bench.outputs() for _ in wanted]
        runs = [graph.execute_async(bench.feeds(i), out) for i, out in enumerate(outputs)]
        graph.context.free()
        for run, out, want in zip(runs, outputs, wanted, strict=True):
            demand(run.done, "`free` does not wait for an overlapped run")
            bench.demand_same(out, want, "an overlapped run returns something else")


CHECKS = (
    registered_memory_mixes_with_arrays,
    registered_memory_belongs_to_its_context,
    memory_types_do_not_change_results,
    deregistered_memory_is_released,
    submitted_runs_end_once,
    submitted_runs_can_be_stopped,
    overlapped_runs_end_before_their_context,
)
