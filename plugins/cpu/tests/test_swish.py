"""A Sigmoid and the product with its input run as one step, and only they."""

import numpy as np
import pytest

from dovetail.ir import DType, Graph, Tensor, TensorKind
from dovetail_opset.build import add

# Sums and quotients of float32, one rounding each: the sigmoid's three and the product's.
ROUNDINGS = 8 * np.finfo(np.float32).eps


def gated(shape=(3, 5, 7), *, first=True, inside=False, dtype=DType.FLOAT_32):
    """Create x * sigmoid(x); with `inside`, x and the product are in the arena."""
    graph = Graph("swish")
    x = graph.add_tensor(Tensor("x", dtype, shape, TensorKind.APP_WRITE))
    inner = add(graph, "Relu6", [x], name="before") if inside else x
    gate = add(graph, "Sigmoid", [inner], name="gate")
    pair = [inner, gate] if first else [gate, inner]
    y = add(graph, "ElementWiseMultiply", pair, name="y")
    y = add(graph, "ElementWiseAbs", [y], name="after") if inside else y
    y.kind = TensorKind.APP_READ
    return graph, inner, gate


def feed(shape, dtype=np.float32):
    return {"x": (np.random.default_rng(3).standard_normal(shape) * 5).astype(dtype)}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("shape", [(), (1,), (3, 5, 7), (1, 9, 100, 64)])
def test_one_step_gives_what_two_give(run_graph, evaluate, first, inside, shape):
    graph, _, _ = gated(shape, first=first, inside=inside)
    feeds = feed(shape)
    fused, alone = run_graph(graph, feeds), run_graph(graph, feeds, fuse=False)
    assert len(alone.prepared.steps) - len(fused.prepared.steps) == 1
    assert not fused.by_reference
    (name,) = fused.outputs
    for wanted in (alone.outputs[name], evaluate(graph, feeds)[name]):
        np.testing.assert_allclose(fused.outputs[name], wanted, rtol=ROUNDINGS, atol=1e-7)


def test_far_out_it_is_x_or_nothing(run_graph):
    graph, _, _ = gated((6,))
    x = np.array([np.inf, 3e38, 100, -100, -3e38, np.nan], np.float32)
    out = run_graph(graph, {"x": x}).outputs["y"]
    # denormal numbers count as 0
    np.testing.assert_allclose(out, [np.inf, 3e38, 100, 0, 0, np.nan], atol=1e-37)


def test_an_input_that_is_read_again_is_not_overwritten(run_graph, evaluate):
    graph, inner, _ = gated(inside=True)
    again = add(graph, "ElementWiseAdd", [inner, graph.tensor("after")], name="again")
    again.kind = TensorKind.APP_READ
    feeds = feed((3, 5, 7))
    ran = run_graph(graph, feeds)
    wanted = evaluate(graph, feeds)["again"]
    np.testing.assert_allclose(ran.outputs["again"], wanted, rtol=ROUNDINGS, atol=1e-7)


def test_what_it_is_not_made_for_runs_alone(run_graph, evaluate):
    graph, _, _ = gated((0, 4))
    feeds = feed((0, 4))
    ran = run_graph(graph, feeds)
    assert ran.by_reference == {"gate", "y"}
    np.testing.assert_array_equal(ran.outputs["y"], evaluate(graph, feeds)["y"])


def test_a_gate_of_something_else_or_that_is_read_stays(run_graph):
    graph, inner, gate = gated()
    other = add(graph, "ElementWiseAbs", [inner], name="other")
    sigmoid = add(graph, "Sigmoid", [inner], name="sigmoid")
    add(graph, "ElementWiseMultiply", [other, sigmoid], name="z").kind = TensorKind.APP_READ
    square = add(graph, "Sigmoid", [inner], name="twice")
    add(graph, "ElementWiseMultiply", [square, square], name="w").kind = TensorKind.APP_READ
    assert len(run_graph(graph, feed((3, 5, 7))).prepared.steps) == 6  # of seven nodes
    gate.kind = TensorKind.APP_READ
    assert len(run_graph(graph, feed((3, 5, 7))).prepared.steps) == 7
