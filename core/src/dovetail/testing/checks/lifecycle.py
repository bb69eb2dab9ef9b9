"""Life cycle of graphs and their handles, from composition to the end."""

from __future__ import annotations

import threading

import numpy as np

from dovetail.errors import BackendError
from dovetail.ir import Array, to_text
from dovetail.runtime import Graph
from dovetail.testing.bench import Bench, compose, stored_blob
from dovetail.testing.outcome import Failure, demand


def composed_finalized_executed(bench: Bench) -> None:
    """Check that a graph runs after compose and finalize, with outputs of the declared form."""
    with bench.create() as backend:
        graph = bench.composed(backend.create_context())
        demand(not graph.is_finalized, "a composed graph claims to be finalized")
        graph.finalize()
        demand(graph.is_finalized, "a finalized graph claims not to be")
        found = graph.execute(bench.feeds())
        for tensor in graph.outputs:
            form = (found[tensor.name].shape, found[tensor.name].dtype)
            demand(form == (tensor.shape, tensor.dtype.storage), f"an output is {form}")


def outputs_are_written_in_place_and_whole(bench: Bench) -> None:
    """Check that outputs are written to the given arrays, every element of them."""
    with bench.create() as backend:
        graph = bench.finalized(backend.create_context())
        fresh, given = graph.execute(bench.feeds()), bench.outputs()
        taken = graph.execute(bench.feeds(), given)
        for name, array in given.items():
            demand(taken[name] is array, f"output '{name}' is not the given array")
        bench.demand_same(fresh, given, "given and new outputs differ")


def inputs_are_never_written(bench: Bench) -> None:
    """Check that a run does not write its inputs, and accepts read-only ones."""
    with bench.create() as backend:
        graph, given = bench.finalized(backend.create_context()), bench.feeds()
        for array in given.values():
            array.flags.writeable = False
        graph.execute(given)
        for name, array in bench.feeds().items():
            demand(given[name].tobytes() == array.tobytes(), f"input '{name}' was written")


def strided_inputs_are_taken(bench: Bench) -> None:
    """Check that inputs that are not C-contiguous are read by their elements."""
    with bench.create() as backend:
        graph = bench.finalized(backend.create_context())
        strided = {name: _strided(array) for name, array in bench.feeds().items()}
        wanted = graph.execute(bench.feeds())
        bench.demand_same(
            graph.execute(strided), wanted, "a run with strided inputs returns something else"
        )


def runs_do_not_see_each_other(bench: Bench) -> None:
    """Check that a run does not depend on earlier runs, or change their outputs."""
    with bench.create() as backend:
        context = backend.create_context()
        fresh = [bench.finalized(context, name) for name in ("first", "second")]
        wanted = [graph.execute(bench.feeds(i)) for i, graph in enumerate(fresh)]
        graph = bench.finalized(context)
        for shift in (0, 1, 0):
            found = graph.execute(bench.feeds(shift))
            bench.demand_same(found, wanted[shift], "an earlier run changes a later one")
            kept = {name: array.copy() for name, array in found.items()}
            graph.execute(bench.feeds(1 - shift))
            bench.demand_same(found, kept, "a later run wrote an earlier run's outputs")


def graphs_do_not_see_each_other(bench: Bench) -> None:
    """Check that graphs of a context run alternately, each on its own data."""
    with bench.create() as backend:
        context = backend.create_context()
        one, other = (bench.finalized(context, name) for name in ("one", "other"))
        wanted = [one.execute(bench.feeds(shift)) for shift in (0, 1)]
        found = [graph.execute(bench.feeds(i)) for i, graph in enumerate((one, other))]
        for a, b in zip(wanted, found, strict=True):
            bench.demand_same(a, b, "two graphs of a context disturb each other")


def preparing_leaves_the_graph_alone(bench: Bench) -> None:
    """Check that `prepare` and `validate` do not change the graph."""
    with bench.create() as backend:
        graph = bench.composed(backend.create_context())
        before = to_text(graph.ir)
        node = graph.ir.nodes[0]
        verdicts = [backend.validate_op(node) for _ in range(2)]
        demand(verdicts[0] == verdicts[1], f"two verdicts on the same node differ: {verdicts}")
        graph.finalize()
        demand(to_text(graph.ir) == before, "finalize changed the graph")


def threads_share_a_graph(bench: Bench) -> None:
    """Check that a graph can be executed from several threads."""
    with bench.create() as backend:
        graph = bench.finalized(backend.create_context())
        _run_in_threads(bench, [graph] * 4)


def threads_have_their_own_graphs(bench: Bench) -> None:
    """Check that graphs of several contexts can run at the same time."""
    with bench.create() as backend:
        _run_in_threads(bench, [bench.finalized(backend.create_context()) for _ in range(4)])


def a_backend_is_used_again(bench: Bench) -> None:
    """Check that contexts and backends work after others were freed."""
    found = []
    for _ in range(2):
        with bench.create() as backend:
            for _ in range(2):
                with backend.create_context() as context:
                    found.append(bench.finalized(context).execute(bench.feeds()))
    for other in found[1:]:
        bench.demand_same(found[0], other, "a later context returns something else")


def what_is_owned_ends_with_its_owner(bench: Bench) -> None:
    """Check that leaving the backend frees its contexts and their graphs, executed or not."""
    with bench.create() as backend:
        context = backend.create_context()
        handles = [context, bench.composed(context, "composed"), bench.finalized(context)]
    for handle in (backend, *handles):
        demand(handle.is_freed, f"{handle.describe()} is alive after its owner was freed")


def graphs_use_tensors_of_their_context(bench: Bench) -> None:
    """Check that graphs read and write tensors of their context."""
    with bench.create() as backend:
        context = backend.create_context()
        wanted = bench.finalized(context).execute(bench.feeds())
        graph, feeds = bench.sample.graph(bench.schema(context), "shared"), bench.feeds()
        name = min(feeds)
        x, y = graph.tensors[name], graph.tensors["y0"]
        stored = stored_blob(feeds.pop(name), x)
        read = context.create_tensor(x.name, x.dtype, x.shape, encoding=x.encoding, data=stored)
        written = context.create_tensor(y.name, y.dtype, y.shape, encoding=y.encoding)
        handle = compose(context, graph, {x.name: read, y.name: written})
        handle.finalize()
        found = handle.execute(feeds)
        demand(y.name not in found, "a context tensor is among the outputs of a run")
        found[y.name] = written.values()
        bench.demand_same(found, wanted, "a run with context tensors returns something else")


CHECKS = (
    composed_finalized_executed,
    outputs_are_written_in_place_and_whole,
    inputs_are_never_written,
    strided_inputs_are_taken,
    runs_do_not_see_each_other,
    graphs_do_not_see_each_other,
    preparing_leaves_the_graph_alone,
    threads_share_a_graph,
    threads_have_their_own_graphs,
    a_backend_is_used_again,
    what_is_owned_ends_with_its_owner,
    graphs_use_tensors_of_their_context,
)


def _run_in_threads(bench: Bench, graphs: list[Graph]) -> None:
    """Run each graph several times in its own thread, on its own data."""
    wanted = [graphs[0].execute(bench.feeds(i)) for i in range(len(graphs))]
    faults: list[BaseException] = []

    def work(i: int) -> None:
        try:
            for _ in range(10):
                found = graphs[i].execute(bench.feeds(i))
                bench.demand_same(found, wanted[i], "runs in several threads disturb each other")
        except BaseException as error:  # noqa: BLE001 - travels to the thread that waits
            faults.append(error)

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(len(graphs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    demand(not any(t.is_alive() for t in threads), "a run in another thread hangs")
    for fault in faults:
        if isinstance(fault, Failure | BackendError):
            raise fault
        raise Failure(f"a run in another thread raised {fault!r}") from fault


def _strided(array: Array) -> Array:
    """Return the same elements in memory with gaps between them."""
    wide = np.zeros((*array.shape, 2), array.dtype)
    wide[..., 0] = array
    return wide[..., 0]
