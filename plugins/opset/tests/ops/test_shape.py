"""Shapes as values, and tensors made of shapes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.errors import GraphError, OpError
from dovetail.ir import (
    Array,
    AxisScaleOffset,
    DType,
    Encoding,
    Graph,
    Scalar,
    ScaleOffset,
    Shape,
    Spec,
    Tensor,
    TensorKind,
)
from dovetail.ops import OpRegistry, check_ops
from dovetail_opset import PACKAGE
from dovetail_opset.build import add

Run = Callable[..., Any]
U8, CODE = DType.UFIXED_POINT_8, ScaleOffset(0.5, -10)


@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (4, 0, 2, 1)])
def test_shape(run_op: Run, shape: Shape) -> None:
    found = run_op("Shape", np.zeros(shape, np.float16))
    assert (found.tolist(), found.dtype) == (list(shape), np.uint32)


@pytest.mark.parametrize(("start", "end"), [(0, 4), (1, 3), (2, 2), (4, 4)])
def test_part_of_a_shape(run_op: Run, start: int, end: int) -> None:
    found = run_op("Shape", np.zeros((5, 6, 7, 8)), start=start, end=end)
    assert found.tolist() == [5, 6, 7, 8][start:end]


@pytest.mark.parametrize("params", [{"end": 3}, {"start": 3}, {"start": 2, "end": 1}])
def test_no_part_of_a_shape(run_op: Run, params: dict[str, int]) -> None:
    with pytest.raises(OpError, match="select no dimensions of in"):
        run_op("Shape", np.zeros((2, 3)), **params)


def fill(
    evaluate: Callable[..., Any], value: Scalar, spec: Spec, extents: tuple[int, ...]
) -> Array:
    graph = Graph("g")
    shape = Tensor("shape", DType.UINT_32, (len(extents),), TensorKind.APP_WRITE)
    graph.add_tensor(shape)
    add(graph, "ConstantOfShape", [shape], name="y", spec=spec, value=0)
    graph.node("y").params["value"] = value
    found: Array = evaluate(graph, {"shape": np.array(extents, np.uint32)})["y"]
    return found


@pytest.mark.parametrize("shape", [(), (2, 3), (0, 4)])
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (DType.FLOAT_32, Scalar(DType.FLOAT_32, 2.5)),
        (DType.FLOAT_16, Scalar(DType.FLOAT_32, 2.5)),
        (DType.INT_64, Scalar(DType.INT_64, -(2**60))),
        (DType.BOOL_8, Scalar(DType.BOOL_8, True)),
    ],
)
def test_constant_of_shape(
    evaluate: Callable[..., Any], shape: Shape, dtype: DType, value: Scalar
) -> None:
    found = fill(evaluate, value, Spec(dtype, shape), shape)
    assert (found.shape, found.dtype) == (shape, dtype.storage)
    assert all(element == value.value for element in found.reshape(-1))


def test_constant_of_bfloat16_is_rounded_to_it(evaluate: Callable[..., Any]) -> None:
    spec = Spec(DType.BFLOAT_16, (2,))
    found = fill(evaluate, Scalar(DType.FLOAT_32, 1.0), spec, (2,))
    np.testing.assert_array_equal(found, [0x3F80, 0x3F80])
    found = fill(evaluate, Scalar(DType.INT_32, 1), spec, (2,))
    np.testing.assert_array_equal(found, [0x3F80, 0x3F80])


def test_fixed_point_takes_stored_integers_and_real_floats(evaluate: Callable[..., Any]) -> None:
    spec = Spec(U8, (1,), CODE)
    assert fill(evaluate, Scalar(DType.UINT_32, 7), spec, (1,)) == [7]
    assert fill(evaluate, Scalar(DType.FLOAT_32, 7.0), spec, (1,)) == [24]


def test_the_values_must_be_the_declared_extents(evaluate: Callable[..., Any]) -> None:
    with pytest.raises(OpError, match=r"in\[0\] holds the shape \(2, 4\), but the output has"):
        fill(evaluate, Scalar(DType.FLOAT_32, 0), Spec(DType.FLOAT_32, (2, 3)), (2, 4))


@pytest.mark.parametrize(
    ("value", "dtype", "encoding", "said"),
    [
        (Scalar(DType.FLOAT_32, 2.5), DType.INT_8, None, "value is 2.5, which INT_8 cannot hold"),
        (Scalar(DType.INT_32, 300), U8, CODE, "value is 300, which UFIXED_POINT_8 cannot hold"),
        (
            Scalar(DType.INT_32, 3),
            U8,
            AxisScaleOffset(0, np.ones(1, np.float32)),
            "value has no single stored value",
        ),
    ],
)
def test_values_that_do_not_fit(
    value: Scalar, dtype: DType, encoding: Encoding | None, said: str
) -> None:
    graph = Graph("g")
    shape = graph.add_tensor(Tensor("shape", DType.UINT_32, (1,), TensorKind.APP_WRITE))
    add(graph, "ConstantOfShape", [shape], name="y", spec=Spec(dtype, (1,), CODE), value=0)
    node = graph.node("y")
    node.params["value"] = value
    node.outputs[0].encoding = encoding
    with pytest.raises(GraphError) as caught:
        check_ops(graph, OpRegistry.of(PACKAGE))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("extents", "spec", "said"),
    [
        ((2, 3), None, "must declare its shape and type"),
        ((2, 3), Spec(DType.FLOAT_32, (6,)), r"in\[0\] has 2 sizes for the output \(6,\)"),
        ([[2]], Spec(DType.FLOAT_32, (2,)), r"in\[0\] must have rank 1"),
    ],
)
def test_refusals(run_op: Run, extents: Any, spec: Spec | None, said: str) -> None:
    with pytest.raises(OpError, match=said):
        run_op("ConstantOfShape", np.array(extents, np.uint32), specs=(spec,), value=0)
