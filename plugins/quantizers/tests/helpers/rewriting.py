"""Letting one algorithm rewrite a float graph, without quantizing it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from quantizing import model_of

import dovetail as dt
from dovetail.ir import Array, Graph, copy_graph
from dovetail.ops import find_op_faults
from dovetail.plugins.ops import installed_ops
from dovetail.quantization import QuantizationAlgorithm, QuantizationOptions, Workspace
from dovetail_quantizers.refinement.statistics import gather


def rewritten(
    graph: Graph, samples: Sequence[Any], algorithm: QuantizationAlgorithm, **options: Any
) -> tuple[Graph, list[str]]:
    """Return a copy of a graph as an algorithm rewrites it, and the algorithm's notes."""
    work, ops = copy_graph(graph), installed_ops()
    seen = gather(work, samples, tuple(algorithm.observe(work, ops)), ops, "cpu")
    notes = algorithm.rewrite(Workspace(work, ops, QuantizationOptions(**options), seen))
    assert not find_op_faults(work, ops)
    return work, list(notes)


def outputs(graph: Graph, samples: Sequence[Any]) -> Array:
    """Return what a graph of one output computes of each sample, (samples, ...)."""
    (name,) = (t.name for t in graph.outputs)
    (read,) = (t.name for t in graph.inputs)
    with dt.Session(model_of(graph)) as session:
        return np.stack([session.run({read: sample})[name] for sample in samples])


def assert_same_function(one: Graph, other: Graph, samples: Sequence[Any]) -> None:
    """Check that two graphs compute the same, but for the rounding of float32 sums."""
    wanted, got = outputs(one, samples), outputs(other, samples)
    assert np.abs(wanted).max() > 0
    # each weight is rounded anew, to 6e-8 of it; sums of some hundred terms cancel in part
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())
