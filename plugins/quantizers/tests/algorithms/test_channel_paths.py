"""Following channels: where they are said to be, a factor of theirs arrives, and nothing else."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from quantizing import new_graph, output
from rewriting import outputs

from dovetail.ir import Array, Graph, Spec
from dovetail.plugins.ops import installed_ops
from dovetail_opset.build import add
from dovetail_quantizers.algorithms.channel_paths import moved_axis

shapes = st.lists(st.integers(1, 4), min_size=2, max_size=4).map(tuple)


def tiled(factors: Array, extent: int, axis: int, rank: int) -> Array:
    """Factors along an axis, repeated as often as they fit."""
    shape = [1] * rank
    shape[axis] = extent
    return np.array([factors[i % len(factors)] for i in range(extent)]).reshape(shape)


def check(graph: Graph, axis: int, count: int, seed: int) -> bool:
    """Return whether channels get through the one node of a graph; checks that they do so."""
    (node,) = graph.nodes
    moved = moved_axis(node, axis, count, installed_ops(), relu6=False)
    if moved is None:
        return False
    rng = np.random.default_rng(seed)
    before, after = graph.tensor("x").shape, node.outputs[0].shape
    assert after[moved] % count == 0
    x = rng.standard_normal(before).astype(np.float32)
    factors = 2.0 ** rng.integers(-4, 5, count)  # round nothing
    scaled = (x * tiled(factors, before[axis], axis, len(before))).astype(np.float32)
    plain, made = outputs(graph, [x, scaled])
    wanted = plain * tiled(factors, after[moved], moved, len(after))
    # sums are of powers of two times the same numbers
    np.testing.assert_allclose(made, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max(initial=1))
    return True


def one_op(shape: tuple[int, ...], op_type: str, **params: Any) -> Graph:
    graph, x = new_graph(shape)
    output(add(graph, op_type, [x], name="y", **params))
    return graph


@st.composite
def channels(draw: st.DrawFn) -> tuple[tuple[int, ...], int, int]:
    """A shape, an axis of it, and a number of channels that repeat along that."""
    shape = list(draw(shapes))
    axis = draw(st.integers(0, len(shape) - 1))
    count = shape[axis]
    shape[axis] *= draw(st.integers(1, 3))
    return tuple(shape), axis, count


@settings(max_examples=60)
@given(channels(), st.data())
def test_reshapes(drawn: tuple[tuple[int, ...], int, int], data: st.DataObject) -> None:
    shape, axis, count = drawn
    size, after = math.prod(shape), []
    while size > 1:
        after.append(data.draw(st.sampled_from([n for n in range(2, size + 1) if size % n == 0])))
        size //= after[-1]
    after = after or [1]
    graph, x = new_graph(shape)
    spec = Spec(x.dtype, tuple(after))
    output(add(graph, "Reshape", [x], name="y", spec=spec))
    check(graph, axis, count, 1)


def test_what_reshapes_keep_and_what_they_break() -> None:
    def reshaped(before: tuple[int, ...], after: tuple[int, ...], axis: int, count: int) -> bool:
        graph, x = new_graph(before)
        output(add(graph, "Reshape", [x], name="y", spec=Spec(x.dtype, after)))
        return check(graph, axis, count, 2)

    assert reshaped((1, 2, 2, 6), (1, 24), 3, 6)  # a flattened image
    assert reshaped((1, 24), (1, 2, 2, 6), 1, 6)  # and back
    assert reshaped((2, 3, 4), (2, 3, 2, 2), 1, 3)
    assert reshaped((1, 6, 1, 1), (1, 6), 1, 6)
    assert not reshaped((1, 4, 6), (1, 4, 2, 3), 2, 6)  # channels cut in heads
    assert not reshaped((1, 6, 2, 2), (1, 24), 1, 6)  # channels first


@settings(max_examples=40)
@given(channels(), st.data())
def test_transposes_and_reductions(
    drawn: tuple[tuple[int, ...], int, int], data: st.DataObject
) -> None:
    shape, axis, count = drawn
    axes = range(len(shape))
    perm = data.draw(st.permutations(axes))
    assert check(one_op(shape, "Transpose", perm=list(perm)), axis, count, 3)
    over = data.draw(st.lists(st.sampled_from(axes), min_size=1, max_size=2, unique=True))
    op_type = data.draw(st.sampled_from(["ReduceMean", "ReduceSum", "ReduceMax"]))
    if len(over) == len(shape):
        return
    graph = one_op(shape, op_type, axes=over, keep_dims=data.draw(st.booleans()))
    assert check(graph, axis, count, 4) is (axis not in over)


@settings(max_examples=40)
@given(st.data())
def test_pools(data: st.DataObject) -> None:
    params = {
        "filter_size": [2, 3],
        "stride": data.draw(st.sampled_from([[1, 1], [2, 2], [1, 3]])),
        "pad_amount": data.draw(st.sampled_from([[[0, 0], [0, 0]], [[1, 1], [1, 0]]])),
        "rounding_mode": data.draw(st.integers(0, 1)),
    }
    if average := data.draw(st.booleans()):
        params["count_pad_for_edges"] = data.draw(st.booleans())
    graph = one_op((2, 5, 6, 4), "PoolAvg2d" if average else "PoolMax2d", **params)
    assert check(graph, 3, 2, 5)
    assert not check(graph, 1, 5, 5)


def test_activations() -> None:
    assert check(one_op((2, 3), "Relu"), 1, 3, 6)
    assert check(one_op((2, 3), "ElementWiseNeuron", operation=4), 1, 3, 6)
    for other in ("Sigmoid", "Tanh", "Gelu", "HardSwish", "Relu6", "Elu"):
        assert not check(one_op((2, 3), other), 1, 3, 6)
    assert not check(one_op((2, 3), "ElementWiseNeuron", operation=6), 1, 3, 6)
