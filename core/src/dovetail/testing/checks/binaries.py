"""Context binaries and sections: contexts that are stored and created again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail import runtime
from dovetail.errors import BackendError, ContainerError
from dovetail.ir import Array, DType, Tensor
from dovetail.testing.bench import Bench, add_nodes, create_tensors
from dovetail.testing.checks._plugin import (
    demand_error,
    is_unsupported,
    require_support,
    updateable_sample,
)
from dovetail.testing.outcome import Unsupported, demand, expect_error

_UNSUPPORTED = "CONTEXT_ERROR_UNSUPPORTED_FEATURE"


def binaries_restore_contexts(bench: Bench) -> None:
    """Check that a context created from a binary returns the same, and has an equal binary."""
    with bench.create() as backend, bench.create() as other:
        context = backend.create_context()
        graph = bench.finalized(context)
        _require_binaries(backend, context)
        wanted = graph.execute(bench.feeds())
        size = context.get_binary_size()
        binary = context.get_binary()
        demand(binary.size == size, f"a binary of {binary.size} bytes, not {size}")
        buffer = np.zeros(size + 1, np.uint8)
        demand(context.get_binary(buffer).size == size, "a buffer is not filled up to the end")
        demand(np.array_equal(buffer[:size], binary), "two binaries of a context differ")
        small = np.zeros(size - 1, np.uint8)
        expect_error(
            lambda: context.get_binary(small), "CONTEXT_ERROR_INVALID_ARGUMENT", BackendError
        )
        verdict = other.validate_binary(binary).verdict
        demand(verdict is runtime.Verdict.OPTIMAL, f"the verdict on a binary is {verdict.name}")
        names = [each.name for each in other.get_binary_info(binary).graphs]
        demand(names == [graph.name], f"the graphs of the binary are {names}")
        again = other.create_context_from_binary(binary)
        restored = again.retrieve_graph(graph.name)
        demand(restored.is_finalized, "a graph of a binary is not finalized")
        bench.demand_same(restored.execute(bench.feeds()), wanted, "a restored graph differs")
        demand(
            np.array_equal(again.get_binary(), binary), "the binary of a restored context differs"
        )
        code = "GRAPH_ERROR_GRAPH_FINALIZED"
        expect_error(restored.finalize, code, BackendError)
        name = next(iter(graph.interface.inputs))
        demand(restored.retrieve_tensor(name).name == name, "a tensor is not found by its name")


def binaries_load_what_is_enabled(bench: Bench) -> None:
    """Check that `enable_graphs` selects graphs, and a memory limit loads them when they run."""
    with bench.create() as backend:
        context = backend.create_context()
        graphs = [bench.finalized(context, name) for name in ("first", "second")]
        _require_binaries(backend, context)
        wanted = [graph.execute(bench.feeds()) for graph in graphs]
        binary = context.get_binary()
        config = {"enable_graphs": ["second"]}
        some = backend.create_context_from_binary(binary, config=config)
        demand(tuple(some.graphs) == ("second",), f"the graphs are {tuple(some.graphs)}")
        bench.demand_same(
            some.retrieve_graph("second").execute(bench.feeds()),
            wanted[1],
            "a chosen graph differs",
        )
        expect_error(
            lambda: backend.create_context_from_binary(binary, config={"enable_graphs": ["third"]}),
            "CONTEXT_ERROR_INVALID_CONFIG",
            BackendError,
        )
        lazy = backend.create_context_from_binary(binary, config={"memory_limit_hint": 0})
        for _ in range(2):
            for name, outputs in zip(("first", "second"), wanted, strict=True):
                found = lazy.retrieve_graph(name).execute(bench.feeds())
                bench.demand_same(found, outputs, "a graph that is loaded late differs")


def sections_of_contexts_are_applied(bench: Bench) -> None:
    """Check that a section of updated tensors is used by a context created from its base."""
    with bench.create() as backend:
        context = backend.create_context()
        schema = bench.schema(context)
        first, second = (updateable_sample(bench, schema, shift) for shift in (0, 1))
        (old,) = (t for t in first.tensors.values() if t.kind.is_updateable)
        _require_sections(backend, context)
        require_support(backend, first)
        graph = context.create_graph(first.name)
        handles = create_tensors(graph, first)
        add_nodes(graph, first, handles)
        shared = context.create_tensor("shared", DType.FLOAT_32, (2,))
        graph.finalize()
        feeds = {name: array for name, array in bench.feeds().items() if name != old.name}
        before, base = graph.execute(feeds), context.get_binary()
        section = _updated(context, graph, handles[old], second.tensors[old.name])
        after = graph.execute(feeds)
        again = backend.create_context_from_binary(base)
        found = again.retrieve_graph(graph.name)
        bench.demand_same(found.execute(feeds), before, "the base has an update")
        again.apply_binary_section(section)
        bench.demand_same(found.execute(feeds), after, "an applied section is not used")
        size = again.get_binary_section_size(found)
        demand(again.get_binary_section(found).size == size, "the size of a section differs")
        back = _updated(again, found, found.retrieve_tensor(old.name), old)
        bench.demand_same(found.execute(feeds), before, "an update after a section is not used")
        again.apply_binary_section(section, found)
        again.apply_binary_section(back)
        bench.demand_same(found.execute(feeds), before, "an empty section is not the base")
        demand(again.retrieve_tensor(shared.name).name == shared.name, "a tensor is lost")
        other = backend.create_context()
        bench.finalized(other, first.name)
        demand_error(
            lambda: other.apply_binary_section(section), ContainerError, "a section of another base"
        )


CHECKS = (
    binaries_restore_contexts,
    binaries_load_what_is_enabled,
    sections_of_contexts_are_applied,
)


def _updated(
    context: runtime.Context, graph: runtime.Graph, tensor: runtime.Tensor, source: Tensor
) -> Array:
    """Update a tensor and return the section of the context."""
    graph.update_tensor(tensor, source.data, source.encoding)
    graph.finalize()
    return context.get_binary_section()


def _require_binaries(backend: runtime.Backend, context: runtime.Context) -> None:
    """Raise Unsupported if the backend has no context binaries, and says so."""
    if backend.capabilities.caching:
        try:
            context.get_binary_size()
        except BackendError as error:
            demand(is_unsupported(error), f"raised {error.code}: {error}")
            raise Unsupported("raises the right error") from error
        return
    empty = np.zeros(1, np.uint8)
    calls: tuple[Callable[[], object], ...] = (
        context.get_binary_size,
        context.get_binary,
        lambda: backend.create_context_from_binary(empty),
        lambda: backend.validate_binary(empty),
    )
    for call in calls:
        expect_error(call, _UNSUPPORTED, BackendError)
    raise Unsupported("raises the right error")


def _require_sections(backend: runtime.Backend, context: runtime.Context) -> None:
    """Raise Unsupported if the backend has no sections, and says so."""
    able = backend.capabilities
    if able.caching and able.updates:
        return
    empty = np.zeros(1, np.uint8)
    calls: tuple[Callable[[], object], ...] = (
        context.get_binary_section_size,
        context.get_binary_section,
        lambda: context.apply_binary_section(empty),
    )
    for call in calls:
        expect_error(call, _UNSUPPORTED, BackendError)
    raise Unsupported("raises the right error")
