"""Where the graphs of a run come from: models, a cache of prepared graphs, or a context binary."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from dovetail.api import context_cache
from dovetail.api.preparation import Preparer
from dovetail.container import ContextFile, Model
from dovetail.errors import ConfigError
from dovetail.files import unreadable
from dovetail.ir import Array, Graph, Tensor, TensorKind
from dovetail.ir.copying import copy_tensor
from dovetail.ops import NOTHING, OpRegistry
from dovetail.runtime import Graph as PreparedGraph
from dovetail.runtime import SignalKind
from dovetail.runtime.compatibility import Verdict
from dovetail.runtime.context_binaries import enabled_graphs
from dovetail_tools._adapters import apply_adapter, apply_sections, use_encodings
from dovetail_tools._models import load_graphs, model_of
from dovetail_tools._net_run.jobs import Job
from dovetail_tools._net_run.request import Request
from dovetail_tools._preparation import prepare_models
from dovetail_tools._timings import Timings

_LOG = logging.getLogger("dovetail.net-run")
_SHARING = "weight_sharing_enabled"


class Source(Protocol):
    """The graphs of a run, before and after they are ready."""

    @property
    def graphs(self) -> Sequence[Graph]:
        """The graphs in order; their inputs and outputs at least."""

    def prepare(
        self, preparer: Preparer, jobs: Sequence[Job], timings: Mapping[str, Timings]
    ) -> tuple[PreparedGraph, ...]:
        """Return the graphs of jobs, ready to run, and record how long that took.

        Args:
            preparer: The backend and its config.
            jobs: The jobs.
            timings: Receive the times, by graph.

        Raises:
            DovetailError: A graph cannot be prepared.
        """


def source_of(request: Request, preparer: Preparer, ops: OpRegistry) -> Source:
    """Return the source of a request's graphs.

    Raises:
        DovetailError: A file cannot be read, or a model cannot be loaded; the config is for unknown
            graphs, or requests weight sharing for models.
    """
    if request.context is not None:
        return ContextSource(request, preparer, request.context)
    _require_no_sharing(preparer)
    if request.cache:
        return CachedSource(request, preparer, ops)
    graphs = load_graphs(
        request.models, ops, map_weights=request.map_weights, input_format=request.input_format
    )
    preparer.config.require_graphs(graph.name for _, graph in graphs)
    return ModelSource(request, tuple(graphs))


def _require_no_sharing(preparer: Preparer) -> None:
    """Raise if the config requests weight sharing, which graphs prepared in a run lack in the SDK.

    Raises:
        ConfigError: It does.
    """
    if getattr(preparer.config.context, _SHARING, False):  # a key of single backends
        raise ConfigError(
            "no weight sharing of models that are prepared in the run",
            where=f"context.{_SHARING}",
            hint="create a context binary with context-binary-generator and pass it as "
            "--retrieve-context, or remove the key; equal weights are stored once in any case",
        )


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Graphs of models, which are composed and finalized.

    Attributes:
        request: The request.
        pairs: The graphs in order, each with its model.
    """

    request: Request
    pairs: tuple[tuple[Model, Graph], ...]

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """See `Source.graphs`."""
        return tuple(graph for _, graph in self.pairs)

    def prepare(
        self, preparer: Preparer, jobs: Sequence[Job], timings: Mapping[str, Timings]
    ) -> tuple[PreparedGraph, ...]:
        """See `Source.prepare`."""
        outputs = {job.graph.name: tuple(job.files) for job in jobs}
        models = [model_of(model, g) for model, g in self.pairs if g.name in outputs]
        context = prepare_models(preparer, models, outputs, timings)
        if self.request.adapter is not None:
            adapter, config = self.request.adapter, self.request.adapter_config
            skipped = {graph.name for graph in self.graphs} - outputs.keys()
            use_encodings(jobs, apply_adapter(context, config, adapter, skipped))
        return tuple(context.graphs[job.graph.name] for job in jobs)


class CachedSource:
    """Graphs of models, which a folder keeps once they are finalized.

    Args:
        request: The request.
        preparer: The backend and its config.
        ops: The ops.

    Raises:
        DovetailError: A model cannot be loaded or prepared; the config is for unknown graphs.
    """

    def __init__(self, request: Request, preparer: Preparer, ops: OpRegistry) -> None:
        self._request = request
        self._start = time.perf_counter()
        self._profile = preparer.backend.create_profile()
        cache = context_cache.ContextCache(
            request.cache if isinstance(request.cache, Path) else None
        )
        self._context = cache.context(
            context_cache.Request(request.models, preparer, request.input_format, NOTHING),
            lambda: self._models(ops),
            lambda models: preparer.prepare(models, lambda g: g.finalize(self._profile)),
            self._profile,
        )
        self._took_s = time.perf_counter() - self._start
        preparer.config.require_graphs(self._context.graphs)

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """See `Source.graphs`; without nodes."""
        graphs = self._context.graphs.values()
        return tuple(_without_nodes(g.name, [*g.inputs, *g.outputs]) for g in graphs)

    def prepare(
        self, preparer: Preparer, jobs: Sequence[Job], timings: Mapping[str, Timings]
    ) -> tuple[PreparedGraph, ...]:
        """See `Source.prepare`; the graphs are ready before."""
        for i, job in enumerate(jobs):
            if not i:  # one cache entry has all of them
                timings[job.graph.name].take(self._profile)
            timings[job.graph.name].prepared(job.graph.name, self._start, self._took_s)
        self._profile.free()
        if self._request.adapter is not None:
            adapter, config = self._request.adapter, self._request.adapter_config
            use_encodings(jobs, apply_adapter(self._context, config, adapter))
        return tuple(self._context.graphs[job.graph.name] for job in jobs)

    def _models(self, ops: OpRegistry) -> list[Model]:
        request = self._request
        pairs = load_graphs(
            request.models, ops, map_weights=request.map_weights, input_format=request.input_format
        )
        return list({id(model): model for model, _ in pairs}.values())


class ContextSource:
    """Graphs of a context binary, which are restored.

    Args:
        request: The request.
        preparer: The backend and its config, which may enable some graphs only.
        path: The binary.

    Raises:
        FrontendError: The file cannot be read.
        ContainerError: It is damaged, is not a context binary, or does not suit the backend.
        ConfigError: The config is for unknown graphs.
    """

    def __init__(self, request: Request, preparer: Preparer, path: Path) -> None:
        self._request = request
        self._path = path
        preparer.backend.require("caching", "CONTEXT_ERROR_UNSUPPORTED_FEATURE")
        if request.retrieve_timeout_us is not None:
            preparer.backend.require("cancel", "SIGNAL_ERROR_UNSUPPORTED")
        if request.validates_binary:
            self._validate(preparer)
        file = ContextFile.open(path)
        preparer.config.require_graphs(file.graphs)
        names = enabled_graphs(file, preparer.config.context)
        self._graphs = tuple(_interface_of(file, name) for name in names)

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """See `Source.graphs`; without nodes."""
        return self._graphs

    def prepare(
        self, preparer: Preparer, jobs: Sequence[Job], timings: Mapping[str, Timings]
    ) -> tuple[PreparedGraph, ...]:
        """See `Source.prepare`."""
        backend, timeout_us = preparer.backend, self._request.retrieve_timeout_us
        signal = None
        if timeout_us is not None:
            signal = backend.create_signal(SignalKind.TIMEOUT, timeout_us)
        profile, start = backend.create_profile(), time.perf_counter()
        binary = self._path if self._request.map_weights else _content(self._path)
        context = preparer.load(binary, profile, signal)
        if self._request.adapter is not None:
            use_encodings(jobs, apply_sections(context, self._path, self._request.adapter))
        for i, job in enumerate(jobs):
            if not i:  # one call restores all of them
                timings[job.graph.name].take(profile)
            timings[job.graph.name].prepared(job.graph.name, start)
        profile.free()
        if signal is not None:
            signal.free()
        return tuple(context.graphs[job.graph.name] for job in jobs)

    def _validate(self, preparer: Preparer) -> None:
        """Check every byte of the binary, and whether its graphs run here."""
        found = preparer.validate(self._path)
        reasons = "; ".join(map(str, found.reasons))
        _LOG.info("%s is %s%s", self._path, found.verdict.name, reasons and f": {reasons}")
        is_strict = preparer.config.context.is_strict
        found.require(Verdict.OPTIMAL if is_strict else Verdict.USABLE, str(self._path))


def _interface_of(file: ContextFile, name: str) -> Graph:
    """Return a graph with the inputs and outputs that the application passes, and no nodes."""
    shared = file.graphs[name].shared
    inputs, outputs = file.interface(name)
    # inner tensors that became outputs are of another kind
    ends = [*inputs]
    ends += [t if t.kind.is_output else copy_tensor(t, TensorKind.APP_READ) for t in outputs]
    return _without_nodes(name, [tensor for tensor in ends if tensor.name not in shared])


def _without_nodes(name: str, ends: Iterable[Tensor]) -> Graph:
    """Return a graph of inputs and outputs alone."""
    graph = Graph(name)
    for tensor in ends:
        if tensor.name not in graph.tensors:
            graph.add_tensor(copy_tensor(tensor))
    return graph


def _content(path: Path) -> Array:
    """Return the bytes of a file, read-only."""
    try:
        content = np.fromfile(path, np.uint8)
    except OSError as error:
        raise unreadable(path, error) from error
    content.flags.writeable = False
    return content
