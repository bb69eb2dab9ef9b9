"""Backends that run plans of an engine's kernels, with contexts that store and restore them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from importlib.metadata import version
from typing import Any, ClassVar, NamedTuple

import msgspec

from dovetail import __version__
from dovetail.collecting import collection_paused
from dovetail.container import WeightStore
from dovetail.ir import EncodingKind
from dovetail.ops import CheckedGraph, OpRegistry
from dovetail.plugins import list_plugins
from dovetail.plugins.ops import not_installed
from dovetail.runtime.base import BackendBase, ContextBase
from dovetail.runtime.compatibility import KERNELS, OP_PACKAGE, option_facts
from dovetail.runtime.contract import (
    Capabilities,
    Fingerprint,
    Image,
    Options,
    Prepared,
    PrepareRequest,
    Restored,
)
from dovetail.runtime.interface import Interface
from dovetail.runtime.measurements import EventType, EventUnit, ProfileEvent
from dovetail.runtime.plan.arena import plan_arena
from dovetail.runtime.plan.builder import build_plan
from dovetail.runtime.plan.engine import CountStep, Engine
from dovetail.runtime.plan.images import PLAN_FORMAT, Blobs, PlanWriter
from dovetail.runtime.plan.kernels import KernelRegistry
from dovetail.runtime.plan.package_kernels import with_package_kernels
from dovetail.runtime.plan.prepared import OWN, THREADS, EnginePrepared
from dovetail.runtime.plan.recipes import RecipeError
from dovetail.runtime.plan.remaking import Remaker
from dovetail.runtime.plan.restoring import PlanReader

_MAX_THREADS = 1024


class Graphs(NamedTuple):
    """Functions that return a graph, and the one whose plan runs for it."""

    given: Callable[[], CheckedGraph]
    adapted: Callable[[], CheckedGraph]


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

    @property
    def threads(self) -> int:
        """Number of threads of graphs that are not small."""
        return self.num_threads or self.engine.threads

    def fingerprint(self, device: Any) -> Fingerprint:
        """Return versions, engine, threads, options, op packages and kernels."""
        added = not_installed(self.ops)
        if not added:
            return self._fingerprint
        own = {
            f"{OP_PACKAGE}{name}": f"{version}, not installed" for name, version in added.items()
        }
        return Fingerprint({**self._fingerprint.facts, **own})

    @cached_property
    def _fingerprint(self) -> Fingerprint:
        return Fingerprint(
            {
                "backend": self.name,
                "version": version(self.dist),
                "core": __version__,
                "engine": self.engine.name,
                "libraries": ", ".join(f"{dist} {version(dist)}" for dist in self.engine.dists),
                "threads": str(self.threads),
                "plan format": str(PLAN_FORMAT),
                **option_facts(self.options),
                **_plugins("dovetail.op_packages", "", OP_PACKAGE),
                **_plugins("dovetail.kernels", f"{self.engine.kernels.backend}:", KERNELS),
            }
        )

    def step_counter(self, device: Any, config: Any, graphs: Graphs | None) -> CountStep | None:
        """Return what counts quantities of steps for profiles; None for those of all backends.

        Args:
            device: Settings of the device.
            config: Settings of the graph.
            graphs: The graph; None if it was restored without its model.
        """
        return None

    def prepare(
        self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase
    ) -> Prepared:
        """Prepare a graph; see `BackendContext.prepare`.

        Raises:
            PluginError: Kernels of an op package, or the chosen engine, cannot be loaded.
        """
        engine, graphs = self.engine, _graphs(self, lambda: graph)
        adapted = graphs.adapted()
        threads = 1 if engine.is_for_one_thread(adapted) else self.threads
        remaker = Remaker(
            graphs.adapted, self.ops, self.kernels, context.weights, self.options, engine.reorder
        )
        with collection_paused(), self.computing(request.config, threads) as computing:
            plan = build_plan(
                adapted,
                self.kernels(adapted),
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
                threads=threads,
                engine=engine,
                count=self.step_counter(context.device, request.config, graphs),
                shares=shares,
                recorded=lambda: self.recorded(computing),
            )
            if engine.rehearses:
                prepared.rehearse()
            return prepared

    def adapted(self, graph: CheckedGraph) -> CheckedGraph:
        """Return the graph whose plan runs for a graph, with the same inputs and outputs."""
        return graph

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
    def computing(self, config: Any, threads: int) -> Iterator[AbstractContextManager[None]]:
        """Enter the context in which a graph is prepared, and return the one of its runs.

        Args:
            config: Settings of the graph.
            threads: Number of threads that compute the graph.
        """
        found = self.engine.computing(threads)
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

        Steps of NumPy are made again; a profile has their number.
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
        graphs = None if graph is None else _graphs(backend, functools.partial(graph, name))
        model = None if graphs is None else graphs.adapted
        reader = PlanReader(
            data, image.blobs, engine.builders, self.weights, backend.options, f"graph '{name}'"
        )
        # the graph's own number, whatever this machine has: primitives are for a number of threads
        threads = reader.data.settings.get(THREADS)
        if not isinstance(threads, int) or not 1 <= threads <= _MAX_THREADS:
            raise RecipeError(f"impossible number of threads {threads}", where=f"graph '{name}'")
        remaker = Remaker(
            model,
            backend.ops,
            backend.kernels,
            self.weights,
            backend.options,
            engine.reorder,
        )
        with backend.computing(request.config, threads) as computing:
            with reader.faults():
                backend.restored(computing, reader.data.settings.get(OWN) or {})
            plan, arena, interface = reader.plan(name, engine.reorder, remaker)
            with reader.faults():  # it allocates the arena and binds steps
                prepared = EnginePrepared(
                    plan,
                    arena,
                    remaker,
                    computing,
                    interface,
                    lambda: backend.fingerprint(self.device),
                    threads=threads,
                    engine=engine,
                    count=backend.step_counter(self.device, request.config, graphs),
                    shares=backend.shares(request.config),
                    recorded=lambda: backend.recorded(computing),
                    origin=(reader.data, image.blobs) if reader.data.updateable else None,
                )
            if engine.rehearses:
                prepared.rehearse()
        if request.record is not None:
            request.record(
                ProfileEvent(EventType.FINALIZE, "steps made again", remaker.count, EventUnit.COUNT)
            )
        return Restored(interface, prepared)


def _graphs(backend: PlanBackend, given: Callable[[], CheckedGraph]) -> Graphs:
    return Graphs(given, functools.cache(lambda: backend.adapted(given())))


def _plugins(group: str, prefix: str, fact: str) -> dict[str, str]:
    """Return the versions of the installed plugins of a group that begin like this, as facts."""
    found = [p for p in list_plugins(group) if p.name.startswith(prefix)]
    return {f"{fact}{p.name.removeprefix(prefix)}": p.version for p in found}
