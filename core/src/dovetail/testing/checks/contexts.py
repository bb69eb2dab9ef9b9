"""Contexts: they are independent of each other, and leave nothing when they end."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from contextlib import suppress
from typing import Any

import numpy as np

from dovetail.errors import BackendError
from dovetail.ir import TensorKind
from dovetail.ops import check_ops
from dovetail.runtime.contract import PrepareRequest, RunControl
from dovetail.testing.bench import Bench, compose
from dovetail.testing.checks._plugin import (
    constant_sample,
    prepared_on,
    require_support,
    run_sample,
)
from dovetail.testing.outcome import Failure, demand
from dovetail.testing.preparing import open_context

_PATIENCE_S = 3.0


def contexts_do_not_see_each_other(bench: Bench) -> None:
    """Check that equal names in two contexts do not clash, and one outlives the other."""
    with bench.create() as backend:
        contexts = [backend.create_context() for _ in range(2)]
        graphs = [bench.finalized(context) for context in contexts]
        wanted = [graphs[0].execute(bench.feeds(shift)) for shift in (0, 1)]
        for _ in range(2):
            for i, graph in enumerate(graphs):
                found = graph.execute(bench.feeds(i))
                bench.demand_same(found, wanted[i], "two contexts disturb each other")
        contexts[0].free()
        found = graphs[1].execute(bench.feeds(1))
        bench.demand_same(found, wanted[1], "freeing a context changes another")
        found = bench.finalized(contexts[1], "later").execute(bench.feeds(0))
        bench.demand_same(found, wanted[0], "freeing a context changes another")


def contexts_have_their_own_constants(bench: Bench) -> None:
    """Check that graphs of one name in two contexts use their own constants."""
    with bench.create() as backend:
        contexts = [backend.create_context() for _ in range(2)]
        schema = bench.schema(contexts[0])
        models = [constant_sample(bench, schema, shift, TensorKind.STATIC) for shift in (0, 1)]
        require_support(backend, models[0])
        graphs = [compose(c, model) for c, model in zip(contexts, models, strict=True)]
        name = min(bench.feeds())
        live = bench.finalized(backend.create_context())
        for graph in graphs:
            graph.finalize()
        for shift, graph in (*enumerate(graphs), *enumerate(graphs)):
            inputs = {**bench.feeds(0), name: bench.feeds(shift)[name]}
            wanted = live.execute(inputs)
            del inputs[name]
            found = graph.execute(inputs)
            bench.demand_same(found, wanted, "a graph uses the constants of another context")


def closing_raises_nothing(bench: Bench) -> None:
    """Check that graphs, contexts and the backend close, and others run on meanwhile."""
    backend = bench.create()
    graph = bench.composed(backend.create_context())
    checked = check_ops(graph.ir, backend.ops)
    request = PrepareRequest(backend.plugin.configs.graph())
    first, second = (open_context(backend.plugin) for _ in range(2))
    closed, unused, kept = (c.prepare(checked, request) for c in (first, first, second))
    wanted = run_sample(bench, closed)
    bench.demand_same(run_sample(bench, kept), wanted, "two contexts disturb each other")
    graph.context.free()
    closed.close()
    unused.close()
    bench.demand_same(run_sample(bench, kept), wanted, "closing a graph changes another")
    again = first.prepare(checked, request)
    bench.demand_same(run_sample(bench, again), wanted, "closing a graph changes later ones")
    again.close()
    first.close()
    bench.demand_same(run_sample(bench, kept), wanted, "closing a context changes another")
    kept.close()
    second.close()
    backend.free()  # which closes the plugin, and logs errors; a second handle shows them
    other = bench.create()
    other.plugin.close()


def nothing_is_kept_of_a_closed_graph(bench: Bench) -> None:
    """Check that a closed graph and the buffers of its runs can be collected."""
    with bench.create() as backend:
        graph = bench.composed(backend.create_context())
        prepared = prepared_on(backend, graph.ir)
        inputs = {name: np.array(array) for name, array in bench.feeds().items()}
        outputs = bench.outputs()
        prepared.run(inputs, outputs, RunControl())
        buffers = {**inputs, **outputs}
        alive: dict[str, weakref.ref[Any]] = {
            f"buffer '{name}'": weakref.ref(array) for name, array in buffers.items()
        }
        with suppress(TypeError):  # its class has slots, and none for weak references
            alive["prepared graph"] = weakref.ref(prepared)
        prepared.close()
        del prepared, inputs, outputs, buffers
        gc.collect()
        kept = [what for what, reference in alive.items() if reference() is not None]
        demand(not kept, f"the backend keeps the {', '.join(kept)} of a closed graph")


def freeing_ends_all_work(bench: Bench) -> None:
    """Check that `free` waits for queued runs, and no thread of the backend outlives it."""
    before = set(threading.enumerate())
    backend = bench.create()
    context = backend.create_context()
    graph = bench.finalized(context)
    wanted = graph.execute(bench.feeds())
    if backend.capabilities.asynchronous:
        outputs = [bench.outputs() for _ in range(4)]
        runs = [graph.execute_async(bench.feeds(), out) for out in outputs]
        context.free()
        for run, out in zip(runs, outputs, strict=True):
            demand(run.done, "`free` does not wait for a queued run")
            bench.demand_same(out, wanted, "a run that `free` waits for returns something else")
    else:
        context.free()
    backend.free()
    deadline = time.monotonic() + _PATIENCE_S
    while left := set(threading.enumerate()) - before:
        names = ", ".join(sorted(thread.name for thread in left))
        demand(time.monotonic() < deadline, f"threads outlive the backend: {names}")
        time.sleep(0.001)


def contexts_are_freed_once(bench: Bench) -> None:
    """Check that one of several threads frees a context, and all others raise."""
    with bench.create() as backend:
        context = backend.create_context()
        bench.finalized(context).execute(bench.feeds())
        errors: list[BaseException | None] = []

        def free() -> None:
            try:
                context.free()
            except BaseException as error:  # noqa: BLE001 - judged below
                errors.append(error)
            else:
                errors.append(None)

        threads = [threading.Thread(target=free, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_PATIENCE_S)
        demand(len(errors) == len(threads), "freeing a context hangs")
        demand(errors.count(None) == 1, f"{errors.count(None)} threads freed the context")
        for error in errors:
            if error is None:
                continue
            if not isinstance(error, BackendError):
                raise Failure(f"freeing in several threads raised {error!r}") from error
            demand(error.code == "CONTEXT_ERROR_INVALID_HANDLE", f"raised {error.code}: {error}")


CHECKS = (
    contexts_do_not_see_each_other,
    contexts_have_their_own_constants,
    closing_raises_nothing,
    nothing_is_kept_of_a_closed_graph,
    freeing_ends_all_work,
    contexts_are_freed_once,
)
