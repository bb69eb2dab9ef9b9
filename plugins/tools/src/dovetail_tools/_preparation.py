"""Preparation of models, with its times."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from dovetail.api.preparation import Preparer
from dovetail.container import Model
from dovetail.runtime import Context, Graph, ProfileLevel
from dovetail_tools._timings import Timings


def prepare_models(
    preparer: Preparer,
    models: Sequence[Model],
    outputs: Mapping[str, Sequence[str]],
    timings: Mapping[str, Timings],
    level: int = ProfileLevel.BASIC,
) -> Context:
    """Return a context with the graphs of models, finalized, and record how long that took.

    Args:
        preparer: The backend and its config.
        models: The models.
        outputs: Names of the tensors of each graph that become outputs, among others.
        timings: Receive the times, by graph.
        level: Level of the profiles.

    Raises:
        DovetailError: A graph has faults, or the backend does not run it.
    """
    start = time.perf_counter()

    def finalize(graph: Graph) -> None:
        nonlocal start
        profile = preparer.backend.create_profile(level)
        known = graph.interface.outputs  # built anew at each use
        added = [n for n in outputs.get(graph.name, ()) if n not in known]
        graph.finalize(profile, outputs=added)
        timings[graph.name].take(profile)
        profile.free()
        timings[graph.name].prepared(graph.name, start)
        start = time.perf_counter()

    return preparer.prepare(models, finalize)
