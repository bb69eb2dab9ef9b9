"""Backends that run plans of an engine's kernels, with contexts that store and restore them."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any, ClassVar

import msgspec
import numpy as np

from dovetail import __version__
from dovetail.container import WeightStore
from dovetail.ir import Array, EncodingKind, Tensor
from dovetail.ops import CheckedGraph, OpRegistry
from dovetail.plugins import list_plugins
from dovetail.runtime.base import BackendBase, ContextBase
from dovetail.runtime.contract import (
    Binding,
    Capabilities,
    Done,
    Fingerprint,
    Image,
    Options,
    Prepared,
    PrepareRequest,
    Restored,
    RunControl,
)
from dovetail.runtime.interface import Interface
from dovetail.runtime.measurements import Counter, EventType, EventUnit, ProfileEvent
from dovetail.runtime.plan.arena import Arena, plan_arena
from dovetail.runtime.plan.binds import PLAN_BUILDERS
from dovetail.runtime.plan.builder import Plan, Reorder, build_plan
from dovetail.runtime.plan.collecting import collection_paused
from dovetail.runtime.plan.executor import PlanPrepared
from dovetail.runtime.plan.images import PLAN_FORMAT, Blobs, PlanData, PlanWriter, RecordLayout
from dovetail.runtime.plan.kernels import KernelRegistry
from dovetail.runtime.plan.overlap import OverlappedRuns
from dovetail.runtime.plan.package_kernels import with_package_kernels
from dovetail.runtime.plan.recipes import Builders, RecipeError
from dovetail.runtime.plan.remaking import Remaker
from dovetail.runtime.plan.restoring import PlanReader
from dovetail.runtime.plan.sections import apply_section, section_of
from dovetail.runtime.plan.values import Step

# Number of elements in NumPy's buffers, which it fills where the rows of operands are short. It
# allocates them at every call: at its default of 8192 they cost more than they save.
_BUFFER = 1024
_ONE_THREAD = "one_thread"
_OWN = "own"  # the backend's


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine's kernels.

    Attributes:
        kernels: The kernels, registered for the backend.
        reorder: Converts between their layouts; None if there is only one.
        computing: Returns the context in which a graph is prepared and run, once at a time, by a
            number of threads; None is one for each processor.
        is_for_one_thread: Returns whether a graph has so little work that one thread computes it.
        builders: Builders of its recorded steps.
        record_layout: Records its layouts.
        name: Its name, version and instruction set.
        threads: Number of threads by default.
        dists: Names of the dists of its kernels; plans depend on their versions.
        settle: Waits for the calls made so far; see `PlanPrepared.settle`.
        begin: Called at the begin of each run, for calls that only begin work: its control ends
            waits for them.
        lane: Returns a context like that of a graph, for runs of the graph that overlap; None if
            runs do not overlap. Steps of such an engine keep nothing from one run to the next.
        rehearses: Whether a graph runs once when it is prepared: some drivers compile a program
            when it is first called.
    """

    kernels: KernelRegistry
    reorder: Reorder | None = None
    computing: Callable[[int | None], AbstractContextManager[None]] = lambda _: nullcontext()
    is_for_one_thread: Callable[[CheckedGraph], bool] = lambda _: False
    builders: Builders = PLAN_BUILDERS
    record_layout: RecordLayout | None = None
    name: str = "numpy"
    threads: int = 1
    dists: tuple[str, ...] = ()
    settle: Callable[[], float | None] = lambda: None
    begin: Callable[[RunControl], None] | None = None
    lane: Callable[[Any], AbstractContextManager[None]] | None = None
    rehearses: bool = False


# Returns the counters of a step that has run; the second argument returns what it wrote, by name.
CountStep = Callable[[Step, Callable[[], Mapping[str, Array]]], tuple[Counter, ...]]


class PlanBackend(BackendBase):
    """A backend whose graphs are plans of an engine's kernels.

    A subclass validates nodes. If its plans depend on more than `fingerprint` states, it adds that.

    Args:
        ops: The op registry of the handle.
        options: Its options.
        engine: Its kernels.

    Attributes:
        dist: Name of the dist that provides the backend.
        engine: The same.
        num_threads: Maximum number of threads; None is one for each processor.
        shares_memory: Whether tensors that are not in use at the same time share memory.
    """

    dist: ClassVar[str]
    num_threads: int | None = None
    shares_memory: bool = True

    def __init__(self, ops: OpRegistry, options: Options, engine: Engine) -> None:
        super().__init__(ops, options)
        self.engine = engine

    def capabilities(self) -> Capabilities:
        """Return what plans can do; they convert every encoding but those of vectors."""
        return Capabilities(
            op_packages=True,
            caching=True,
            cancel=True,
            watch=True,
            asynchronous=True,
            priority=True,
            updates=True,
            memory_handles=True,
            encodings=frozenset(EncodingKind) - {EncodingKind.VECTOR},
        )

    def fingerprint(self, device: Any) -> Fingerprint:
        """Return versions, engine, threads, options, op packages and kernels."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> Fingerprint:
        return Fingerprint(
            {
                "backend": self.name,
                "version": version(self.dist),
                "core": __version__,
                "engine": self.engine.name,
                "libraries": ", ".join(f"{dist} {version(dist)}" for dist in self.engine.dists),
                "threads": str(self.num_threads or self.engine.threads),
                "options": msgspec.json.encode(self.options, order="sorted").decode(),
                "op packages": _plugins("dovetail.op_packages", ""),
                "kernels": _plugins("dovetail.kernels", f"{self.engine.kernels.backend}:"),
                "plan format": str(PLAN_FORMAT),
            }
        )

    def step_counter(
        self, device: Any, config: Any, graph: Callable[[], CheckedGraph] | None
    ) -> CountStep | None:
        """Return what counts quantities of steps for profiles; None for those of all backends.

        Args:
            device: Settings of the device.
            config: Settings of the graph.
            graph: Returns the graph; None if it was restored without its model.
        """
        return None

    def prepare(
        self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase
    ) -> Prepared:
        """Prepare a graph; see `BackendContext.prepare`.

        Raises:
            PluginError: Kernels of an op package, or the chosen engine, cannot be loaded.
        """
        engine = self.engine
        is_small = engine.is_for_one_thread(graph)
        remaker = Remaker(
            lambda: graph, self.kernels, context.weights, self.options, engine.reorder
        )
        with collection_paused(), self.computing(request.config, one_thread=is_small) as computing:
            plan = build_plan(
                graph,
                self.kernels(graph),
                context.weights,
                self.options,
                reorder=engine.reorder,
                control=request.control,
            )
            remaker.follow(plan)
            shares = self.shares(request.config)
            arena = plan_arena(plan.steps, shares=shares)
            if request.record is not None:
                size, count = sum(arena.sizes.values()), len(plan.steps)
                request.record(ProfileEvent(EventType.BACKEND, "arena", size, EventUnit.BYTES))
                request.record(ProfileEvent(EventType.BACKEND, "steps", count, EventUnit.COUNT))
            interface = Interface.of(graph.name, graph.inputs, graph.outputs)
            prepared = EnginePrepared(
                plan,
                arena,
                remaker,
                computing,
                interface,
                lambda: self.fingerprint(context.device),
                one_thread=is_small,
                engine=engine,
                count=self.step_counter(context.device, request.config, lambda: graph),
                shares=shares,
                recorded=lambda: self.recorded(computing),
            )
            if engine.rehearses:
                prepared.rehearse()
            return prepared

    def shares(self, config: Any) -> bool:
        """Return whether tensors of a graph share memory that are not in use at the same time.

        Args:
            config: Settings of the graph.
        """
        return self.shares_memory

    def recorded(self, computing: Any) -> dict[str, Any]:
        """Return what an image keeps of a graph besides its plan, of JSON types.

        Args:
            computing: The context in which the graph was prepared.
        """
        return {}

    def restored(self, computing: Any, recorded: Mapping[str, Any]) -> None:
        """Take back what an image keeps of a graph, before its steps are made again.

        Args:
            computing: The context in which the graph is restored.
            recorded: From `recorded`, perhaps of another process; nothing in it can be trusted.

        Raises:
            ContainerError: It is damaged, or does not match the settings of the graph.
        """

    def kernels(self, graph: CheckedGraph) -> KernelRegistry:
        """Return the kernels for a graph.

        Raises:
            PluginError: Kernels of an op package cannot be loaded.
        """
        return with_package_kernels(self.engine.kernels, graph.packages, self.ops)

    @contextmanager
    def computing(self, config: Any, *, one_thread: bool) -> Iterator[AbstractContextManager[None]]:
        """Enter the context in which a graph is prepared, and return the one of its runs.

        Args:
            config: Settings of the graph.
            one_thread: Whether one thread computes the graph.
        """
        found = self.engine.computing(1 if one_thread else self.num_threads)
        with found:
            yield found

    def open_context(self, device: Any, config: Any, weights: WeightStore) -> PlanContext:
        """Return a context, which stores and restores its graphs."""
        return PlanContext(self, device, config, weights)


class PlanContext(ContextBase):
    """Prepares graphs, and stores and restores them."""

    backend: PlanBackend

    def image(self, graphs: Mapping[str, Prepared]) -> Image:
        """Return prepared graphs as data; see `BackendContext.image`."""
        blobs = Blobs()
        plans = {}
        for name, prepared in graphs.items():
            if not isinstance(prepared, EnginePrepared):
                raise AssertionError(f"graph '{name}' is of another backend")
            writer = PlanWriter(self.backend.engine.record_layout, blobs)
            plan = prepared.recorded(writer)
            plans[name] = msgspec.json.decode(msgspec.json.encode(plan))  # of JSON types
        return Image(self.backend.fingerprint(self.device), plans, blobs.found)

    def restore(
        self,
        image: Image,
        graph: Callable[[str], CheckedGraph] | None,
        request: Callable[[str], PrepareRequest],
    ) -> Mapping[str, Restored]:
        """Return the graphs of an image; see `BackendContext.restore`.

        Steps of NumPy are made again, which needs the model; a profile has their number.
        """
        image.require(self.backend.fingerprint(self.device))
        with collection_paused():
            return {
                name: self._restored(name, data, image, graph, request(name))
                for name, data in image.graphs.items()
            }

    def _restored(
        self,
        name: str,
        data: object,
        image: Image,
        graph: Callable[[str], CheckedGraph] | None,
        request: PrepareRequest,
    ) -> Restored:
        backend, engine = self.backend, self.backend.engine
        model = None if graph is None else lambda: graph(name)
        reader = PlanReader(
            data, image.blobs, engine.builders, self.weights, backend.options, f"graph '{name}'"
        )
        one_thread = reader.data.settings.get(_ONE_THREAD)
        if not isinstance(one_thread, bool):
            raise RecipeError("the number of threads is missing", where=f"graph '{name}'")
        remaker = Remaker(
            model,
            backend.kernels,
            self.weights,
            backend.options,
            engine.reorder,
        )
        with backend.computing(request.config, one_thread=one_thread) as computing:
            with reader.faults():
                backend.restored(computing, reader.data.settings.get(_OWN) or {})
            plan, arena, interface = reader.plan(name, engine.reorder, remaker)
            with reader.faults():  # it allocates the arena and binds steps
                prepared = EnginePrepared(
                    plan,
                    arena,
                    remaker,
                    computing,
                    interface,
                    lambda: backend.fingerprint(self.device),
                    one_thread=one_thread,
                    engine=engine,
                    count=backend.step_counter(self.device, request.config, model),
                    shares=backend.shares(request.config),
                    recorded=lambda: backend.recorded(computing),
                )
            if engine.rehearses:
                prepared.rehearse()
        if request.record is not None:
            request.record(
                ProfileEvent(EventType.FINALIZE, "steps made again", remaker.count, EventUnit.COUNT)
            )
        return Restored(interface, prepared)


class EnginePrepared(PlanPrepared):
    """A plan of kernels.

    Args:
        plan: The plan.
        arena: The positions of its values.
        remaker: Makes its steps again; None if it is not updated.
        computing: Entered around each run.
        interface: Inputs and outputs of its graph.
        fingerprint: Returns what it depends on.
        one_thread: Whether one thread computes it.
        engine: Its engine.
        count: Counts quantities of its steps; None for those of all backends.
        shares: Whether its tensors share memory.
        recorded: Returns what an image keeps besides the plan; see `PlanBackend.recorded`.
    """

    def __init__(
        self,
        plan: Plan,
        arena: Arena,
        remaker: Remaker | None,
        computing: AbstractContextManager[None],
        interface: Interface,
        fingerprint: Callable[[], Fingerprint],
        *,
        one_thread: bool,
        engine: Engine,
        count: CountStep | None = None,
        shares: bool = True,
        recorded: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self._fingerprint = fingerprint
        self._count = count
        self._recorded = recorded
        self._computing = computing
        self._engine = engine
        lane = engine.lane
        self._overlapped = None if lane is None else OverlappedRuns(lambda: self._lane(lane))
        self.interface = interface
        self.one_thread = one_thread
        # NumPy's settings belong to the context: entering it is faster than setting them each run
        self._settings = contextvars.copy_context()
        self._settings.run(_set_numpy)
        super().__init__(plan, shares=shares, arena=arena, remaker=remaker)

    def run(
        self, inputs: Mapping[str, Binding], outputs: Mapping[str, Binding], control: RunControl
    ) -> None:
        """Execute the plan once; infinities and NaN are results and raise no warnings."""
        with self._computing:
            if self._engine.begin is not None:
                self._engine.begin(control)
            self._settings.run(PlanPrepared.run, self, inputs, outputs, control)

    def rehearse(self) -> None:
        """Run once on zeros, and keep nothing of it."""
        inputs, outputs = (
            {
                name: np.zeros(end.tensor.shape, end.tensor.dtype.storage)
                for name, end in ends.items()
            }
            for ends in (self.interface.inputs, self.interface.outputs)
        )
        self.run(inputs, outputs, RunControl())
        self.unbind()

    def submit(
        self,
        inputs: Mapping[str, Binding],
        outputs: Mapping[str, Binding],
        control: RunControl,
        done: Done,
    ) -> None:
        """Begin an execution; see `Prepared.submit`."""
        if self._overlapped is None:
            super().submit(inputs, outputs, control, done)
        else:
            self._overlapped.submit(inputs, outputs, control, done)

    def close(self) -> None:
        """End its threads; see `Prepared.close`."""
        if self._overlapped is not None:
            self._overlapped.close()

    def _lane(self, lane: Callable[[Any], AbstractContextManager[None]]) -> EnginePrepared:
        """Return the same plan with buffers and a context of its own."""
        computing = lane(self._computing)
        with computing:
            return EnginePrepared(
                self.plan,
                self.arena,
                None,
                computing,
                self.interface,
                self._fingerprint,
                one_thread=self.one_thread,
                engine=self._engine,
                count=self._count,
            )

    def update(self, tensors: Sequence[Tensor]) -> None:
        """Use other data or encodings of tensors; see `Prepared.update`."""
        with self._changing():
            super().update(tensors)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Enter the context in which steps are made again, for all runs that follow."""
        with self._computing:
            yield
        if self._overlapped is not None:
            self._overlapped.forget()

    def settle(self) -> float | None:
        """Wait for the calls made so far; see `PlanPrepared.settle`."""
        return self._engine.settle()

    def counters(self, step: Step) -> tuple[Counter, ...]:
        """Return quantities of a step that has run, for profiles."""
        if self._count is None:
            return super().counters(step)
        return self._count(step, lambda: self._written(step))

    def section(self, base: Prepared | None) -> Image:
        """Return its updateable tensors; see `Prepared.section`."""
        if base is not None and not isinstance(base, EnginePrepared):
            raise AssertionError("the base of a section is of another backend")
        blobs = Blobs()
        with self._computing:
            data = msgspec.to_builtins(section_of(self, base, blobs))
        plain = msgspec.json.decode(msgspec.json.encode(data))
        return Image(self._fingerprint(), {self.interface.graph: plain}, blobs.found)

    def apply(self, section: Image) -> None:
        """Use the updateable tensors of a section; see `Prepared.apply`."""
        section.require(self._fingerprint())
        name = self.interface.graph
        if name not in section.graphs:
            raise RecipeError(f"the section has no graph '{name}'")
        with self._changing():
            apply_section(self, section.graphs[name], section.blobs, f"section of graph '{name}'")

    def recorded(self, writer: PlanWriter) -> PlanData:
        """Return its plan as data."""
        settings: dict[str, Any] = {_ONE_THREAD: self.one_thread}
        if own := self._recorded():
            settings[_OWN] = own
        model = "" if self.remaker is None else self.remaker.model
        return writer.record(self.plan, self.arena, self.interface, model, settings)


def _set_numpy() -> None:
    np.seterr(all="ignore")
    np.setbufsize(_BUFFER)


def _plugins(group: str, prefix: str) -> str:
    """Return names and versions of the installed plugins of a group that begin like this."""
    found = (p for p in list_plugins(group) if p.name.startswith(prefix))
    return ", ".join(sorted(f"{p.name} {p.version}" for p in found))
