"""Where the graphs of a run come from: models."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dovetail.api.preparation import Preparer
from dovetail.container import Model
from dovetail.ir import Graph
from dovetail.ops import OpRegistry
from dovetail.runtime import Graph as PreparedGraph
from dovetail_tools._jobs import Job
from dovetail_tools._models import load_graphs, model_of
from dovetail_tools._preparation import prepare_models
from dovetail_tools._request import Request
from dovetail_tools._timings import Timings

_LOG = logging.getLogger("dovetail.net-run")


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
            graphs.
    """
    graphs = load_graphs(
        request.models, ops, map_weights=request.map_weights, input_format=request.input_format
    )
    preparer.config.require_graphs(graph.name for _, graph in graphs)
    return ModelSource(tuple(graphs))


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Graphs of models, which are composed and finalized.

    Attributes:
        pairs: The graphs in order, each with its model.
    """

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
        return tuple(context.graphs[job.graph.name] for job in jobs)
