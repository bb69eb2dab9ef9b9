"""Ops on more axes than backends take: axes along which they do the same become one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import AxisScaleOffset, DType, Graph, ScaleOffset, Shape, Spec, Tensor, TensorKind
from dovetail.ir.check import find_faults
from dovetail_opset.build import add, add_all, static
from dovetail_opset.passes import JoinAxes

Evaluate = Callable[..., Any]
SHAPE = (2, 3, 1, 4, 5)
Params = dict[str, Any]


def network(op_type: str, shapes: list[Shape], **params: Any) -> Graph:
    graph = Graph("net")
    inputs = [
        graph.add_tensor(Tensor(name, DType.FLOAT_32, shape, TensorKind.APP_WRITE))
        for name, shape in zip("abc", shapes, strict=False)
    ]
    add(graph, op_type, inputs, name="y", **params).kind = TensorKind.APP_READ
    return graph


def feeds(graph: Graph) -> dict[str, Any]:
    rng = np.random.default_rng(8)
    return {t.name: rng.uniform(0.1, 1, t.shape).astype(np.float32) for t in graph.inputs}


CASES: list[tuple[str, list[Shape], Params, Shape]] = [
    ("MatMul", [SHAPE, (2, 3, 1, 5, 6)], {}, (6, 1, 4, 6)),
    ("MatMul", [SHAPE, (2, 3, 1, 6, 5)], {"transpose_in1": True}, (6, 1, 4, 6)),
    ("MatMul", [SHAPE, (5, 6)], {}, (6, 1, 4, 6)),
    # in[1] varies along the first axis alone
    ("MatMul", [(2, 3, 7, 4, 5), (2, 1, 1, 5, 6)], {}, (2, 21, 4, 6)),
    ("MatMul", [(2, 3, 7, 2, 4, 5), (7, 2, 5, 6)], {}, (6, 14, 4, 6)),
    ("Gelu", [(2, 3, 4, 5, 6, 7)], {}, (24, 5, 6, 7)),
    ("Prelu", [SHAPE, (5,)], {}, (6, 1, 4, 5)),
    ("Softmax", [(2, 3, 1, 4, 2, 5)], {"axis": 5}, (6, 1, 4, 2, 5)),
    ("Softmax", [(2, 3, 1, 4, 2, 5)], {"axis": 1}, (2, 3, 4, 2, 5)),
    ("LogSoftmax", [SHAPE], {"axis": 4}, (6, 1, 4, 5)),
    ("LogSoftmax", [SHAPE], {"axis": 2}, (6, 1, 4, 5)),
    ("LayerNorm", [SHAPE, (4, 5), (4, 5)], {"axes": [3, 4]}, (6, 1, 4, 5)),
    ("RmsNorm", [SHAPE, (5,)], {"axes": [4]}, (6, 1, 4, 5)),
    ("L2Norm", [SHAPE], {"axis": 4}, (6, 1, 4, 5)),
    ("L2Norm", [SHAPE], {"axes": [2, 4]}, (6, 1, 4, 5)),
    ("L2Norm", [SHAPE], {"axis": 1}, (2, 3, 4, 5)),
    ("GroupNorm", [(2, 3, 1, 4, 6), (6,), (6,)], {"group": 2, "epsilon": 1e-3}, (2, 3, 4, 6)),
    ("ElementWiseAdd", [(2, 3, 1, 4, 2, 5), (2, 5)], {}, (6, 1, 4, 2, 5)),
    ("ElementWiseMultiply", [(2, 3, 1, 4, 2, 5), (2, 1, 1, 4, 1, 5)], {}, (2, 3, 4, 2, 5)),
    ("ElementWiseDivide", [(3, 1, 4, 2, 5), (2, 3, 1, 4, 2, 5)], {}, (2, 3, 4, 2, 5)),
    ("ElementWiseMaximum", [(2, 1, 3, 4, 2, 5), ()], {}, (2, 3, 4, 2, 5)),
    ("ElementWiseLess", [(2, 1, 3, 4, 2, 5), (4, 1, 1)], {}, (2, 3, 4, 2, 5)),
    ("Concat", [(2, 3, 1, 4, 5, 1), (2, 3, 1, 4, 5, 2)], {"axis": 5}, (6, 1, 4, 5, 3)),
    ("Concat", [(2, 3, 1, 4, 2, 5), (2, 2, 1, 4, 2, 5)], {"axis": 1}, (2, 5, 4, 2, 5)),
]


@pytest.mark.parametrize(("op_type", "shapes", "params", "computed"), CASES, ids=str)
def test_axes_are_joined(
    evaluate: Evaluate, op_type: str, shapes: list[Shape], params: Params, computed: Shape
) -> None:
    graph = network(op_type, shapes, **params)
    fed = feeds(graph)
    before = evaluate(graph, fed)["y"]
    assert JoinAxes().run(graph)
    assert not JoinAxes().run(graph)
    assert not find_faults(graph)
    (node,) = [n for n in graph.nodes if n.op_type == op_type]
    assert node.outputs[0].shape == computed
    np.testing.assert_allclose(evaluate(graph, fed)["y"], before, rtol=1e-6)


@pytest.mark.parametrize(
    ("op_type", "shapes", "params"),
    [
        ("MatMul", [(2, 3, 4, 5), (2, 3, 5, 6)], {}),  # few enough
        ("MatMul", [(2, 3, 4, 5, 6), (1, 3, 1, 6, 5)], {}),  # in[1] varies along every second one
        ("LayerNorm", [SHAPE, (3, 4)], {"axes": [1, 3]}),
        ("LogSoftmax", [(2, 3, 4, 5)], {"axis": 1}),
    ],
    ids=str,
)
def test_what_stays(op_type: str, shapes: list[Shape], params: Params) -> None:
    graph = network(op_type, shapes, **params)
    assert not JoinAxes().run(graph)


SIX = (2, 3, 4, 5, 2, 7)


@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMean", "ReduceSum", "ReduceSumSquare"])
@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize(
    ("shape", "axes", "computed"),
    [
        ((2, 3, 1, 4, 5, 7), [3, 5], (6, 4, 5, 7)),
        (SIX, [1, 2], (2, 12, 70)),
        (SIX, [4, 0], (2, 60, 2, 7)),
        (SIX, list(range(6)), (1680,)),
    ],
)
def test_reductions_join_axes(
    evaluate: Evaluate,
    op_type: str,
    shape: Shape,
    axes: list[int],
    computed: Shape,
    keep_dims: bool,
) -> None:
    graph = network(op_type, [shape], axes=axes, keep_dims=keep_dims)
    fed, result = feeds(graph), graph.outputs[0].shape
    before = evaluate(graph, fed)["y"]
    assert JoinAxes().run(graph)
    assert not JoinAxes().run(graph)
    assert not find_faults(graph)
    assert [node.op_type for node in graph.nodes] == ["Reshape", op_type, "Reshape"]
    assert graph.nodes[0].outputs[0].shape == computed
    assert graph.outputs[0].shape == result
    np.testing.assert_allclose(evaluate(graph, fed)["y"], before, rtol=1e-5)


@pytest.mark.parametrize("op_type", ["Argmax", "Argmin"])
@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize(("axis", "computed"), [(0, (2, 420)), (2, (6, 4, 35)), (4, (120, 7))])
def test_searches_join_axes(
    evaluate: Evaluate, op_type: str, axis: int, computed: Shape, keep_dims: bool
) -> None:
    graph = network(op_type, [(2, 3, 4, 5, 7)], axis=axis, keep_dims=keep_dims)
    fed, result = feeds(graph), graph.outputs[0].shape
    before = evaluate(graph, fed)["y"]
    assert JoinAxes().run(graph)
    assert not JoinAxes().run(graph)
    assert not find_faults(graph)
    assert graph.nodes[0].outputs[0].shape == computed
    assert graph.outputs[0].shape == result
    np.testing.assert_array_equal(evaluate(graph, fed)["y"], before)


@pytest.mark.parametrize("axes", [[0, 2, 4], []])
def test_reductions_of_other_axes_stay(axes: list[int]) -> None:
    shape = SIX if axes else (2, 3, 4, 5, 6)
    assert not JoinAxes().run(network("ReduceSum", [shape], axes=axes))


@pytest.mark.parametrize("by_axis", [False, True])
def test_conversions_of_types_join_axes_under_one_scale(by_axis: bool) -> None:
    graph, shape = Graph("net"), (2, 3, 1, 4, 2, 5)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, shape, TensorKind.APP_WRITE))
    grid = AxisScaleOffset(5, np.ones(5, np.float32)) if by_axis else ScaleOffset(0.5)
    y = Tensor("y", DType.SFIXED_POINT_8, shape, TensorKind.APP_READ, encoding=grid)
    add(graph, "Quantize", [x], name="q", outputs=y)
    assert JoinAxes().run(graph) is not by_axis
    assert not find_faults(graph)
    (node,) = [n for n in graph.nodes if n.op_type == "Quantize"]
    assert node.outputs[0].spec == Spec(
        DType.SFIXED_POINT_8, shape if by_axis else (6, 1, 4, 2, 5), grid
    )


@pytest.mark.parametrize(("axis", "computed"), [(0, (2, 3, 4, 2, 5)), (3, (6, 1, 2, 2, 5))])
def test_every_result_of_a_split_gets_its_shape(
    evaluate: Evaluate, axis: int, computed: Shape
) -> None:
    graph, shape = Graph("net"), (4, 3, 1, 4, 2, 5) if not axis else (2, 3, 1, 4, 2, 5)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, shape, TensorKind.APP_WRITE))
    for part in add_all(
        graph, "Split", [x], name="y", outputs=["a", "b"], axis=axis, split_index=[2]
    ):
        part.kind = TensorKind.APP_READ
    before = evaluate(graph, feeds(graph))
    assert JoinAxes().run(graph)
    assert not JoinAxes().run(graph)
    assert not find_faults(graph)
    (node,) = [n for n in graph.nodes if n.op_type == "Split"]
    assert [t.shape for t in node.outputs] == [computed] * 2
    after = evaluate(graph, feeds(graph))
    for name in ("a", "b"):
        np.testing.assert_array_equal(after[name], before[name])


@pytest.mark.parametrize("by_axis", [False, True])
def test_encodings_are_kept_or_the_op_stays(by_axis: bool) -> None:
    graph, u8 = Graph("net"), DType.UFIXED_POINT_8
    grid = ScaleOffset(0.5, -3)
    x = Tensor("x", u8, SHAPE, TensorKind.APP_WRITE, encoding=grid)
    y = Tensor("y", u8, (2, 3, 1, 4, 6), TensorKind.APP_READ, encoding=grid)
    weight = static(graph, "w", np.ones((2, 3, 1, 5, 6), np.int8), DType.SFIXED_POINT_8)
    weight.encoding = AxisScaleOffset(4, np.ones(6, np.float32)) if by_axis else ScaleOffset(0.1)
    add(graph, "MatMul", [graph.add_tensor(x), weight], name="product", outputs=y)
    assert JoinAxes().run(graph) is not by_axis
    assert not find_faults(graph)
    (node,) = [n for n in graph.nodes if n.op_type == "MatMul"]
    assert [t.encoding for t in (node.inputs[0], node.outputs[0])] == [grid, grid]


def test_names_that_are_taken() -> None:
    graph = Graph("net")
    shape = (2, 3, 4, 2, 2, 3)
    x = graph.add_tensor(Tensor("y.computed", DType.FLOAT_32, shape, TensorKind.APP_WRITE))
    add(graph, "Relu", [x], name="y").kind = TensorKind.APP_READ
    assert JoinAxes().run(graph)
    assert not find_faults(graph)
