"""Fused nodes have the same results as single ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.ir import DType, Graph, Tensor, TensorKind
from dovetail_opset.build import add, static

TAILS = ("relu", "clip", "neuron-relu", "neuron-clip", "add", "add-swapped")


def head(graph, whole, op_type, x):
    """Add a node with a matrix product in it; x: (2, 6, 5, 4)."""
    square = {"stride": (1, 1), "pad_amount": [[1, 1], [1, 1]]}
    if op_type == "Conv2d":
        inputs = [static(graph, "w", whole(1, 3, 3, 4, 4)), static(graph, "b", whole(2, 4))]
        return add(graph, "Conv2d", [x, *inputs], name="head", **square)
    if op_type == "pointwise":
        params = {"stride": (1, 1), "pad_amount": [[0, 0], [0, 0]]}
        inputs = [static(graph, "w", whole(1, 1, 1, 4, 4)), static(graph, "b", whole(2, 4))]
        return add(graph, "Conv2d", [x, *inputs], name="head", **params)
    if op_type == "DepthWiseConv2d":
        inputs = [static(graph, "w", whole(1, 3, 3, 1, 4)), static(graph, "b", whole(2, 4))]
        return add(graph, op_type, [x, *inputs], name="head", **square)
    inputs = [static(graph, "w", whole(1, 4, 4)), static(graph, "b", whole(2, 4))]
    params = {"keep_dims": True} if op_type == "FullyConnected" else {}
    return add(graph, op_type, [x, *inputs], name="head", **params)


def tail(graph, kind, x, other, name):
    match kind:
        case "relu":
            return add(graph, "Relu", [x], name=name)
        case "clip":
            return add(graph, "ReluMinMax", [x], name=name, min_value=-2.0, max_value=6.0)
        case "neuron-relu":
            return add(graph, "ElementWiseNeuron", [x], name=name, operation=4)
        case "neuron-clip":
            limits = {"min_value": -1.0, "max_value": 9.0}
            return add(graph, "ElementWiseNeuron", [x], name=name, operation=5, **limits)
        case "add":
            return add(graph, "ElementWiseAdd", [x, other], name=name)
    return add(graph, "ElementWiseAdd", [other, x], name=name)


def chain(whole, op_type, kinds, *, batch=2):
    graph = Graph("chain")
    shape = (batch, 6, 5, 4)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, shape, TensorKind.APP_WRITE))
    last = head(graph, whole, op_type, x)
    for i, kind in enumerate(kinds):
        last = tail(graph, kind, last, x, f"tail{i}")
    last.kind = TensorKind.APP_READ
    return graph, {"x": whole(5, *shape)}


@settings(max_examples=60)
@given(
    st.sampled_from(["Conv2d", "pointwise", "DepthWiseConv2d", "FullyConnected", "MatMul"]),
    st.lists(st.sampled_from(TAILS), min_size=1, max_size=4),
)
def test_one_step_gives_what_several_give(run_graph, evaluate, whole, op_type, kinds):
    graph, feeds = chain(whole, op_type, kinds)
    fused, alone = run_graph(graph, feeds), run_graph(graph, feeds, fuse=False)
    assert len(fused.prepared.steps) == 1
    assert len(alone.prepared.steps) == 1 + len(kinds)
    (name,) = fused.outputs
    np.testing.assert_array_equal(fused.outputs[name], alone.outputs[name])
    np.testing.assert_array_equal(fused.outputs[name], evaluate(graph, feeds)[name])


def test_blocks_smaller_than_a_bias_and_larger_than_all(run_graph, evaluate, whole, monkeypatch):
    from dovetail_numpy.kernels import _epilogue

    graph, feeds = chain(whole, "Conv2d", ["add", "relu"])
    expected = evaluate(graph, feeds)
    for block, repeated in ((1, 2048), (24, 8), (20, 12), (4096, 64), (1, 1)):
        monkeypatch.setattr(_epilogue, "BLOCK", block)
        monkeypatch.setattr(_epilogue, "_TILE", repeated)
        for name, out in run_graph(graph, feeds).outputs.items():
            np.testing.assert_array_equal(out, expected[name])


def test_a_result_that_others_read_stays(run_graph, evaluate, whole):
    graph, feeds = chain(whole, "Conv2d", [])
    middle = graph.tensor("head")
    middle.kind = TensorKind.NATIVE
    one = add(graph, "Relu", [middle], name="one")
    two = add(graph, "ElementWiseAdd", [middle, one], name="two")
    for tensor in (one, two):
        tensor.kind = TensorKind.APP_READ
    expected, ran = evaluate(graph, feeds), run_graph(graph, feeds)
    assert [s.nodes for s in ran.prepared.steps] == [("head",), ("one",), ("two",)]
    for name, out in ran.outputs.items():
        np.testing.assert_array_equal(out, expected[name])


def test_a_sum_that_broadcasts_is_a_step_of_its_own(run_graph, evaluate, whole):
    graph, feeds = chain(whole, "MatMul", [], batch=1)
    middle = graph.tensor("head")
    middle.kind = TensorKind.NATIVE
    row = static(graph, "row", whole(7, 4))
    last = add(graph, "ElementWiseAdd", [middle, row], name="last")
    last.kind = TensorKind.APP_READ
    ran = run_graph(graph, feeds)
    assert len(ran.prepared.steps) == 2
    np.testing.assert_array_equal(ran.outputs["last"], evaluate(graph, feeds)["last"])


def test_a_head_without_a_kernel_leaves_its_tail_right(run_graph, evaluate, whole):
    graph = Graph("chain")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 6, 5, 4), TensorKind.APP_WRITE))
    w = graph.add_tensor(Tensor("w", DType.FLOAT_32, (3, 3, 1, 4), TensorKind.APP_WRITE))
    params = {"stride": (1, 1), "pad_amount": [[1, 1], [1, 1]]}
    made = add(graph, "DepthWiseConv2d", [x, w], name="head", **params)
    last = add(graph, "Relu", [made], name="last")
    last.kind = TensorKind.APP_READ
    feeds = {"x": whole(1, 1, 6, 5, 4), "w": whole(2, 3, 3, 1, 4)}
    ran = run_graph(graph, feeds)
    assert ran.by_reference == {"head"}
    np.testing.assert_array_equal(ran.outputs["last"], evaluate(graph, feeds)["last"])


@pytest.mark.parametrize("fuse", [True, False])
def test_a_residual_block(run_graph, evaluate, whole, fuse):
    """Two convolutions and the sum with the input: the input must outlive the first scratchpads."""
    graph = Graph("block")
    shape = (1, 7, 7, 4)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, shape, TensorKind.APP_WRITE))
    entry = add(graph, "Relu", [x], name="entry")
    params = {"stride": (1, 1), "pad_amount": [[1, 1], [1, 1]]}
    last = entry
    for i in range(2):
        weight = static(graph, f"w{i}", whole(i, 3, 3, 4, 4, most=1))
        last = add(graph, "Conv2d", [last, weight], name=f"conv{i}", **params)
        last = add(graph, "ReluMinMax", [last], name=f"clip{i}", min_value=-9.0, max_value=9.0)
    last = add(graph, "ElementWiseAdd", [entry, last], name="sum")
    last.kind = TensorKind.APP_READ
    feeds = {"x": whole(9, *shape)}
    ran = run_graph(graph, feeds, fuse=fuse)
    np.testing.assert_array_equal(ran.outputs["sum"], evaluate(graph, feeds)["sum"])
