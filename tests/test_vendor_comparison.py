"""The comparison with the vendor's simulator, as far as it goes without the simulator.

ONNX Runtime on the processor takes its part: it runs the same exported files.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import forked
import numpy as np
import pytest
from benchmarks.vendor import summary
from benchmarks.vendor.comparison import compare
from benchmarks.vendor.summary import NetworkResult, NodeResult
from benchmarks.vendor.tensors import Stored, export_exposed
from runtime import peer_session
from trained import INPUT, TRAINED, calibration

import dovetail as dt
from dovetail.ir import Array, Graph

ROOT = Path(__file__).parents[1]
IMAGES = calibration(10)[:, None]


def quantized(name: str, **options: object) -> Graph:
    model = dt.quantize(dt.convert(TRAINED[name].path), IMAGES, bias_bitwidth=32, **options)
    (graph,) = model.graphs.values()
    return graph


def integers_of_peer(graph: Graph, path: Path) -> dict[str, Array]:
    """What ONNX Runtime computes for each quantized tensor, as our tensor stores it."""
    exposed = export_exposed(graph, path)
    session = peer_session(path)
    found = dict(
        zip(
            [output.name for output in session.get_outputs()],
            session.run(None, {INPUT: IMAGES[0]}),
            strict=True,
        )
    )
    return {
        name: stored.ours(np.asarray(found[stored.value]), graph.tensors[name])[None]
        for name, stored in exposed.items()
    }


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("digits", {"use_per_channel_quantization": True}),
        ("digits", {"act_quantizer_schema": "symmetric"}),  # signed, which the file has unsigned
        ("attention", {"use_per_row_quantization": True}),
        ("digits", {"act_bitwidth": 16}),
    ],
)
def test_each_node_is_compared_in_our_order_of_axes(
    tmp_path: Path, name: str, options: dict[str, object]
) -> None:
    graph = quantized(name, **options)
    results = list(compare(graph, integers_of_peer(graph, tmp_path / "net.onnx")))
    assert len(results) == len(graph.nodes)
    for each in results:
        assert each.counts, each.name  # every tensor is in the file
        # float32 kernels there, in another order: now and then the step next to ours
        assert len(each.counts) <= 2, each
        assert each.counts[0] >= 0.9 * sum(each.counts), each


def test_a_wrong_result_and_a_hidden_tensor_are_seen(tmp_path: Path) -> None:
    graph = quantized("digits")
    theirs = integers_of_peer(graph, tmp_path / "net.onnx")
    pool = next(node for node in graph.nodes if node.op_type == "PoolMax2d")
    (out,) = pool.outputs
    changed = theirs[out.name].astype(np.int64)
    changed[..., 0] += 3
    theirs[out.name] = changed
    hidden = graph.nodes[-1].outputs[0].name
    del theirs[hidden]
    results = {each.name: each for each in compare(graph, theirs)}
    found = results[pool.name]
    channels = changed.shape[-1]
    assert found.counts[3] == changed.size // channels
    assert found.mean == pytest.approx(3 / channels)
    assert results[graph.nodes[-1].name].counts == ()
    assert f"net: {graph.nodes[-1].name}" in summary.gaps({"net": list(results.values())})[-1]


def test_integers_return_to_our_axes_and_type() -> None:
    graph = quantized("digits", act_quantizer_schema="symmetric")
    tensor = next(t for t in graph.tensors.values() if t.name == "block1/add")
    ours = np.arange(np.prod(tensor.shape)).reshape(tensor.shape) % 256 - 128
    stored = Stored("v", ((0, 2, 3, 1),), 128)
    theirs = (ours + 128).astype(np.uint8).transpose(0, 3, 1, 2)
    found = stored.ours(theirs, tensor)
    assert found.dtype == np.int8
    np.testing.assert_array_equal(found, ours)


def node(
    op_type: str, counts: tuple[int, ...], mean: float, source: str = "definition"
) -> NodeResult:
    return NodeResult("n", op_type, ("UFIXED_POINT_8",), source, counts, mean)


def test_rows_sum_over_networks_and_targets_over_types() -> None:
    nodes = {
        "a": [node("Relu", (90, 10), 0.1), node("Softmax", (), 0)],
        "b": [node("Relu", (95, 2, 3), -0.05, "simulation")],
    }
    (row,) = summary.op_rows(nodes)
    assert (row.counts, row.nodes, row.sources) == ((185, 12, 3), 2, ("definition", "simulation"))
    assert row.mean == pytest.approx(0.025)
    assert (row.within(0), row.within(1)) == (92.5, 98.5)
    ran = NetworkResult(
        ours_db=30, theirs_db=30.6, ours_right=9, theirs_right=10, same_top=9, images=10,
        ours_ms=1, theirs_ms=200,
    )  # fmt: skip
    missed = [t for t in summary.targets([row], {"a": ran}, 2, 1) if not t.is_met]
    assert [t.measured for t in missed] == pytest.approx([2, 0, 98.5, -0.6, 1])
    assert all(t.is_met for t in summary.targets([row], {}, 5, 2))
    assert summary.gaps(nodes)[0] == "no integer definition: Relu"
    assert "200" in summary.network_table({"a": ran}).splitlines()[-1]
    assert math.isclose(float(summary.op_table([row], 1).splitlines()[-1].split()[-3]), 98.5)


@pytest.mark.parametrize("python", ["/nowhere/python", sys.executable])
def test_without_the_simulator_nothing_passes(python: str) -> None:
    """The environment of the tests has no onnxruntime-qnn."""
    command = ["python", "-m", "benchmarks.vendor", "--python", python]
    done = forked.run(command, ROOT)
    assert done.returncode == 77
    assert done.stdout.startswith("SKIPPED, nothing was compared: ")
    assert "does not exist" in done.stdout or "onnxruntime-qnn cannot run" in done.stdout


def test_the_driver_refuses_networks_that_it_lacks() -> None:
    done = forked.run(["python", "-m", "benchmarks.vendor", "--networks", "digit"], ROOT)
    assert done.returncode == 2
    assert "did you mean digits" in done.stderr
