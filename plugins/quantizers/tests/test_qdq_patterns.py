"""What is taken for quantizing in a graph, and what is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from quantizing import model_of, new_graph, output

import dovetail as dt
from dovetail.ir import DType, Graph, Scalar, ScaleOffset, Spec, Tensor
from dovetail_opset.build import add, static
from dovetail_quantizers.planning.qdq_patterns import QdqPattern, find_pattern, storage_of

RNG = np.random.default_rng(71)


@pytest.mark.parametrize(
    ("levels", "wanted"),
    [
        ((0, 255), (DType.UFIXED_POINT_8, None)),
        ((-128, 127), (DType.SFIXED_POINT_8, None)),
        ((-127, 127), (DType.SFIXED_POINT_8, None)),
        ((0, 127), (DType.UFIXED_POINT_8, 7)),
        ((-8, 7), (DType.SFIXED_POINT_8, 4)),
        ((-7, 7), (DType.SFIXED_POINT_8, 4)),
        ((0, 3), (DType.UFIXED_POINT_8, 2)),
        ((-512, 511), (DType.SFIXED_POINT_16, 10)),
        ((0, 65535), (DType.UFIXED_POINT_16, None)),
        ((0, 254), None),
        ((1, 255), None),
        ((-128, 126), None),
        ((-100, 127), None),
        ((0, 1), None),
        ((0, 131071), None),
        ((-4, -1), None),
    ],
)
def test_ranges_of_integers_have_a_type(
    levels: tuple[int, int], wanted: tuple[DType, int | None] | None
) -> None:
    assert storage_of(levels) == wanted


@pytest.mark.parametrize(("border", "is_real"), [(0.5, True), (Scalar(DType.INT_32, 3), False)])
def test_a_pad_moves_stored_values_if_its_border_is_real(border: Any, is_real: bool) -> None:
    graph, x = new_graph((1, 4))
    spec = Spec(DType.UFIXED_POINT_8, x.shape, ScaleOffset(0.25, -3))
    stored = add(graph, "Quantize", [x], name="stored", spec=spec)
    amount = np.array([(0, 0), (1, 2)], np.uint32)
    padded = add(
        graph, "Pad", [stored], name="pad", scheme=0, pad_amount=amount, pad_constant_value=border
    )
    output(add(graph, "Dequantize", [padded], name="y"))
    assert [pattern.x for pattern in found(graph)] == [x] * is_real


def computed(graph: Graph, x: Tensor, op_type: str) -> Tensor:
    """Return a number that is computed from a tensor."""
    return add(graph, op_type, [x], name="number", axes=[0, 1], keep_dims=False)


def written(
    graph: Graph,
    x: Tensor,
    *,
    scales: tuple[str, str] = ("ReduceMax", "ReduceMax"),
    zeros: tuple[str, str] = ("ReduceMin", "ReduceMin"),
    ends: tuple[float, float] = (0, 255),
) -> Tensor:
    """x quantized and made real again in small ops, with both ways' scales and zero points."""
    numbers = {each: computed(graph, x, each) for each in (*scales, *zeros)}
    whole, real = Spec(DType.UINT_8, x.shape), Spec(DType.FLOAT_32, x.shape)
    x = add(graph, "ElementWiseDivide", [x, numbers[scales[0]]], name="quotient")
    x = add(graph, "ElementWiseRound", [x], name="rounded")
    x = add(graph, "ElementWiseAdd", [x, numbers[zeros[0]]], name="shifted")
    x = add(graph, "ReluMinMax", [x], name="clipped", min_value=ends[0], max_value=ends[1])
    x = add(graph, "Cast", [x], name="stored", spec=whole)
    x = add(graph, "Cast", [x], name="real", spec=real)
    x = add(graph, "ElementWiseSubtract", [x, numbers[zeros[1]]], name="difference")
    return add(graph, "ElementWiseMultiply", [x, numbers[scales[1]]], name="again")


def found(graph: Graph) -> list[QdqPattern]:
    each = (find_pattern(graph, node) for node in graph.nodes)
    return [one for one in each if one is not None]


def test_both_ways_are_the_same() -> None:
    graph, x = new_graph((2, 3))
    output(add(graph, "Tanh", [written(graph, x)], name="y"))
    (one,) = found(graph)
    assert one.x is x
    assert one.encoding is None
    assert [end.node.name for end in one.ends] == ["again"]


@pytest.mark.parametrize(
    "how",
    [
        {"scales": ("ReduceMax", "ReduceMean")},
        {"zeros": ("ReduceMin", "ReduceMean")},
        {"ends": (0, 254)},
    ],
)
def test_other_arithmetic_is_no_quantizing(how: dict[str, Any]) -> None:
    graph, x = new_graph((2, 3))
    output(add(graph, "Tanh", [written(graph, x, **how)], name="y"))
    assert not found(graph)


def test_ops_of_their_own_with_two_readers_and_a_move() -> None:
    graph, x = new_graph((2, 3))
    encoding = ScaleOffset(0.05, -100)
    spec = Spec(DType.UFIXED_POINT_8, x.shape, encoding)
    stored = add(graph, "Quantize", [x], name="stored", spec=spec)
    a = add(graph, "Dequantize", [stored], name="a")
    turned = Spec(spec.dtype, (3, 2), encoding)
    moved = add(graph, "Transpose", [stored], name="moved", perm=(1, 0), spec=turned)
    b = add(graph, "Dequantize", [moved], name="b")
    output(add(graph, "MatMul", [a, b], name="y"))
    samples = RNG.standard_normal((8, 2, 3)).astype(np.float32)
    made = dt.quantize(model_of(graph), samples).graphs["net"]
    assert [node.op_type for node in made.nodes] == ["Transpose", "MatMul"]
    assert all(t.encoding == encoding for n in made.nodes for t in n.inputs if t is not None)


def test_integers_that_go_elsewhere_too_stay_for_that() -> None:
    """The pair goes, and what reads the integers still gets them."""
    graph, x = new_graph((2, 3))
    encoding = ScaleOffset(0.05, -100)
    spec = Spec(DType.UFIXED_POINT_8, x.shape, encoding)
    stored = add(graph, "Quantize", [x], name="stored", spec=spec)
    output(stored)
    output(add(graph, "Tanh", [add(graph, "Dequantize", [stored], name="a")], name="y"))
    samples = RNG.standard_normal((8, 2, 3)).astype(np.float32)
    made = dt.quantize(model_of(graph), samples)
    assert {n.op_type for n in made.graphs["net"].nodes} <= {"Quantize", "Convert", "Tanh"}
    with dt.Session(made) as session:
        got = session.run({"x": samples[0]})
    np.testing.assert_allclose(got["stored"], samples[0], atol=0.0251)  # half a step


@pytest.mark.parametrize("number_of", [(0.1, 1e12), (0.1, 0.5), (-0.1, 3), (0.0, 3)])
def test_integers_with_other_arithmetic_stay_integers(number_of: tuple[float, float]) -> None:
    graph, x = new_graph((2, 3), DType.UINT_8)
    real = add(graph, "Cast", [x], name="real", spec=Spec(DType.FLOAT_32, x.shape))
    scale, zero = number_of
    numbers = [static(graph, "number", np.asarray(each, np.float32)) for each in (zero, scale)]
    moved = add(graph, "ElementWiseSubtract", [real, numbers[0]], name="moved")
    output(add(graph, "ElementWiseMultiply", [moved, numbers[1]], name="y"))
    made = dt.quantize(model_of(graph), [np.ones((2, 3), np.uint8)]).graphs["net"]
    assert "Dequantize" not in {node.op_type for node in made.nodes}
    assert made.tensor("x").dtype is DType.UINT_8
