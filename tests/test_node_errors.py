"""Own and inherited errors of nodes of real networks on real backends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import dovetail as dt
from dovetail.api.node_runs import NodeRuns
from dovetail.errors import UnsupportedOpError
from dovetail.ir import Array, DType, Graph, Node, Tensor, TensorKind, copy_graph
from dovetail.plugins.verifiers import verifier
from dovetail.verification import Cause, NodeErrors, RunPair, node_errors

DIGITS = Path(__file__).parents[1] / "examples" / "digits"
SQNR = verifier("SQNR", {"threshold": 60})


@pytest.fixture(scope="module")
def graph() -> Graph:
    (found,) = dt.convert(DIGITS / "digits.onnx").graphs.values()
    return found


@pytest.fixture(scope="module")
def samples(graph: Graph) -> list[dict[str, Array]]:
    (tensor,) = graph.inputs
    images = np.load(DIGITS / "heldout.npz")["images"][:3]
    return [{tensor.name: image.reshape(tensor.shape).astype(np.float32)} for image in images]


@pytest.fixture(scope="module")
def reference() -> Iterator[NodeRuns]:
    with NodeRuns("cpu") as runs:
        yield runs


def own_causes(found: list[NodeErrors]) -> dict[str, Cause]:
    assert all(not each.missing and not each.failures for each in found)
    return {each.node.name: each.outputs[0].cause for each in found}


def test_two_equal_sides_have_no_errors(
    graph: Graph, samples: list[dict[str, Array]], reference: NodeRuns
) -> None:
    runs = [RunPair(reference.run(graph, each), reference.run(graph, each)) for each in samples]
    found = list(node_errors(graph, runs, reference.run_node, verifier("SQNR", {"threshold": 100})))
    assert set(own_causes(found).values()) == {Cause.NONE}
    assert len(found) == len(graph.nodes)


@pytest.mark.parametrize("whole", [True, False])
def test_a_planted_fault_is_the_only_own_error(
    graph: Graph, samples: list[dict[str, Array]], reference: NodeRuns, whole: bool
) -> None:
    bad = copy_graph(graph)
    weighted = [n for n in bad.nodes if any(t is not None and t.kind.is_static for t in n.inputs)]
    node = weighted[len(weighted) // 2]
    weights = next(t for t in node.inputs if t is not None and t.kind.is_static)
    spoilt = Tensor.static(weights.name + "_spoilt", weights.values() * np.float32(1.25))
    bad.add_tensor(spoilt)
    bad.set_inputs(node, [spoilt if t is weights else t for t in node.inputs])
    runs = [
        RunPair(reference.run(graph, each), reference.run(bad, each) if whole else None)
        for each in samples
    ]
    causes = own_causes(list(node_errors(bad, runs, reference.run_node, SQNR)))
    assert [name for name, cause in causes.items() if cause is Cause.OWN] == [node.name]
    later = [n.name for n in bad.nodes][[n.name for n in bad.nodes].index(node.name) + 1 :]
    assert later
    assert {causes[name] for name in later} == {Cause.INHERITED}


@pytest.fixture(scope="module")
def quantized(samples: list[dict[str, Array]]) -> Graph:
    model = dt.quantize(dt.convert(DIGITS / "digits.onnx"), calibration=samples)
    (found,) = model.graphs.values()
    return found


def test_nodes_of_a_quantized_network_differ_by_a_step_at_most(
    quantized: Graph, samples: list[dict[str, Array]]
) -> None:
    # The tensors' own grids may be finer than that of the values, and two roundings differ by one.
    steps = verifier("AdjustedRtolAtol", {"levels_num": 255, "threshold": 2})
    simulated = {"quantized": "simulate"}
    with NodeRuns("cpu", options=simulated) as cpu, NodeRuns("htp") as htp:
        runs = [RunPair(cpu.run(quantized, x), htp.run(quantized, x)) for x in samples]
        found = list(node_errors(quantized, runs, htp.run_node, steps))
    assert Cause.OWN not in own_causes(found).values()


def test_rounding_errors_of_a_quantized_network_add_up(
    graph: Graph, quantized: Graph, samples: list[dict[str, Array]], reference: NodeRuns
) -> None:
    (output,) = quantized.outputs
    with NodeRuns("htp") as target:
        runs = [
            RunPair(reference.run(graph, each), target.run(quantized, each)) for each in samples
        ]
        found = list(node_errors(quantized, runs, target.run_node, verifier("SQNR")))
    errors = next(o for each in found for o in each.outputs if o.tensor is output)
    assert errors.own is not None
    assert errors.total is not None
    assert 15 < errors.total.value < errors.own.value


def test_a_node_that_the_backend_does_not_run_is_a_failure(reference: NodeRuns) -> None:
    graph = Graph("odd")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2,), TensorKind.APP_WRITE))
    y = graph.add_tensor(Tensor("y", DType.FLOAT_32, (2,), TensorKind.APP_READ))
    graph.add_node(Node("n", "no.such.package", "Odd", [x], [y]))
    runs = [RunPair({"x": np.zeros(2, np.float32), "y": np.zeros(2, np.float32)})]
    (found,) = node_errors(graph, runs, reference.run_node, SQNR)
    assert [type(failure) for failure in found.failures] == [UnsupportedOpError]
    assert found.outputs[0].cause is Cause.UNKNOWN


def test_a_node_that_reads_a_tensor_twice_runs_alone(reference: NodeRuns) -> None:
    graph = Graph("square")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2,), TensorKind.APP_WRITE))
    y = graph.add_tensor(Tensor("y", DType.FLOAT_32, (2,), TensorKind.APP_READ))
    node = graph.add_node(Node("n", "qti.aisw", "ElementWiseMultiply", [x, x], [y]))
    given = {"x": np.array([2, -3], np.float32)}
    assert reference.run_node(node, given)["y"].tolist() == [4, 9]
    assert reference.run(graph, given)["y"].tolist() == [4, 9]
