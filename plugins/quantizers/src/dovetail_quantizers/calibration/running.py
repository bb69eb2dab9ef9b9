"""Runs of a graph that show inner tensors, and of a single node, on any backend."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from dovetail.container import Model, Producer
from dovetail.ir import Array, Graph, Node, Spec, copy_graph
from dovetail.ops import OpRegistry, from_real, to_real
from dovetail.runtime import Backend
from dovetail.runtime.plan.dequantized import real_graph

# Runs once; the returned arrays are valid until the next run.
Runner = Callable[[Mapping[str, Array]], dict[str, Array]]
# Runs one node on real values of its inputs by number; the outputs are new arrays.
NodeRunner = Callable[[Mapping[int, Array]], list[Array]]


@contextmanager
def runner(
    graph: Graph, ops: OpRegistry, backend: str, watched: Collection[str]
) -> Iterator[Runner]:
    """Yield a function that runs a graph and returns stored values of tensors by name.

    The watched tensors become outputs of a copy of the graph, so any backend can show them, even
    if it fuses ops. Their buffers are allocated once. Inputs are returned, too.

    Raises:
        DovetailError: The backend is missing, or cannot run the graph.
    """
    copy = copy_graph(graph, outputs=watched)
    producer = Producer("dovetail-quantizers", "0")
    with Backend.create(backend, None, ops) as handle:
        context = handle.create_context()
        (made,) = context.compose(Model.of(copy, producer=producer, registry=ops))
        made.finalize()
        buffers = {t.name: np.empty(t.shape, t.dtype.storage) for t in copy.outputs}

        def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
            outputs = made.execute(inputs, buffers)
            return {**inputs, **outputs}

        yield run


@contextmanager
def node_runner(
    node: Node, fixed: Mapping[int, Array], ops: OpRegistry, backend: str
) -> Iterator[NodeRunner]:
    """Yield a function that runs one node on real values.

    Args:
        node: The node, with the types and shapes of its tensors.
        fixed: Values of inputs that are the same in each run, by number.
        ops: Finds its op.
        backend: Name of the backend.
    """
    graph = real_graph(node, fixed)
    numbers = {t.name: i for i, t in enumerate(graph.nodes[0].inputs) if t is not None}
    with runner(graph, ops, backend, ()) as run:

        def run_node(inputs: Mapping[int, Array]) -> list[Array]:
            given = {
                t.name: np.asarray(from_real(inputs[numbers[t.name]], t.spec), order="C")
                for t in graph.inputs
            }
            shown = run(given)
            return [np.array(to_real(shown[t.name], t.spec)) for t in graph.outputs]

        yield run_node


def inputs_for(
    graph: Graph, sample: Mapping[str, Array], specs: Mapping[str, Spec]
) -> dict[str, Array]:
    """Return a sample as a quantized graph stores it.

    Args:
        graph: The quantized graph.
        sample: Stored values of the float graph's inputs, by name.
        specs: Types and encodings of these inputs.
    """
    return {
        t.name: np.asarray(from_real(to_real(sample[t.name], specs[t.name]), t.spec), order="C")
        for t in graph.inputs
    }


def over(run: Runner, samples: Iterable[Mapping[str, Array]]) -> Iterator[dict[str, Array]]:
    """Yield the results of each sample's run; arrays are valid until the next run."""
    for sample in samples:
        yield run(sample)
