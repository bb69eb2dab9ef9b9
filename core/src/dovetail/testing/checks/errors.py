"""Errors: wrong calls raise the right error, code and exit status, and have no other effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dovetail.errors import BackendError, ConfigError, DovetailError, GraphError, OpError
from dovetail.ir import Array, DType, Scalar, TensorKind
from dovetail.runtime import Context, Graph, Log, LogLevel
from dovetail.testing.bench import Bench, create_tensors
from dovetail.testing.outcome import demand, expect_error


def execute_before_finalize(bench: Bench) -> None:
    """Check that a graph that is not finalized does not run, and can be finalized afterwards."""
    with bench.create() as backend:
        graph, code = bench.composed(backend.create_context()), "GRAPH_ERROR_GRAPH_NOT_FINALIZED"
        expect_error(lambda: graph.execute(bench.feeds()), code, BackendError)
        graph.finalize()
        graph.execute(bench.feeds())


def change_after_finalize(bench: Bench) -> None:
    """Check that a finalized graph cannot be changed or finalized again, and still runs."""
    with bench.create() as backend:
        graph = bench.finalized(backend.create_context())
        for call in (
            graph.finalize,
            lambda: graph.create_tensor("late", DType.FLOAT_32, (1,)),
            lambda: graph.add_node("late", bench.sample.case.package, "any", [], []),
        ):
            expect_error(call, "GRAPH_ERROR_GRAPH_FINALIZED", BackendError)
        graph.execute(bench.feeds())


def a_graph_with_faults(bench: Bench) -> None:
    """Check that finalize lists every fault of a graph that is not well formed."""
    with bench.create() as backend:
        graph = backend.create_context().create_graph("faulty")
        graph.create_tensor("without_data", DType.FLOAT_32, (2,), TensorKind.STATIC)
        graph.create_tensor("unwritten", DType.FLOAT_32, (2,), TensorKind.APP_READ)
        error = expect_error(graph.finalize, "GRAPH_INVALID", GraphError)
        for name in ("without_data", "unwritten"):
            demand(name in str(error), f"the error does not name '{name}': {error}")


def nodes_that_do_not_fit_their_op(bench: Bench) -> None:
    """Check that nodes with unknown ops or params, or wrong inputs or outputs raise."""
    with bench.create() as backend:
        context = backend.create_context()
        good = bench.sample.node(bench.schema(context))
        unknown = {**good.params, "unheard_of": Scalar(DType.INT_32, 1)}
        for i, changes in enumerate(
            (
                {"op_type": "UnheardOf"},
                {"params": unknown},
                {"inputs": []},
                {"shape": (*good.outputs[0].shape, 7)},
            )
        ):
            error = expect_error(
                lambda i=i, c=changes: _add_changed(bench, context, f"g{i}", c),  # type: ignore[misc]
                "GRAPH_ERROR_INVALID_OP_CONFIG",
                OpError,
            )
            demand(good.name in error.where, f"the error does not name the node: {error}")
            demand(error.problems, f"the error gives no reason: {error}")


def buffers_that_do_not_fit(bench: Bench) -> None:
    """Check that wrong and missing buffers are listed, and the graph still runs."""
    with bench.create() as backend:
        graph, good = bench.finalized(backend.create_context()), bench.feeds()
        name = min(good)
        wrong = np.zeros((*good[name].shape, 2), np.complex64)
        error = _rejected_buffers(graph, {**good, name: wrong, "unheard_of": wrong})
        texts = " ".join(str(problem) for problem in error.problems)
        for text in ("shape", "complex64", "unheard_of"):
            demand(text in texts, f"the error does not mention {text}: {error}")
        _rejected_buffers(graph, {})
        _rejected_buffers(graph, good, {})
        graph.execute(good)


def outputs_that_cannot_be_written(bench: Bench) -> None:
    """Check that read-only outputs raise, and the graph still runs."""
    with bench.create() as backend:
        graph, outputs = bench.finalized(backend.create_context()), bench.outputs()
        next(iter(outputs.values())).flags.writeable = False
        _rejected_buffers(graph, bench.feeds(), outputs)
        graph.execute(bench.feeds(), bench.outputs())


def names_of_graphs(bench: Bench) -> None:
    """Check that graph names are unique, and only existing names are found."""
    with bench.create() as backend:
        context = backend.create_context()
        made = context.create_graph("net")
        for name in ("net", ""):
            expect_error(
                lambda n=name: context.create_graph(n),  # type: ignore[misc]
                "GRAPH_ERROR_INVALID_NAME",
                BackendError,
            )
        code = "GRAPH_ERROR_GRAPH_DOES_NOT_EXIST"
        error = expect_error(lambda: context.retrieve_graph("nat"), code, BackendError)
        demand("net" in error.hint, f"the error does not suggest the existing graph: {error}")
        demand(context.retrieve_graph("net") is made, "another graph was retrieved")


def use_after_free(bench: Bench) -> None:
    """Check that freed handles raise, each with its own code, also when freed twice."""
    with bench.create() as backend:
        device = backend.create_device()
        context = backend.create_context(device)
        graph, profile = bench.finalized(context), backend.create_profile()
        expect_error(device.free, "DEVICE_ERROR_ASSOCIATED_TO_CONTEXT", BackendError)
        expect_error(backend.free, "BACKEND_ERROR_TERMINATE_FAILED", BackendError)
        log = Log.create()
        log.set_level(LogLevel.ERROR)
        for handle in (log, profile, context):
            handle.free()
        device.free()
        backend.free()
    dead: dict[str, Callable[[], object]] = {
        "GRAPH_ERROR_INVALID_HANDLE": lambda: graph.execute(bench.feeds()),
        "CONTEXT_ERROR_INVALID_HANDLE": context.free,
        "DEVICE_ERROR_INVALID_HANDLE": device.free,
        "PROFILE_ERROR_INVALID_HANDLE": profile.free,
        "LOG_ERROR_INVALID_HANDLE": log.free,
        "BACKEND_ERROR_INVALID_HANDLE": backend.create_context,
    }
    for code, call in dead.items():
        expect_error(call, code, BackendError)


def options_that_nothing_reads(bench: Bench) -> None:
    """Check that unknown options are errors that name all of them, and options may be omitted."""
    unknown = {"unheard_of": 1, "never_seen": 2}
    error = expect_error(lambda: bench.create(unknown), "CONFIG_UNKNOWN_KEY", ConfigError)
    for name in unknown:
        demand(name in str(error), f"the error does not name '{name}': {error}")
    with bench.create({}) as backend:
        backend.create_context().free()


CHECKS = (
    execute_before_finalize,
    change_after_finalize,
    a_graph_with_faults,
    nodes_that_do_not_fit_their_op,
    buffers_that_do_not_fit,
    outputs_that_cannot_be_written,
    names_of_graphs,
    use_after_free,
    options_that_nothing_reads,
)


def _add_changed(bench: Bench, context: Context, name: str, changes: Mapping[str, Any]) -> None:
    """Add the sample's node with a change."""
    graph = bench.sample.graph(bench.schema(context), name)
    node = graph.nodes[0]
    graph.remove_node(node)
    if "shape" in changes:
        node.outputs[0].shape = changes["shape"]
    handle = context.create_graph(name)
    made = create_tensors(handle, graph)
    handle.add_node(
        node.name,
        node.package,
        changes.get("op_type", node.op_type),
        changes.get("inputs", [None if t is None else made[t] for t in node.inputs]),
        [made[t] for t in node.outputs],
        changes.get("params", node.params),
    )


def _rejected_buffers(
    graph: Graph, inputs: Mapping[str, Array], outputs: Mapping[str, Array] | None = None
) -> DovetailError:
    return expect_error(
        lambda: graph.execute(inputs, outputs), "GRAPH_ERROR_INVALID_TENSOR", BackendError
    )
