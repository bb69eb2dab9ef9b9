"""Capabilities: what a backend claims works, and what it does not claim is refused cleanly."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

import msgspec

from dovetail import runtime
from dovetail.container import WeightStore
from dovetail.errors import BackendError
from dovetail.ir import Array, DType, Graph, TensorKind, pack
from dovetail.ops import OpPackage, OpSchema, to_real
from dovetail.runtime import EventType, Priority, ProfileLevel, SignalKind, contract
from dovetail.runtime.backend import PROPERTIES
from dovetail.runtime.contract import Image, Prepared, RunControl
from dovetail.testing import ops
from dovetail.testing.bench import Bench
from dovetail.testing.binding import bind, schema_of
from dovetail.testing.outcome import Failure, Unsupported, demand, refusal

# How a backend's own methods refuse what it never claimed: any of QNN's names for it.
_UNSUPPORTED = ("_UNSUPPORTED_FEATURE", "_NOT_SUPPORTED")


def properties_say_the_same(bench: Bench) -> None:
    """`has_capability` answers as `capabilities` says, and unknown keys are refused."""
    with bench.create() as backend:
        able = backend.capabilities
        demand(isinstance(able, contract.Capabilities), f"capabilities are {able!r}")
        for key, name in PROPERTIES.items():
            claims = (backend.has_capability(key), getattr(able, name))
            demand(claims[0] is claims[1], f"property {key} and capability {name}: {claims}")
        code = "PROPERTY_ERROR_UNKNOWN_KEY"
        refusal(lambda: backend.has_capability(-1), code, BackendError)
        demand(backend.capabilities == able, "the capabilities change from call to call")


def op_packages(bench: Bench) -> None:
    """Packages that are not installed are registered and their ops run, or all are refused."""
    with bench.create() as backend:
        package = OpPackage("dovetail.testing.another")
        if not backend.capabilities.op_packages:
            code = "BACKEND_ERROR_NOT_SUPPORTED"
            refusal(lambda: backend.register_op_package(package), code, BackendError)
            raise Unsupported("refused cleanly")
        backend.register_op_package(package)
        demand(backend.ops.package(package.name) is package, "the package is not found")
        nodes = [bind(case).node(schema_of(case, backend.ops)) for case in ops.HALVE]
        verdicts = [backend.validate_op(node) for node in nodes]
        demand(any(v.ok for v in verdicts), f"an op of the kit is refused: {verdicts[0]}")


def caching(bench: Bench) -> None:
    """`image` gives plain data, and what `restore` makes of them runs alike."""
    with bench.create() as backend:
        graph = bench.finalized(backend.create_context())
        weights, prepared = WeightStore(), _prepared(backend, graph.ir)
        if not backend.capabilities.caching:
            _refused_by_plugin(prepared.image)
            _refused_by_plugin(lambda: backend.plugin.restore(Image({}), weights))
            raise Unsupported("refused cleanly")
        image = prepared.image()
        plan = msgspec.json.decode(msgspec.json.encode(image.plan))
        restored = backend.plugin.restore(Image(plan, image.blobs), weights)
        bench.demand_same(
            _run(bench, restored), graph.execute(bench.feeds()), "the restored graph differs"
        )
        again = msgspec.json.decode(msgspec.json.encode(restored.image().plan))
        demand(again == plan, "the image of a restored graph is another one")


def cancel(bench: Bench) -> None:
    """Signals stop a run between steps, and the graph runs again afterwards."""
    with bench.create() as backend:
        if not backend.capabilities.cancel:
            refusal(backend.create_signal, "SIGNAL_ERROR_UNSUPPORTED", BackendError)
            raise Unsupported("refused cleanly")
        graph = bench.finalized(backend.create_context())
        signal = backend.create_signal()
        refusal(signal.trigger, "SIGNAL_ERROR_SIGNAL_IDLE", BackendError)
        control = RunControl()
        control.stop()  # before the first step: no step may run
        prepared = _prepared(backend, graph.ir)
        refusal(lambda: _run(bench, prepared, control), "GRAPH_ERROR_ABORTED", BackendError)
        late = backend.create_signal(SignalKind.TIMEOUT, timeout_us=0)
        code = "GRAPH_ERROR_TIMED_OUT"
        refusal(lambda: graph.execute(bench.feeds(), signal=late), code, BackendError)
        wanted = graph.execute(bench.feeds())
        bench.demand_same(_run(bench, prepared), wanted, "a stopped graph runs differently")


def watch(bench: Bench) -> None:
    """Detailed profiles name every node, and who watches is told what each wrote."""
    with bench.create() as backend:
        graph = bench.finalized(backend.create_context())
        profile = backend.create_profile()
        graph.execute(bench.feeds(), profile=profile)
        demand([e.type for e in profile.events] == [EventType.EXECUTE], "a basic profile is wrong")
        told = _Watch()
        if not backend.capabilities.watch:
            code = "PROFILE_ERROR_UNSUPPORTED"
            refusal(lambda: backend.create_profile(ProfileLevel.DETAILED), code, BackendError)
            code = "GRAPH_ERROR_UNSUPPORTED_FEATURE"
            refusal(lambda: graph.execute(bench.feeds(), watch=told), code, BackendError)
            raise Unsupported("refused cleanly")
        detailed = backend.create_profile(ProfileLevel.DETAILED)
        graph.execute(bench.feeds(), profile=detailed)
        (event,) = detailed.events
        graph.execute(bench.feeds(), watch=told)
        for node in graph.ir.nodes:
            timed = any(node.name in child.identifier for child in event.children)
            demand(timed, f"the detailed profile has no time of node '{node.name}'")
            demand(node.name in told.nodes, f"who watches is not told of node '{node.name}'")


def asynchronous(bench: Bench) -> None:
    """Queued runs give what direct ones give, and say when they end."""
    with bench.create() as backend:
        graph = bench.finalized(backend.create_context())
        if not backend.capabilities.asynchronous:
            code = "GRAPH_ERROR_UNSUPPORTED_FEATURE"
            refusal(lambda: graph.execute_async(bench.feeds(), bench.outputs()), code, BackendError)
            raise Unsupported("refused cleanly")
        wanted = [graph.execute(bench.feeds(i)) for i in range(3)]
        outputs, told = [bench.outputs() for _ in wanted], list[BaseException | None]()
        runs = [
            graph.execute_async(bench.feeds(i), out, notify=told.append)
            for i, out in enumerate(outputs)
        ]
        for run, out, want in zip(runs, outputs, wanted, strict=True):
            demand(run.wait(30), "a queued run does not end")
            bench.demand_same(out, want, "a queued run gives something else")
        graph.context.free()  # waits for the notices too
        demand(told == [None] * len(runs), f"notify was told {told}")


def priority(bench: Bench) -> None:
    """Priorities are taken from configs, or refused."""
    with bench.create() as backend:
        if not backend.capabilities.priority:
            high = {"context_priority": "high"}
            code = "CONTEXT_ERROR_UNSUPPORTED_FEATURE"
            refusal(lambda: backend.create_context(config=high), code, BackendError)
            graph = bench.finalized(backend.create_context())
            config, code = {"graph_priority": "high"}, "GRAPH_ERROR_UNSUPPORTED_FEATURE"
            refusal(lambda: graph.set_config(config), code, BackendError)
            raise Unsupported("refused cleanly")
        context = backend.create_context(config={"context_priority": "high"})
        graph = bench.finalized(context)
        demand(graph.priority is Priority.HIGH, "a graph has not its context's priority")
        graph.set_config({"graph_priority": "low"})
        demand(graph.priority is Priority.LOW, "a graph has not its own priority")
        graph.execute(bench.feeds())


def updates(bench: Bench) -> None:
    """An UPDATEABLE tensor gets other data after finalize, and they count from then on."""
    with bench.create() as backend:
        graph = bench.composed(backend.create_context())
        if not backend.capabilities.updates:
            _refused_by_plugin(lambda: _prepared(backend, graph.ir).update([]))
            raise Unsupported("refused cleanly")
        schema = bench.schema(graph.context)
        first, second = (_updateable(bench, schema, shift) for shift in (0, 1))
        support = backend.validate_op(first.nodes[0])
        if not support.ok:
            raise Unsupported(str(support))
        updated, fresh = (_prepared(backend, g) for g in (first, second))
        static = [t.name for t in second.tensors.values() if t.kind.is_updateable]
        updated.update([second.tensors[name] for name in static])
        found, wanted = (_run(bench, p, static=static) for p in (updated, fresh))
        bench.demand_same(found, wanted, "updated data do not count")


def memory_handles(bench: Bench) -> None:
    """Registered memory serves as input and output, or is refused."""
    with bench.create() as backend:
        graph = bench.finalized(backend.create_context())
        context, dtypes = graph.context, {t.name: t.dtype for t in graph.ir.tensors.values()}
        given, taken = bench.feeds(), bench.outputs()
        if not backend.capabilities.memory_handles:
            name, array = next(iter(given.items()))
            code = "MEM_ERROR_NOT_SUPPORTED"
            refusal(lambda: context.register_memory(array, dtypes[name]), code, BackendError)
            raise Unsupported("refused cleanly")
        inputs = {n: context.register_memory(a, dtypes[n]) for n, a in given.items()}
        outputs = {n: context.register_memory(a, dtypes[n]) for n, a in taken.items()}
        wanted = graph.execute(bench.feeds())
        graph.execute(inputs, outputs)
        bench.demand_same(taken, wanted, "registered memory gives something else")
        dead = next(iter(inputs.values()))
        dead.deregister()
        code = "MEM_ERROR_INVALID_HANDLE"
        refusal(lambda: graph.execute(inputs, outputs), code, BackendError)


CHECKS = (
    properties_say_the_same,
    op_packages,
    caching,
    cancel,
    watch,
    asynchronous,
    priority,
    updates,
    memory_handles,
)


class _Watch:
    """Notes the nodes that it is told of."""

    def __init__(self) -> None:
        self.nodes: set[str] = set()

    def step_finished(
        self, nodes: tuple[str, ...], microseconds: float, outputs: Mapping[str, Array]
    ) -> None:
        self.nodes.update(nodes)


def _prepared(backend: runtime.Backend, graph: Graph) -> Prepared:
    """Prepare a graph as core does, with a weight store of its own."""
    return backend.plugin.prepare(graph, backend.options, WeightStore())


def _run(
    bench: Bench, prepared: Prepared, control: RunControl | None = None, static: Container[str] = ()
) -> dict[str, Array]:
    """Run a prepared sample as core does.

    Args:
        bench: Knows the sample.
        prepared: What to run.
        control: By default one that never stops.
        static: Inputs that the graph has itself.
    """
    given, outputs = bench.feeds(), bench.outputs()
    inputs = {name: array for name, array in given.items() if name not in static}
    prepared.run(inputs, outputs, control or RunControl())
    return outputs


def _updateable(bench: Bench, schema: OpSchema, shift: int) -> Graph:
    """A copy of the sample's graph whose first input belongs to the graph, exchangeable."""
    made = bench.sample.graph(schema, f"updateable{shift}")
    name = min(bench.feeds())
    tensor = made.tensors[name]
    stored = bench.feeds(shift)[name]
    real = to_real(stored, tensor.spec) if tensor.dtype is DType.BFLOAT_16 else stored
    tensor.kind, tensor.data = TensorKind.UPDATEABLE_STATIC, pack(real, tensor.dtype)
    return made


def _refused_by_plugin(call: Callable[[], object]) -> None:
    """Demand that a backend's own method refuses, by any of the names there are for it."""
    try:
        call()
    except BackendError as error:
        demand(error.code.endswith(_UNSUPPORTED), f"refused with {error.code}: {error}")
        return
    except Exception as error:
        raise Failure(f"must be refused with a BackendError; raised {error!r}") from error
    raise Failure("must be refused, but went through")
