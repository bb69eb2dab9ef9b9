"""Ops written out in others: the same results, and only where these are the same."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, Graph, Spec, Tensor, TensorKind, find_faults
from dovetail_opset.build import add, add_all, static
from dovetail_opset.passes import DeadCode, WriteOut, can_write_out

Evaluate = Callable[..., Any]
CASES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("ReduceSumSquare", {"axes": [1, 2], "keep_dims": True}, ["ElementWiseMultiply", "ReduceSum"]),
    ("ReduceSumSquare", {"axes": [3]}, ["ElementWiseMultiply", "ReduceSum"]),
    (
        "ElementWiseSoftplus",
        {},
        [
            *(f"ElementWise{name}" for name in ("Abs", "Neg", "Exp", "Add", "Log")),
            "Relu",
            "ElementWiseAdd",
        ],
    ),
    ("ElementWiseSoftplus", {"threshold": 20.0}, []),
]


@pytest.mark.parametrize(("op_type", "params", "ops"), CASES)
def test_results_are_the_same(
    net: Any, evaluate: Evaluate, op_type: str, params: dict[str, Any], ops: list[str]
) -> None:
    y = net.step(op_type, net.x, **params)
    y.kind = TensorKind.APP_READ
    feed = {"x": np.linspace(-60, 60, 120, dtype=np.float32).reshape(net.x.shape)}
    before = evaluate(net.graph, feed)[y.name]
    assert WriteOut([op_type]).run(net.graph)
    assert not WriteOut([op_type]).run(net.graph)
    assert not find_faults(net.graph)
    assert sorted(net.ops()) == sorted(ops or CASES[2][2])
    assert net.graph.nodes[-1].name == "step"
    np.testing.assert_allclose(evaluate(net.graph, feed)[y.name], before, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("axes", "keep_dims", "products"),
    [([3], False, 2), ([1, 3], True, 4), ([0, 1, 2, 3], False, 8), ([], False, 0)],
)
def test_products_of_elements(
    net: Any, evaluate: Evaluate, axes: list[int], keep_dims: bool, products: int
) -> None:
    y = net.step("ReduceProd", net.x, axes=axes, keep_dims=keep_dims)
    y.kind = TensorKind.APP_READ
    feed = {"x": net.rng.uniform(-2, 2, net.x.shape).astype(np.float32)}
    before = evaluate(net.graph, feed)[y.name]
    assert WriteOut(["ReduceProd"]).run(net.graph)
    assert not find_faults(net.graph)
    assert "ReduceProd" not in net.ops()
    assert net.ops().count("ElementWiseMultiply") == products
    # 120 factors are rounded in another order
    np.testing.assert_allclose(evaluate(net.graph, feed)[y.name], before, rtol=1e-5)


def test_a_product_of_no_elements_stays(evaluate: Evaluate) -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 0), TensorKind.APP_WRITE))
    add(graph, "ReduceProd", [x], name="y", axes=[1]).kind = TensorKind.APP_READ
    assert not WriteOut(["ReduceProd"]).run(graph)


def test_nan_differs_from_itself(net: Any, evaluate: Evaluate) -> None:
    y = net.step("IsNan", net.x)
    y.kind = TensorKind.APP_READ
    x = np.linspace(-60, 60, 120, dtype=np.float32).reshape(net.x.shape)
    x.flat[:4] = np.nan, np.inf, -np.inf, -np.nan
    assert WriteOut(["IsNan"]).run(net.graph)
    assert net.ops() == ["ElementWiseNotEqual"]
    np.testing.assert_array_equal(evaluate(net.graph, {"x": x})[y.name], np.isnan(x))


def test_moves_of_bools(net: Any, evaluate: Evaluate) -> None:
    """Several moves of one tensor share its cast; moves of numbers stay."""
    bools = net.step("ElementWiseLess", net.x, net.number(0.0))
    indices = static(net.graph, "i", np.array([1, 0, 1], np.int32))
    ranges = [(0, 2, 1), (1, 2, 1), (4, -1, -2), (0, 4, 1)]
    outs = [
        net.step("StridedSlice", bools, ranges=ranges, shrink_axes=2),
        net.step("Gather", bools, indices, axis=0),
        net.step("Tile", bools, multiples=[1, 2, 1, 1]),
        net.step("Gather", net.x, indices, axis=0),
    ]
    for out in outs:
        out.kind = TensorKind.APP_READ
    feed = {"x": net.rng.standard_normal(net.x.shape, np.float32)}
    before = evaluate(net.graph, feed)
    moves = ("Gather", "StridedSlice", "Tile")
    assert WriteOut(moves).run(net.graph)
    assert not WriteOut(moves).run(net.graph)
    assert not find_faults(net.graph)
    assert net.ops().count("Cast") == 4
    assert not any(n.inputs[0].dtype is DType.BOOL_8 for n in net.graph.nodes if n.op_type in moves)
    after = evaluate(net.graph, feed)
    for out in outs:
        np.testing.assert_array_equal(after[out.name], before[out.name])


def test_what_does_the_same_with_bools_and_integers(net: Any, evaluate: Evaluate) -> None:
    bools, others = (
        net.step("ElementWiseLess", net.x, net.number(number)) for number in (0.0, 0.5)
    )
    first = np.zeros((1, *net.x.shape[1:]), np.int32)
    constant = static(net.graph, "constant", np.array([True]))
    whole = static(net.graph, "whole", net.rng.random(net.x.shape) < 0.5)
    outs = [
        net.step("Concat", bools, others, whole, axis=1),
        net.step("ElementWiseEqual", bools, others),
        net.step("ElementWiseNotEqual", bools, constant),
        net.step("ElementWiseSelect", bools, others, constant),
        net.step("GatherElements", bools, static(net.graph, "i", first), axis=0),
        net.step("GatherNd", bools, static(net.graph, "at", np.array([[1, 0], [0, 1]], np.int32))),
        *add_all(
            net.graph,
            "Split",
            [bools],
            name="parts",
            axis=3,
            split_index=[1, 3],
            outputs=("a", "b", "c"),
        ),
    ]
    for out in outs:
        out.kind = TensorKind.APP_READ
    feed = {"x": net.rng.standard_normal(net.x.shape, np.float32)}
    before, ops = evaluate(net.graph, feed), set(net.ops()) - {"ElementWiseLess"}
    assert WriteOut(ops).run(net.graph)
    assert not WriteOut(ops).run(net.graph)
    assert not find_faults(net.graph)
    assert set(net.ops()) == ops | {"ElementWiseLess", "Cast"}
    after = evaluate(net.graph, feed)
    for out in outs:
        assert after[out.name].dtype == np.bool_
        np.testing.assert_array_equal(after[out.name], before[out.name])


@pytest.mark.parametrize(
    ("op_type", "second", "is_written_out"),
    [
        ("ElementWiseMaximum", [-3, 0, 7], True),
        ("ElementWiseMinimum", [-3, 0, 7], True),
        ("ElementWiseMod", [1, 5, 7], True),
        ("ElementWiseMod", [1, -5, 7], False),
        ("ElementWiseMod", [1, 0, 7], False),
        ("ElementWiseFloorDiv", [1, 5, 7], True),
        ("ElementWiseFloorDiv", [1, -5, 7], False),
        ("ElementWiseFmod", [1, 5, 7], True),
        ("ElementWiseFmod", [1, 0, 7], False),
    ],
)
def test_functions_of_integers(
    evaluate: Evaluate, op_type: str, second: list[int], is_written_out: bool
) -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.INT_32, (21, 1), TensorKind.APP_WRITE))
    y = add(graph, op_type, [x, static(graph, "s", np.array(second, np.int32))], name="y")
    y.kind = TensorKind.APP_READ
    feed = {"x": np.arange(-10, 11, dtype=np.int32)[:, None]}
    before = evaluate(graph, feed)["y"]
    assert WriteOut([op_type]).run(graph) is is_written_out
    assert not find_faults(graph)
    assert (op_type not in [node.op_type for node in graph.nodes]) is is_written_out
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)


@pytest.mark.parametrize("dtype", [DType.FLOAT_32, DType.FLOAT_16])
def test_a_remainder_of_floats_has_the_sign_of_what_is_divided(
    evaluate: Evaluate, dtype: DType
) -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", dtype, (33, 1), TensorKind.APP_WRITE))
    divisors = static(graph, "divisors", np.array([3, -2.5, 0], dtype.storage))
    y = add(graph, "ElementWiseFmod", [x, divisors], name="y")
    y.kind = TensorKind.APP_READ
    feed = {"x": np.linspace(-8, 8, 33).astype(dtype.storage)[:, None]}
    with np.errstate(invalid="ignore", divide="ignore"):
        before = evaluate(graph, feed)["y"]
        assert WriteOut(["ElementWiseFmod"]).run(graph)
        assert not find_faults(graph)
        np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)
    assert np.isnan(before[:, 2]).all()


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("has_positions", [False, True])
@pytest.mark.parametrize("turned", [0, 4])
def test_rotary_embeddings(
    evaluate: Evaluate, interleaved: bool, has_positions: bool, turned: int
) -> None:
    graph, rng = Graph("net"), np.random.default_rng(3)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 3, 5, 8), TensorKind.APP_WRITE))
    feed = {"x": rng.standard_normal(x.shape, np.float32)}
    pairs = (turned or 8) // 2
    shape = (9, pairs) if has_positions else (2, 5, pairs)
    tables = [static(graph, n, rng.standard_normal(shape, np.float32)) for n in ("cos", "sin")]
    rest = []
    if has_positions:
        rest.append(graph.add_tensor(Tensor("p", DType.INT_32, (2, 5), TensorKind.APP_WRITE)))
        feed["p"] = rng.integers(0, 9, (2, 5), np.int32)
    params = {"interleaved": interleaved, "rotary_embedding_dim": turned}
    y = add(graph, "RotaryEmbedding", [x, *tables, *rest], name="y", **params)
    y.kind = TensorKind.APP_READ
    before = evaluate(graph, feed)["y"]
    assert WriteOut(["RotaryEmbedding"]).run(graph)
    assert not find_faults(graph)
    assert "RotaryEmbedding" not in [node.op_type for node in graph.nodes]
    np.testing.assert_allclose(evaluate(graph, feed)["y"], before, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [DType.INT_32, DType.BOOL_8])
@pytest.mark.parametrize("pads", [[(0, 0), (2, 1), (0, 0)], [(1, 0), (0, 3), (2, 2)]])
@pytest.mark.parametrize("value", [1, 0.5])
def test_blocks_beside_integers(
    evaluate: Evaluate, dtype: DType, pads: list[tuple[int, int]], value: float
) -> None:
    graph, rng = Graph("net"), np.random.default_rng(5)
    x = graph.add_tensor(Tensor("x", dtype, (2, 3, 4), TensorKind.APP_WRITE))
    y = add(graph, "Pad", [x], name="y", scheme=0, pad_amount=pads, pad_constant_value=value)
    y.kind = TensorKind.APP_READ
    # beyond what a float32 holds
    feed = {"x": rng.integers(-(2**31), 2**31, x.shape).astype(dtype.storage)}
    before = evaluate(graph, feed)["y"]
    assert WriteOut(["Pad"]).run(graph)
    assert not find_faults(graph)
    padded = sum(any(pair) for pair in pads)
    casts = [] if dtype is DType.INT_32 else ["Cast"]
    assert [node.op_type for node in graph.nodes] == [*casts, *["Concat"] * padded, *casts]
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)


@pytest.mark.parametrize(
    ("dtype", "params"),
    [
        (DType.FLOAT_32, {"scheme": 0, "pad_amount": [(1, 1)]}),
        (DType.INT_32, {"scheme": 3, "pad_amount": [(1, 1)]}),
        (DType.INT_32, {"scheme": 0, "pad_amount": [(0, 0)]}),
    ],
)
def test_another_padding_stays(dtype: DType, params: dict[str, Any]) -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", dtype, (5,), TensorKind.APP_WRITE))
    add(graph, "Pad", [x], name="y", **params)
    assert not can_write_out(graph.node("y"))


@pytest.mark.parametrize("factors", [0, 1, 2])
@pytest.mark.parametrize(("shape", "group"), [((2, 5, 6, 12), 3), ((1, 7, 4), 1), ((3, 2, 8), 8)])
def test_group_norm(evaluate: Evaluate, shape: tuple[int, ...], group: int, factors: int) -> None:
    graph, rng = Graph("net"), np.random.default_rng(3)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, shape, TensorKind.APP_WRITE))
    given = [
        static(graph, f"factor{i}", rng.standard_normal(shape[-1:]).astype(np.float32))
        for i in range(factors)
    ]
    y = add(graph, "GroupNorm", [x, *given], name="y", group=group, epsilon=1e-3)
    y.kind = TensorKind.APP_READ
    feed = {"x": rng.standard_normal(shape).astype(np.float32)}
    before = evaluate(graph, feed)["y"]
    assert WriteOut(["GroupNorm"]).run(graph)
    assert not find_faults(graph)
    assert "GroupNorm" not in [node.op_type for node in graph.nodes]
    # means and deviations of up to 120 elements, added in another order
    np.testing.assert_allclose(evaluate(graph, feed)["y"], before, rtol=2e-5, atol=2e-6)


def transform(frame: int, parts: int, *, onesided: bool, has_window: bool) -> Graph:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 37, parts), TensorKind.APP_WRITE))
    window = static(graph, "window", np.hanning(frame).astype(np.float32)) if has_window else None
    params = {"frame_step": 5, "frame_length": frame, "onesided": onesided}
    add(graph, "Stft", [x, window], name="y", **params).kind = TensorKind.APP_READ
    return graph


@pytest.mark.parametrize("frame", [1, 8, 11])
@pytest.mark.parametrize("has_window", [False, True])
@pytest.mark.parametrize(("parts", "onesided"), [(1, True), (1, False), (2, False)])
def test_a_transform_of_frames_is_a_convolution(
    evaluate: Evaluate, frame: int, has_window: bool, parts: int, onesided: bool
) -> None:
    graph = transform(frame, parts, onesided=onesided, has_window=has_window)
    feed = {"x": np.random.default_rng(2).normal(size=(2, 37, parts)).astype(np.float32)}
    before = evaluate(graph, feed)["y"]
    assert WriteOut(["Stft"]).run(graph)
    assert not find_faults(graph)
    assert [node.op_type for node in graph.nodes] == ["Reshape", "Conv2d", "Reshape"]
    np.testing.assert_allclose(evaluate(graph, feed)["y"], before, rtol=1e-5, atol=1e-5)


def test_a_transform_with_a_computed_window_stays() -> None:
    graph = transform(8, 1, onesided=True, has_window=True)
    graph.tensor("window").kind = TensorKind.UPDATEABLE_STATIC
    assert not can_write_out(graph.node("y"))


def test_a_transform_that_would_need_huge_filters_stays() -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 9000, 1), TensorKind.APP_WRITE))
    add(graph, "Stft", [x], name="y", frame_step=9, frame_length=4096)
    assert not can_write_out(graph.node("y"))


@pytest.mark.parametrize("params", [{"beta": 2.0}, {"threshold": 1.0}, {"threshold": 0.0}])
def test_another_softplus_stays(net: Any, params: dict[str, float]) -> None:
    net.step("ElementWiseSoftplus", net.x, **params)
    assert not can_write_out(net.graph.nodes[0])
    net.untouched(WriteOut(["ElementWiseSoftplus"]))


def test_only_the_named_ops_are_written_out(net: Any) -> None:
    net.step("ElementWiseSoftplus", net.x)
    net.untouched(WriteOut(["ReduceSumSquare"]))


UNITS, FEATURES, BATCH = 3, 5, 2


def gru(
    steps: int,
    *,
    biases: bool = True,
    start: bool = True,
    time_major: bool = True,
    **params: Any,
) -> Graph:
    """Return a graph with a Gru, whose outputs are those of the graph."""
    rng, graph = np.random.default_rng(steps), Graph("net")
    shape = (steps, BATCH, FEATURES) if time_major else (BATCH, steps, FEATURES)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, shape, TensorKind.APP_WRITE))
    shapes = [(UNITS, FEATURES)] * 3 + [(UNITS, UNITS)] * 3 + [(UNITS,)] * 6 * biases
    inputs: list[Tensor | None] = [
        static(graph, f"w{i}", rng.normal(size=s).astype(np.float32)) for i, s in enumerate(shapes)
    ]
    inputs += [None] * 6 * (not biases)
    if start:
        h0 = Tensor("h0", DType.FLOAT_32, (1, BATCH, UNITS), TensorKind.APP_WRITE)
        inputs.append(graph.add_tensor(h0))
    outputs = add_all(graph, "Gru", [x, *inputs], name="gru", time_major=time_major, **params)
    for tensor in outputs:
        tensor.kind = TensorKind.APP_READ
    return graph


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("time_major", [True, False])
@pytest.mark.parametrize("linear", [0, 1])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"direction": 1},
        {"biases": False, "start": False},
    ],
)
def test_a_gru_is_written_out_step_by_step(
    evaluate: Evaluate, steps: int, time_major: bool, linear: int, more: dict[str, Any]
) -> None:
    graph = gru(steps, time_major=time_major, linear_before_reset=linear, **more)
    rng = np.random.default_rng(7)
    feed = {t.name: rng.normal(size=t.shape).astype(np.float32) for t in graph.inputs}
    names = [tensor.name for tensor in graph.outputs]
    before = evaluate(graph, feed)
    assert WriteOut(["Gru"]).run(graph)
    assert not find_faults(graph)
    assert "Gru" not in {node.op_type for node in graph.nodes}
    assert {source for node in graph.nodes for source in node.sources} == {"gru"}
    assert [tensor.name for tensor in graph.outputs] == names
    after = evaluate(graph, feed)
    for name in names:
        np.testing.assert_allclose(after[name], before[name], rtol=1e-5, atol=1e-6)
    assert not DeadCode().run(graph)


@pytest.mark.parametrize("unread", [0, 1])
def test_an_output_of_a_gru_that_nobody_reads_is_not_written(
    evaluate: Evaluate, unread: int
) -> None:
    graph = gru(3)
    graph.outputs[unread].kind = TensorKind.NATIVE
    (kept,) = (tensor.name for tensor in graph.outputs)
    feed = {t.name: np.ones(t.shape, np.float32) for t in graph.inputs}
    before = evaluate(graph, feed)[kept]
    assert WriteOut(["Gru"]).run(graph)
    np.testing.assert_allclose(evaluate(graph, feed)[kept], before, rtol=1e-5)
    assert not DeadCode().run(graph)


def test_a_gru_with_many_steps_open_sizes_a_state_or_computed_weights_stays() -> None:
    many = gru(1001)
    assert not can_write_out(many.nodes[0])
    open_batch = gru(2)
    open_batch.tensor("x").dynamic = (False, True, False)
    assert not can_write_out(open_batch.nodes[0])
    graph = gru(2)
    (node,) = graph.nodes
    reset = graph.add_tensor(Tensor("reset", DType.BOOL_8, (), TensorKind.APP_WRITE))
    graph.set_inputs(node, [*node.inputs, reset])
    assert not can_write_out(node)
    computed = gru(2)
    weight = computed.tensor("w0")
    weight.kind, weight.data = TensorKind.APP_WRITE, None
    assert not can_write_out(computed.nodes[0])
    assert not WriteOut(["Gru"]).run(computed)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pads", "dilation"),
    [
        ((6, 5), (3, 2), (1, 1), [(0, 0), (0, 0)], (1, 1)),
        ((8, 8), (3, 3), (2, 2), [(1, 1), (1, 1)], (1, 1)),
        ((9, 7), (2, 3), (3, 2), [(1, 0), (0, 2)], (1, 1)),
        ((9, 9), (2, 2), (2, 1), [(1, 1), (0, 0)], (3, 2)),
    ],
)
def test_columns_become_an_image_by_a_transposed_convolution(
    evaluate: Evaluate, size: Any, kernel: Any, stride: Any, pads: Any, dilation: Any
) -> None:
    graph = Graph("net")
    counts = [
        (n + sum(pad) - (k - 1) * d - 1) // s + 1
        for n, k, s, pad, d in zip(size, kernel, stride, pads, dilation, strict=True)
    ]
    shape = (2, 3 * kernel[0] * kernel[1], counts[0] * counts[1])
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, shape, TensorKind.APP_WRITE))
    params = {"kernel_size": kernel, "stride": stride, "pad_amount": pads, "dilation": dilation}
    spec = Spec(DType.FLOAT_32, (2, *size, 3))
    add(graph, "Col2Im", [x], name="y", spec=spec, **params).kind = TensorKind.APP_READ
    feed = {"x": np.random.default_rng(1).normal(size=shape).astype(np.float32)}
    before = evaluate(graph, feed)["y"]
    assert WriteOut(["Col2Im"]).run(graph)
    assert not find_faults(graph)
    assert [node.op_type for node in graph.nodes] == ["Transpose", "Reshape", "TransposeConv2d"]
    np.testing.assert_allclose(evaluate(graph, feed)["y"], before, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [DType.FLOAT_32, DType.FLOAT_16])
@pytest.mark.parametrize("rounding", [0, 1])
@pytest.mark.parametrize(
    ("filters", "stride", "pads"),
    [
        ((2, 2, 2), (2, 2, 2), [(0, 0)] * 3),
        ((3, 3, 3), (1, 2, 2), [(1, 1), (1, 0), (0, 1)]),
        ((1, 2, 3), (1, 2, 3), [(0, 0), (0, 1), (1, 1)]),
    ],
)
def test_a_maximum_in_three_dimensions_is_taken_in_two_steps(
    evaluate: Evaluate, filters: Any, stride: Any, pads: Any, rounding: int, dtype: DType
) -> None:
    graph = Graph("net")
    shape = (2, 5, 7, 6, 3)
    x = graph.add_tensor(Tensor("x", dtype, shape, TensorKind.APP_WRITE))
    params = {"filter_size": filters, "stride": stride, "pad_amount": pads}
    made = add(graph, "PoolMax3d", [x], name="y", rounding_mode=rounding, **params)
    made.kind = TensorKind.APP_READ
    feed = {"x": np.random.default_rng(1).normal(size=shape).astype(dtype.storage)}
    before = evaluate(graph, feed)["y"]
    assert WriteOut(["PoolMax3d"]).run(graph)
    assert not find_faults(graph)
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)
