"""Attention is two products and a softmax: transposes and scales fold into them where they may."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import (
    AxisScaleOffset,
    DType,
    Graph,
    Scalar,
    ScaleOffset,
    Tensor,
    TensorKind,
    find_faults,
)
from dovetail_opset.build import add, static
from dovetail_opset.passes import (
    CONVERT_DEFAULT,
    FoldSoftmaxScale,
    FoldTransposedMatmul,
    MergeMatmulScales,
)

Evaluate = Callable[..., Any]
F32 = DType.FLOAT_32
SWAP = (0, 1, 3, 2)


# -- transposes ------------------------------------------------------------------------------------


def operands(net: Any, sides: tuple[bool, bool], flags: tuple[bool, bool]) -> list[Tensor]:
    """Return (2, 3, 5, 4) and (2, 3, 4, 6), after transposes as the flags say."""
    left, right = net.x, net.constant(2, 3, 4, 6)
    right = net.step("ElementWiseMultiply", right, net.step("ReduceMean", net.x, axes=[0, 1, 2, 3]))
    turned = [left, right]
    for i, (side, flag) in enumerate(zip(sides, flags, strict=True)):
        if side != flag:  # stored the other way round
            turned[i] = net.step("Transpose", turned[i], perm=SWAP)
        if side:
            turned[i] = net.step("Relu", turned[i]) if side != flag else turned[i]
            turned[i] = net.step("Transpose", turned[i], perm=SWAP)
    return turned


@pytest.mark.parametrize("sides", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True), (True, True)])
def test_transposes_of_the_last_two_axes_become_params(
    net: Any, evaluate: Evaluate, sides: tuple[bool, bool], flags: tuple[bool, bool]
) -> None:
    a, b = operands(net, sides, flags)
    y = net.step("MatMul", a, b, net.constant(6), transpose_in0=flags[0], transpose_in1=flags[1])
    behind = [i for i in range(2) if net.graph.producer((a, b)[i]) is not None]
    assert behind
    ops = net.check(y, FoldTransposedMatmul(), evaluate)
    assert ops[-1] == "MatMul"
    last = net.graph.nodes[-1]
    for tensor in last.inputs[:2]:
        maker = net.graph.producer(tensor)
        assert maker is None or maker.op_type != "Transpose"


def test_a_matrix_alone_is_transposed_too(net: Any, evaluate: Evaluate) -> None:
    rows = net.input(5, 4)
    y = net.step("MatMul", rows, net.step("Transpose", rows, perm=(1, 0)))
    assert net.check(y, FoldTransposedMatmul(), evaluate) == ["MatMul"]
    assert net.graph.nodes[0].inputs == (rows, rows)


def test_what_others_read_stays_for_them(net: Any, evaluate: Evaluate) -> None:
    turned = net.step("Transpose", net.x, perm=SWAP)
    net.step("Relu", turned).kind = TensorKind.APP_READ
    y = net.step("MatMul", net.x, turned)
    assert sorted(net.check(y, FoldTransposedMatmul(), evaluate)) == ["MatMul", "Relu", "Transpose"]
    assert net.graph.producer(y).inputs == (net.x, net.x)


@pytest.mark.parametrize("perm", [(0, 2, 3, 1), (0, 2, 1, 3), (1, 0, 3, 2)])
def test_a_transpose_that_moves_heads_stays(net: Any, perm: tuple[int, ...]) -> None:
    turned = net.step("Transpose", net.x, perm=perm)
    other = net.constant(*turned.shape[:-2], turned.shape[-1], 2)
    net.step("MatMul", turned, other)
    net.untouched(FoldTransposedMatmul())


def test_an_updateable_operand_is_not_looked_through(net: Any) -> None:
    tuned = net.constant(6, 4)
    tuned.kind = TensorKind.UPDATEABLE_STATIC
    net.step("MatMul", net.x, net.step("Transpose", tuned, perm=(1, 0)))
    net.untouched(FoldTransposedMatmul())


def fixed_point(encoding: Any, after: Any) -> Graph:
    graph, u8 = Graph("g"), DType.UFIXED_POINT_8
    x = Tensor("x", u8, (2, 4), TensorKind.APP_WRITE, encoding=ScaleOffset(0.5))
    w = Tensor("w", u8, (3, 4), TensorKind.APP_WRITE, encoding=encoding)
    turned = Tensor("t", u8, (4, 3), encoding=after)
    out = Tensor("y", u8, (2, 3), TensorKind.APP_READ, encoding=ScaleOffset(4.0))
    graph.add_tensor(x)
    graph.add_tensor(w)
    add(graph, "Transpose", [w], name="turn", outputs=turned, perm=(1, 0))
    add(graph, "MatMul", [x, turned], name="m", outputs=out)
    return graph


def test_encodings_of_the_operand_are_those_before_the_transpose(evaluate: Evaluate) -> None:
    by_row = AxisScaleOffset(0, np.array([0.5, 0.25, 1], np.float32))
    graph = fixed_point(by_row, by_row.transposed((1, 0)))
    rng = np.random.default_rng(0)
    feed = {n: rng.integers(0, 40, s, dtype=np.uint8) for n, s in (("x", (2, 4)), ("w", (3, 4)))}
    before = evaluate(graph, feed)["y"]
    assert before.any()
    assert FoldTransposedMatmul().run(graph)
    assert not find_faults(graph)
    (node,) = graph.nodes
    assert node.inputs[1] is graph.tensor("w")
    assert node.inputs[1].encoding == by_row
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], before)


def test_a_transpose_that_requantizes_stays() -> None:
    graph = fixed_point(ScaleOffset(0.5), ScaleOffset(2.0))
    assert not FoldTransposedMatmul().run(graph)


# -- scales ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("how", ["multiply", "multiply by it", "divide"])
@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_a_scale_becomes_beta(
    net: Any, evaluate: Evaluate, op_type: str, how: str, beta: float
) -> None:
    if how == "divide":
        scaled = net.step("ElementWiseDivide", net.x, net.number(8, 1))
    else:
        pair = (net.x, net.number(0.125))
        scaled = net.step("ElementWiseMultiply", *(pair if how == "multiply" else pair[::-1]))
    y = net.step(op_type, scaled, axis=3, beta=beta)
    name = net.graph.nodes[0].name
    assert net.check(y, FoldSoftmaxScale(), evaluate) == [op_type]
    (node,) = net.graph.nodes
    assert node.params["beta"] == Scalar(F32, 0.125 * beta)
    assert node.sources[0] == name


def test_scales_in_a_row_all_become_beta(net: Any, evaluate: Evaluate) -> None:
    once = net.step("ElementWiseMultiply", net.x, net.number(0.5))
    twice = net.step("ElementWiseDivide", once, net.number(4))
    y = net.step("Softmax", twice)
    y.kind = TensorKind.APP_READ
    feed = {"x": np.random.default_rng(0).standard_normal(net.x.shape, np.float32)}
    before = evaluate(net.graph, feed)[y.name]
    while FoldSoftmaxScale().run(net.graph):
        pass
    assert net.ops() == ["Softmax"]
    # powers of two: the same numbers
    np.testing.assert_array_equal(evaluate(net.graph, feed)[y.name], before)


@pytest.mark.parametrize("number", [0.0, -1.0, float("inf"), float("nan")])
def test_numbers_that_are_no_scale_stay(net: Any, number: float) -> None:
    net.step("Softmax", net.step("ElementWiseMultiply", net.x, net.number(number)))
    net.untouched(FoldSoftmaxScale())


def test_what_is_no_scale_before_a_softmax_stays(net: Any) -> None:
    x = net.x
    net.step("Softmax", net.step("ElementWiseMultiply", x, net.constant(4)))  # several numbers
    net.step("Softmax", net.step("ElementWiseDivide", net.number(2), x))  # the other way round
    net.step("Softmax", net.step("ElementWiseMultiply", x, net.number(2, 1, 1, 1, 1, 1)))  # rank 5
    tuned = net.number(2)
    tuned.kind = TensorKind.UPDATEABLE_STATIC
    net.step("Softmax", net.step("ElementWiseMultiply", x, tuned))
    seen = net.step("ElementWiseMultiply", x, net.number(2))
    net.step("Softmax", seen)
    seen.kind = TensorKind.APP_READ
    ranged = net.step("ElementWiseMultiply", x, net.number(2))
    net.step("Softmax", ranged)
    ranged.encoding = ScaleOffset(0.25)
    net.untouched(FoldSoftmaxScale())


def test_a_scale_before_a_mask_stays(net: Any) -> None:
    scaled = net.step("ElementWiseMultiply", net.x, net.number(0.5))
    net.step("Softmax", net.step("ElementWiseAdd", scaled, net.constant(5, 4)))
    net.untouched(FoldSoftmaxScale())


def test_scores_of_fixed_point_keep_their_scale() -> None:
    # the product rounds to its own encoding, which beta would not
    graph, u8 = Graph("g"), DType.UFIXED_POINT_8
    x = graph.add_tensor(Tensor("x", u8, (2, 4), TensorKind.APP_WRITE, encoding=ScaleOffset(0.5)))
    two = static(graph, "two", np.array([2], np.uint8), u8, encoding=ScaleOffset(1.0))
    scaled = Tensor("s", u8, (2, 4), encoding=ScaleOffset(1.0))
    add(graph, "ElementWiseMultiply", [x, two], name="m", outputs=scaled)
    out = Tensor("y", u8, (2, 4), TensorKind.APP_READ, encoding=ScaleOffset(1 / 256))
    add(graph, "Softmax", [scaled], name="p", outputs=out)
    assert not FoldSoftmaxScale().run(graph)


@pytest.mark.parametrize("first", ["ElementWiseMultiply", "ElementWiseDivide"])
@pytest.mark.parametrize("second", ["ElementWiseMultiply", "ElementWiseDivide"])
def test_scales_of_queries_and_keys_become_one(
    net: Any, evaluate: Evaluate, first: str, second: str
) -> None:
    query = net.step(first, net.x, net.number(0.5))
    key = net.step(second, net.step("Transpose", net.x, perm=SWAP), net.number(0.25))
    y = net.step("MatMul", query, key)
    assert net.check(y, MergeMatmulScales(), evaluate) == [first, "Transpose", "MatMul"]
    FoldTransposedMatmul().run(net.graph)
    assert net.ops() == [first, "MatMul"]


def test_scales_of_one_side_and_those_in_use_stay(net: Any) -> None:
    x, other = net.x, net.constant(4, 2)

    def scaled(value: Tensor, number: Tensor) -> Any:
        return net.step("ElementWiseMultiply", value, number)

    net.step("MatMul", scaled(x, net.number(2)), other)
    net.step("MatMul", x, scaled(net.step("Transpose", x, perm=SWAP), net.number(2)))
    keys = net.step("Transpose", x, perm=SWAP)
    net.step("MatMul", scaled(x, net.number(2)), scaled(keys, net.constant(5)))  # by column
    net.step("MatMul", scaled(x, net.number(2.0**-10)), scaled(keys, net.number(2.0**-10)))
    net.step("MatMul", scaled(x, net.number(2)), scaled(keys, net.number(0)))
    seen = scaled(keys, net.number(2))
    seen.kind = TensorKind.APP_READ
    net.step("MatMul", scaled(x, net.number(2)), seen)
    ranged = scaled(keys, net.number(2))
    ranged.encoding = ScaleOffset(0.25)
    net.step("MatMul", scaled(x, net.number(2)), ranged)
    shared = scaled(keys, net.number(2))
    net.step("MatMul", scaled(x, net.number(2)), shared)
    net.step("Relu", shared)
    net.untouched(MergeMatmulScales())


# -- both ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [True, False])
def test_attention_is_left_without_copies_beyond_those_of_heads(
    net: Any, evaluate: Evaluate, mask: bool
) -> None:
    query, key, value = (
        net.step("MatMul", net.x, net.constant(4, 4)) for _ in range(3)
    )  # of three heads
    scores = net.step("MatMul", query, net.step("Transpose", key, perm=SWAP))
    scores = net.step("ElementWiseDivide", scores, net.number(2))
    if mask:
        scores = net.step("ElementWiseAdd", scores, net.constant(5, 5))
    y = net.step("MatMul", net.step("Softmax", scores), value)
    y.kind = TensorKind.APP_READ
    feed = {"x": np.random.default_rng(1).standard_normal(net.x.shape, np.float32)}
    before = evaluate(net.graph, feed)[y.name]
    CONVERT_DEFAULT.run(net.graph)
    middle = ["ElementWiseDivide", "ElementWiseAdd"] if mask else []
    left = sorted(["MatMul"] * 5 + middle + ["Softmax"])
    assert sorted(net.ops()) == left
    # sums of four float32 products in another order
    np.testing.assert_allclose(evaluate(net.graph, feed)[y.name], before, rtol=1e-5, atol=1e-6)
