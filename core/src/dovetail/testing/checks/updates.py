"""Updates: other data and encodings of UPDATEABLE tensors after finalize."""

from __future__ import annotations

from functools import partial

import numpy as np
from msgspec.structs import replace

from dovetail import runtime
from dovetail.errors import BackendError, GraphError
from dovetail.ir import Graph, ScaleOffset, copy_graph
from dovetail.testing.bench import Bench, add_nodes, compose, create_tensors
from dovetail.testing.binding import BoundCase
from dovetail.testing.checks._plugin import (
    prepared_on,
    require_support,
    run_sample,
    update,
    updateable_sample,
)
from dovetail.testing.outcome import Unsupported, expect_error


def updated_data_are_used(bench: Bench) -> None:
    """Check that new data of an UPDATEABLE tensor are used by all later runs, and only there."""
    with bench.create() as backend:
        _require_updates(backend)
        schema = bench.schema(backend.create_context())
        first, other, second = (updateable_sample(bench, schema, shift) for shift in (0, 0, 1))
        require_support(backend, first)
        static = [t.name for t in first.tensors.values() if t.kind.is_updateable]
        updated, untouched, fresh = (prepared_on(backend, g) for g in (first, other, second))
        before = run_sample(bench, updated, static=static)
        wanted = run_sample(bench, fresh, static=static)
        update(updated, first, second)
        for _ in range(2):
            found = run_sample(bench, updated, static=static)
            bench.demand_same(found, wanted, "updated data are not used")
        found = run_sample(bench, untouched, static=static)
        bench.demand_same(found, before, "an update changes another graph")
        update(updated, first, other)
        found = run_sample(bench, updated, static=static)
        bench.demand_same(found, before, "a second update is not used")


def updates_are_used_after_finalize(bench: Bench) -> None:
    """Check that new data of UPDATEABLE tensors are used after the next finalize, or raise."""
    with bench.create() as backend:
        context = backend.create_context()
        schema = bench.schema(context)
        first, second = (updateable_sample(bench, schema, shift) for shift in (0, 1))
        (old,) = (t for t in first.tensors.values() if t.kind.is_updateable)
        new = second.tensors[old.name]
        graph = context.create_graph(first.name)
        handles = create_tensors(graph, first)
        add_nodes(graph, first, handles)
        shared = context.create_tensor(
            old.name, old.dtype, old.shape, old.kind, old.encoding, old.data
        )
        if not backend.capabilities.updates:
            code = "TENSOR_ERROR_UNSUPPORTED_FEATURE"
            expect_error(lambda: graph.update_tensor(handles[old], new.data), code, BackendError)
            expect_error(lambda: context.update_tensor(shared, new.data), code, BackendError)
            raise Unsupported("raises the right error")
        require_support(backend, first)
        other = compose(context, _renamed(first, "sharing"), {old.name: shared})
        fresh = compose(context, _renamed(second, "fresh"))
        feeds = {name: array for name, array in bench.feeds().items() if name != old.name}
        for each in (graph, other, fresh):
            each.finalize()
        wanted = fresh.execute(feeds)
        graph.update_tensor(handles[old], new.data)
        context.update_tensor(shared, new.data)
        for each in (graph, other):
            code = "GRAPH_ERROR_GRAPH_NOT_FINALIZED"
            expect_error(partial(each.execute, feeds), code, BackendError)
            each.finalize()
            bench.demand_same(each.execute(feeds), wanted, "updated data are not used")
        wrong = np.zeros((*old.shape, 2), old.dtype.storage)
        code = "TENSOR_ERROR_INCOMPATIBLE_TENSOR_UPDATE"
        expect_error(lambda: graph.update_tensor(handles[old], wrong), code, GraphError)
        expect_error(lambda: context.update_tensor(shared, wrong), code, GraphError)
        for each in (graph, other):
            bench.demand_same(each.execute(feeds), wanted, "a rejected update has an effect")


def updated_encodings_are_used(bench: Bench) -> None:
    """Check that a new encoding of an UPDATEABLE tensor is used by the next run."""
    with bench.create() as backend:
        _require_updates(backend)
        fixed = _fixed_point_bench(bench, backend)
        schema = fixed.schema(backend.create_context())
        first, second = (updateable_sample(fixed, schema, 0) for _ in range(2))
        static = [t.name for t in first.tensors.values() if t.kind.is_updateable]
        encoding = second.tensors[static[0]].encoding
        if not isinstance(encoding, ScaleOffset):
            raise Unsupported("the encoding has several scales")
        second.tensors[static[0]].encoding = replace(encoding, scale=encoding.scale / 2)
        updated, fresh = (prepared_on(backend, g) for g in (first, second))
        wanted = run_sample(fixed, fresh, static=static)
        update(updated, first, second)
        found = run_sample(fixed, updated, static=static)
        fixed.demand_same(found, wanted, "an updated encoding is not used")


CHECKS = (
    updated_data_are_used,
    updates_are_used_after_finalize,
    updated_encodings_are_used,
)


def _require_updates(backend: runtime.Backend) -> None:
    """Raise Unsupported if the backend has no updates; one check sees how it rejects them."""
    if not backend.capabilities.updates:
        raise Unsupported("the backend has no updates")


def _fixed_point_bench(bench: Bench, backend: runtime.Backend) -> Bench:
    """Return a bench whose sample has a fixed-point input.

    Raises:
        Unsupported: The backend supports no such case, or no UPDATEABLE tensor in it.
    """
    fixed = bench.narrowed(_has_fixed_point_input)
    schema = fixed.schema(backend.create_context())
    require_support(backend, updateable_sample(fixed, schema, 0))
    return fixed


def _has_fixed_point_input(bound: BoundCase) -> bool:
    """Return whether the first input that the application writes is fixed-point."""
    fed = min(bound.feeds(), default="")
    return any(
        given is not None and f"x{i}" == fed and given.dtype.is_fixed_point
        for i, given in enumerate(bound.inputs)
    )


def _renamed(graph: Graph, name: str) -> Graph:
    made = copy_graph(graph)
    made.name = name
    return made
