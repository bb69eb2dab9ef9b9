"""Transposes cancel, values and interface stay, and tensors say how their layout changed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.ir import (
    Array,
    AxisScaleOffset,
    DType,
    Graph,
    ScaleOffset,
    Spec,
    Tensor,
    TensorKind,
    find_faults,
    run_passes,
)
from dovetail_opset.build import add, static
from dovetail_opset.passes import CONVERT_DEFAULT, ChannelsLast

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
# float32 sums in another order, through at most ten layers


def assert_alike(found: Array, wanted: Array) -> None:
    """Check that values are equal but for the order of sums, whose terms may be as large as any."""
    atol = 1e-5 * max(1.0, float(np.abs(wanted).max(initial=0)))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=atol)


Evaluate = Callable[..., Any]


def count(graph: Graph, op_type: str = "Transpose") -> int:
    return sum(node.op_type == op_type for node in graph.nodes)


def interface(graph: Graph) -> list[tuple[str, DType, tuple[int, ...], TensorKind]]:
    return [(t.name, t.dtype, t.shape, t.kind) for t in (*graph.inputs, *graph.outputs)]


@pytest.mark.parametrize("passes", [(ChannelsLast(),), CONVERT_DEFAULT.passes])
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1))
def test_random_networks_keep_their_results(
    passes: tuple[Any, ...], evaluate: Evaluate, network: Any, feeds: Any, seed: int
) -> None:
    graph = network(seed)
    given_values = feeds(graph)
    before, shown = evaluate(graph, given_values), interface(graph)
    run_passes(graph, passes)  # checks the graph after each pass
    assert interface(graph) == shown
    after = evaluate(graph, given_values)
    for tensor in graph.outputs:
        assert_alike(after[tensor.name], before[tensor.name])


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1))
def test_moved_tensors_show_their_source(
    evaluate: Evaluate, network: Any, feeds: Any, seed: int
) -> None:
    graph = network(seed)
    given_values = feeds(graph)
    before = evaluate(graph, given_values)
    ChannelsLast().run(graph)
    after = evaluate(graph, given_values)
    moved = [t for t in graph.tensors.values() if t.source_perm is not None]
    for tensor in moved:
        shown = after[tensor.name].transpose(np.argsort(tensor.source_perm))
        assert_alike(shown, before[tensor.source])


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1))
def test_one_transpose_at_each_edge(network: Any, seed: int) -> None:
    graph = network(seed, without="tokens")  # which turn an image that may be channels-first
    ChannelsLast().run(graph)
    assert count(graph) <= len(graph.inputs) + len(graph.outputs)
    for node in graph.nodes:
        if node.op_type == "Transpose":
            read, written = node.inputs[0], node.outputs[0]
            assert read is graph.inputs[0] or written in graph.outputs
    assert not ChannelsLast().run(graph)


def test_a_plain_network_has_two_left(maker: Any) -> None:
    m = maker(1)
    x = m.conv(m.values[0])
    for _ in range(3):
        y = m.step("Relu", m.batchnorm(m.conv(x)))
        x = m.step("ElementWiseAdd", m.conv(y, x.shape[1]), x)
        x = m.gate(m.pool(m.step("Concat", x, y, axis=1)))
    graph = m.finish(x)
    before = count(graph)
    assert ChannelsLast().run(graph)
    assert (before > 12, count(graph)) == (True, 2)
    assert not ChannelsLast().run(graph)


def test_residual_around_the_input_shares_its_transpose(maker: Any, evaluate: Evaluate) -> None:
    m = maker(2)
    x = m.values[0]
    w = m.constant(1, 1, 4, 4)
    conv = m.spatial("Conv2d", x, w, stride=(1, 1), pad_amount=[(0, 0), (0, 0)])
    graph = m.finish(m.step("ElementWiseAdd", x, conv))
    feed = {"x": np.random.default_rng(0).random((2, 4, 6, 5), np.float32)}
    name = graph.outputs[0].name
    before = evaluate(graph, feed)[name]
    ChannelsLast().run(graph)
    assert count(graph) == 2
    np.testing.assert_array_equal(evaluate(graph, feed)[name], before)


@pytest.mark.parametrize(("axes", "left"), [([2, 3], 1), ([2], 2), ([1], 1), ([3, 0], 2), ([0], 2)])
def test_reductions_may_drop_axes(
    maker: Any, evaluate: Evaluate, axes: list[int], left: int
) -> None:
    m = maker(3)
    graph = m.finish(m.step("ReduceMean", m.conv(m.values[0]), axes=axes))
    feed = {"x": np.random.default_rng(0).random((2, 4, 6, 5), np.float32)}
    name = graph.outputs[0].name
    before = evaluate(graph, feed)[name]
    ChannelsLast().run(graph)
    # the input's transpose, and one behind unless what is left is in order anyway
    assert count(graph) == left
    assert_alike(evaluate(graph, feed)[name], before)


FOLLOWING: list[tuple[str, list[tuple[int, ...]], dict[str, Any]]] = [
    ("Prelu", [(4, 1, 1)], {}),
    ("Prelu", [(1, 4, 6, 5)], {}),
    ("Relu1", [], {}),
    ("Relu6", [], {}),
    ("ElementWiseSoftplus", [], {"beta": 2.0}),
    ("LogSoftmax", [], {"axis": 1}),
    ("CumulativeSum", [], {"axis": 2, "reverse": True}),
    ("L2Norm", [], {"axis": 1}),
    ("L2Norm", [], {"axes": [3, 1]}),
    ("RmsNorm", [(5, 4), (5, 4)], {"axes": [3, 1]}),
    *((name, [], {"axes": [1, 2], "keep_dims": True}) for name in ("ReduceMin", "ReduceProd")),
    ("ReduceSumSquare", [], {"axes": [3], "keep_dims": True}),
    ("Argmax", [], {"axis": 1, "keep_dims": True}),
]


@pytest.mark.parametrize(("op_type", "constants", "params"), FOLLOWING)
def test_ops_that_follow_the_layout(
    maker: Any,
    evaluate: Evaluate,
    op_type: str,
    constants: list[tuple[int, ...]],
    params: dict[str, Any],
) -> None:
    m = maker(3)
    weights = [m.constant(*shape) for shape in constants]
    y = m.step(op_type, m.conv(m.values[0], 4), *weights, **params)
    last = m.step("Transpose", y, perm=LAST)  # what a spatial op behind it begins with
    graph = m.finish(last)
    feed = {"x": np.random.default_rng(0).normal(0, 1, (2, 4, 6, 5)).astype(np.float32)}
    before = evaluate(graph, feed)[last.name]
    ChannelsLast().run(graph)
    assert count(graph) == 1  # the input's
    assert_alike(evaluate(graph, feed)[last.name], before)


@pytest.mark.parametrize("op_type", ["Argmax", "Argmin"])
@pytest.mark.parametrize(("axis", "left"), [(1, 1), (0, 2), (2, 2), (3, 2)])
def test_places_may_drop_their_axis(
    maker: Any, evaluate: Evaluate, op_type: str, axis: int, left: int
) -> None:
    m = maker(3)
    graph = m.finish(m.step(op_type, m.conv(m.values[0]), axis=axis))
    feed = {"x": np.random.default_rng(0).random((2, 4, 6, 5), np.float32)}
    name = graph.outputs[0].name
    before = evaluate(graph, feed)[name]
    ChannelsLast().run(graph)
    assert count(graph) == left
    np.testing.assert_array_equal(evaluate(graph, feed)[name], before)


def test_transposes_of_attention_stay(maker: Any) -> None:
    m = maker(4)
    heads = m.step("Transpose", m.values[0], perm=[0, 2, 1, 3])
    graph = m.finish(m.step("Relu", heads))
    assert not ChannelsLast().run(graph)
    assert graph.nodes[0].op_type == "Transpose"


@pytest.mark.parametrize("places", ["none", "before", "after"])
def test_pixels_are_tokens_without_a_transpose(maker: Any, evaluate: Evaluate, places: str) -> None:
    """As in SegFormer; and with an embedding of the places, as in ViT, in either layout."""
    m = maker(5)
    x = m.conv(m.values[0], 3)
    n, c, h, w = x.shape
    line = m.step("Reshape", x, spec=Spec(x.dtype, (n, c, h * w)))
    if places == "before":
        line = m.step("ElementWiseAdd", line, m.constant(1, c, h * w))
    line = m.step("Transpose", line, perm=[0, 2, 1])
    if places == "after":
        line = m.step("ElementWiseAdd", line, m.constant(1, h * w, c))
    line = m.step("LayerNorm", line, m.constant(c), m.constant(c), axes=[2])
    product = m.step("MatMul", line, m.constant(c, c))
    line = m.step("ElementWiseAdd", line, product)
    turned = m.step("Transpose", line, perm=[0, 2, 1])
    graph = m.finish(m.conv(m.step("Reshape", turned, spec=Spec(x.dtype, x.shape))))
    feed = {"x": m.rng.standard_normal((2, 4, 6, 5), np.float32)}
    (y,) = graph.outputs
    before = evaluate(graph, feed)[y.name]
    assert ChannelsLast().run(graph)
    assert not find_faults(graph)
    assert count(graph) == 2  # of the input and of the output
    (norm,) = [n for n in graph.nodes if n.op_type == "LayerNorm"]
    assert norm.params["axes"].values().tolist() == [2]
    assert_alike(evaluate(graph, feed)[y.name], before)


def test_keys_of_attention_do_not_turn_the_norm_before_them(maker: Any) -> None:
    m = maker(5)
    x = m.step("Reshape", m.conv(m.values[0], 3), spec=Spec(DType.FLOAT_32, (2, 3, 30)))
    line = m.step("MatMul", m.step("Transpose", x, perm=[0, 2, 1]), m.constant(3, 3))
    norm = m.step("LayerNorm", line, m.constant(3), m.constant(3), axes=[2])
    scores = m.step("MatMul", norm, m.step("Transpose", norm, perm=[0, 2, 1]))
    graph = m.finish(scores)
    ChannelsLast().run(graph)
    (norm,) = [n for n in graph.nodes if n.op_type == "LayerNorm"]
    assert norm.params["axes"].values().tolist() == [2]
    assert count(graph) == 2  # of the input and of the keys


@pytest.mark.parametrize("shape", [(1, 1), (1, 1, 1), (2, 1, 1), (1, 2, 1, 1)])
def test_updateable_operands_stay_as_they_are(maker: Any, shape: tuple[int, ...]) -> None:
    m = maker(5)
    scale = m.constant(*shape)
    scale.kind = TensorKind.UPDATEABLE_STATIC
    product = m.step("ElementWiseMultiply", m.conv(m.values[0], 2), scale)
    graph = m.finish(m.conv(product))
    ChannelsLast().run(graph)
    node = next(n for n in graph.nodes if n.op_type == "ElementWiseMultiply")
    assert graph.consumers(scale) == (node,)
    assert (scale.shape, scale.kind) == (shape, TensorKind.UPDATEABLE_STATIC)


def test_encodings_follow(evaluate: Evaluate) -> None:
    graph, u8 = Graph("g"), DType.UFIXED_POINT_8
    code = AxisScaleOffset(3, np.array([0.5, 0.25, 1], np.float32), np.array([-3, 0, -9], np.int32))
    x = Tensor("x", u8, (1, 2, 2, 3), TensorKind.APP_WRITE, encoding=code)
    graph.add_tensor(x)
    first = add(graph, "Transpose", [x], name="t", perm=FIRST)
    assert first.encoding == AxisScaleOffset(1, code.scales, code.offsets)
    by_channel = AxisScaleOffset(0, np.array([0.25, 0.5, 1], np.float32))
    three = static(graph, "k", np.full((3, 1, 1), 4, np.uint8), u8, encoding=by_channel)
    out = Tensor("y", u8, (1, 3, 2, 2), TensorKind.NATIVE, encoding=first.encoding)
    added = add(graph, "ElementWiseAdd", [first, three], name="a", outputs=out)
    last = Tensor("z", u8, (1, 2, 2, 3), TensorKind.APP_READ, encoding=code)
    add(graph, "Transpose", [added], name="b", outputs=last, perm=LAST)
    feed = {"x": np.arange(12, dtype=np.uint8).reshape(1, 2, 2, 3)}
    before = evaluate(graph, feed)["z"]
    assert ChannelsLast().run(graph)
    assert not find_faults(graph)
    assert count(graph) == 0
    assert last.encoding == code
    np.testing.assert_array_equal(evaluate(graph, feed)["z"], before)


def test_a_change_of_encoding_is_no_mere_transpose(maker: Any) -> None:
    # A transpose that also requantizes rounds: taking it away would change the values.
    graph, u8 = Graph("g"), DType.UFIXED_POINT_8
    fine, coarse = ScaleOffset(0.5), ScaleOffset(2.0)
    x = Tensor("x", u8, (1, 2, 2, 3), TensorKind.APP_WRITE, encoding=fine)
    graph.add_tensor(x)
    mid = Tensor("mid", u8, (1, 3, 2, 2), encoding=coarse)
    add(graph, "Transpose", [x], name="a", outputs=mid, perm=FIRST)
    out = Tensor("y", u8, (1, 2, 2, 3), TensorKind.APP_READ, encoding=fine)
    add(graph, "Transpose", [mid], name="b", outputs=out, perm=LAST)
    assert not ChannelsLast().run(graph)
    assert count(graph) == 2
