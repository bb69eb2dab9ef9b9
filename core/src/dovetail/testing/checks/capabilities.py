"""Capabilities: those that a backend has work, and the use of others raises the right error."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.errors import BackendError, OpError
from dovetail.ir import Array, Node
from dovetail.ops import OpPackage
from dovetail.runtime import EventType, Priority, ProfileEvent, ProfileLevel, SignalKind, contract
from dovetail.runtime.contract import RunControl
from dovetail.runtime.properties import PROPERTIES
from dovetail.testing import ops
from dovetail.testing.bench import Bench, compose
from dovetail.testing.binding import bind, schema_of
from dovetail.testing.checks._plugin import prepared_on, run_sample
from dovetail.testing.outcome import Unsupported, demand, expect_error


def properties_say_the_same(bench: Bench) -> None:
    """Check that `has_capability` agrees with `capabilities`, and the platform has a device."""
    with bench.create() as backend:
        able = backend.capabilities
        demand(isinstance(able, contract.Capabilities), f"capabilities are {able!r}")
        for key, known in PROPERTIES.items():
            claims = (backend.has_capability(key), known.holds(able))
            demand(claims[0] is claims[1], f"property {key} and capabilities: {claims}")
        code = "PROPERTY_ERROR_UNKNOWN_KEY"
        expect_error(lambda: backend.has_capability(-1), code, BackendError)
        demand(backend.capabilities == able, "the capabilities change between calls")
        platform = backend.get_platform_info()
        demand(isinstance(platform, contract.Platform), f"the platform is {platform!r}")
        demand(platform.devices, "the platform has no device")
        found = backend.create_device().get_info()
        demand(found == platform, f"a device handle has the platform {found}, not {platform}")


def op_packages(bench: Bench) -> None:
    """Check that packages that are not installed can be registered and run, or all are rejected.

    A backend may require kernels of packages: the rule `kernel` says so, and names the entry point.
    """
    with bench.create() as backend:
        package = OpPackage("dovetail.testing.another")
        if not backend.capabilities.op_packages:
            code = "BACKEND_ERROR_NOT_SUPPORTED"
            expect_error(lambda: backend.register_op_package(package), code, BackendError)
            raise Unsupported("raises the right error")
        backend.register_op_package(package)
        demand(backend.ops.package(package.name) is package, "the package is not found")
        nodes = [bind(case).node(schema_of(case, backend.ops)) for case in ops.HALVE]
        verdicts = [backend.validate_op(node) for node in nodes]
        if all(verdict.rule == "kernel" for verdict in verdicts):
            entry = f"{bench.name}:{ops.PACKAGE.name}"
            names_it = all(entry in verdict.rewrite for verdict in verdicts)
            demand(names_it, f"the verdict does not name the entry point {entry}: {verdicts[0]}")
            raise Unsupported(str(verdicts[0]))
        demand(any(v.ok for v in verdicts), f"an op of the kit is not supported: {verdicts[0]}")


def opaque_ops(bench: Bench) -> None:
    """Check that nodes of packages that are not installed are accepted as declared, or raise."""
    with bench.create() as backend:
        context = backend.create_context()
        graph = bench.sample.graph(bench.schema(context), "opaque")
        (known,) = graph.nodes
        graph.remove_node(known)
        node = Node("opaque", "unheard.of", "Any", known.inputs, known.outputs)
        graph.add_node(node)
        if not backend.capabilities.opaque_ops:
            code = "GRAPH_ERROR_INVALID_OP_CONFIG"
            error = expect_error(lambda: compose(context, graph), code, OpError)
            demand("unheard.of" in str(error), f"the error does not name the package: {error}")
            raise Unsupported("raises the right error")
        handle = compose(context, graph)
        support = backend.validate_op(handle.ir.nodes[0])
        demand(support.ok, f"an opaque node is not supported: {support}")
        handle.finalize()
        found = handle.execute(bench.feeds())
        for tensor in handle.outputs:
            form = (found[tensor.name].shape, found[tensor.name].dtype)
            demand(form == (tensor.shape, tensor.dtype.storage), f"an output is {form}")


def cancel(bench: Bench) -> None:
    """Check that signals stop a run between steps, and the graph runs again afterwards."""
    with bench.create() as backend:
        if not backend.capabilities.cancel:
            expect_error(backend.create_signal, "SIGNAL_ERROR_UNSUPPORTED", BackendError)
            raise Unsupported("raises the right error")
        graph = bench.finalized(backend.create_context())
        signal = backend.create_signal()
        expect_error(signal.trigger, "SIGNAL_ERROR_SIGNAL_IDLE", BackendError)
        control = RunControl()
        control.stop()  # before the first step: no step may run
        prepared = prepared_on(backend, graph.ir)
        expect_error(
            lambda: run_sample(bench, prepared, control=control),
            "GRAPH_ERROR_ABORTED",
            BackendError,
        )
        late = backend.create_signal(SignalKind.TIMEOUT, timeout_us=0)
        code = "GRAPH_ERROR_TIMED_OUT"
        expect_error(lambda: graph.execute(bench.feeds(), signal=late), code, BackendError)
        wanted = graph.execute(bench.feeds())
        bench.demand_same(run_sample(bench, prepared), wanted, "a stopped graph runs differently")
        if backend.capabilities.asynchronous:
            run = graph.execute_async(bench.feeds(), bench.outputs(), signal=late)
            expect_error(lambda: run.wait(30), code, BackendError)
            taken = bench.outputs()
            demand(graph.execute_async(bench.feeds(), taken).wait(30), "a queued run does not end")
            bench.demand_same(taken, wanted, "a graph stopped in a queue runs differently")
        signal.free()
        expect_error(signal.trigger, "SIGNAL_ERROR_INVALID_HANDLE", BackendError)


def watch(bench: Bench) -> None:
    """Check that detailed profiles name every node, and a watch receives the outputs of each."""
    with bench.create() as backend:
        graph = bench.finalized(backend.create_context())
        profile = backend.create_profile()
        graph.execute(bench.feeds(), profile=profile)
        demand([e.type for e in profile.events] == [EventType.EXECUTE], "a basic profile is wrong")
        received = _Watch()
        if not backend.capabilities.watch:
            code = "PROFILE_ERROR_UNSUPPORTED"
            expect_error(lambda: backend.create_profile(ProfileLevel.DETAILED), code, BackendError)
            code = "GRAPH_ERROR_UNSUPPORTED_FEATURE"
            expect_error(lambda: graph.execute(bench.feeds(), watch=received), code, BackendError)
            raise Unsupported("raises the right error")
        detailed, streamed = backend.create_profile(ProfileLevel.DETAILED), list[ProfileEvent]()
        graph.execute(bench.feeds(), profile=detailed)
        (event,) = detailed.events
        parts = detailed.get_sub_events((0,))
        demand(parts == event.sub_events, "the parts of an event are not its children")
        code = "PROFILE_ERROR_INVALID_ARGUMENT"
        expect_error(lambda: detailed.get_sub_events((1,)), code, BackendError)
        named = (detailed.get_event_data((0,)), detailed.get_extended_event_data((0,)))
        demand(all(d.identifier == event.identifier for d in named), f"the data are {named}")
        detailed.clear()
        demand(not detailed.events, "a profile has events after it was cleared")
        detailed.stream_to(streamed.append)
        graph.execute(bench.feeds(), profile=detailed)
        demand(len(streamed) == 1, f"{len(streamed)} events of a run were streamed")
        graph.execute(bench.feeds(), watch=received)
        for node in graph.ir.nodes:
            timed = any(node.name in child.identifier for child in event.children)
            demand(timed, f"the detailed profile has no time of node '{node.name}'")
            demand(node.name in received.nodes, f"the watch does not receive node '{node.name}'")


def asynchronous(bench: Bench) -> None:
    """Check that queued runs return the same as direct ones, and notify of their end."""
    with bench.create() as backend:
        graph = bench.finalized(backend.create_context())
        if not backend.capabilities.asynchronous:
            code = "GRAPH_ERROR_UNSUPPORTED_FEATURE"
            expect_error(
                lambda: graph.execute_async(bench.feeds(), bench.outputs()), code, BackendError
            )
            raise Unsupported("raises the right error")
        wanted = [graph.execute(bench.feeds(i)) for i in range(3)]
        outputs, received = [bench.outputs() for _ in wanted], list[BaseException | None]()
        runs = [
            graph.execute_async(bench.feeds(i), out, notify=received.append)
            for i, out in enumerate(outputs)
        ]
        for run, out, want in zip(runs, outputs, wanted, strict=True):
            demand(run.wait(30), "a queued run does not end")
            bench.demand_same(out, want, "a queued run returns something else")
        graph.context.free()  # waits for the notifications too
        demand(received == [None] * len(runs), f"notify received {received}")


def priority(bench: Bench) -> None:
    """Check that priorities are read from configs, or raise."""
    with bench.create() as backend:
        if not backend.capabilities.priority:
            high = {"context_priority": "high"}
            code = "CONTEXT_ERROR_UNSUPPORTED_FEATURE"
            expect_error(lambda: backend.create_context(config=high), code, BackendError)
            graph = bench.finalized(backend.create_context())
            config, code = {"graph_priority": "high"}, "GRAPH_ERROR_UNSUPPORTED_FEATURE"
            expect_error(lambda: graph.set_config(config), code, BackendError)
            raise Unsupported("raises the right error")
        context = backend.create_context(config={"context_priority": "high"})
        graph = bench.finalized(context)
        demand(graph.priority is Priority.HIGH, "a graph does not have its context's priority")
        graph.set_config({"graph_priority": "low"})
        demand(graph.priority is Priority.LOW, "a graph does not have its own priority")
        graph.execute(bench.feeds())


def memory_handles(bench: Bench) -> None:
    """Check that registered memory works as input and output, or raises."""
    with bench.create() as backend:
        graph = bench.finalized(backend.create_context())
        context, dtypes = graph.context, {t.name: t.dtype for t in graph.ir.tensors.values()}
        given, taken = bench.feeds(), bench.outputs()
        if not backend.capabilities.memory_handles:
            name, array = next(iter(given.items()))
            code = "MEM_ERROR_NOT_SUPPORTED"
            expect_error(lambda: context.register_memory(array, dtypes[name]), code, BackendError)
            raise Unsupported("raises the right error")
        inputs = {n: context.register_memory(a, dtypes[n]) for n, a in given.items()}
        outputs = {n: context.register_memory(a, dtypes[n]) for n, a in taken.items()}
        wanted = graph.execute(bench.feeds())
        graph.execute(inputs, outputs)
        bench.demand_same(taken, wanted, "a run with registered memory returns something else")
        dead = next(iter(inputs.values()))
        dead.deregister()
        code = "MEM_ERROR_INVALID_HANDLE"
        expect_error(lambda: graph.execute(inputs, outputs), code, BackendError)


CHECKS = (
    properties_say_the_same,
    op_packages,
    opaque_ops,
    cancel,
    watch,
    asynchronous,
    priority,
    memory_handles,
)


class _Watch:
    """Records the nodes that it receives."""

    def __init__(self) -> None:
        self.nodes: set[str] = set()

    def step_finished(
        self, nodes: tuple[str, ...], microseconds: float, outputs: Mapping[str, Array]
    ) -> None:
        self.nodes.update(nodes)
