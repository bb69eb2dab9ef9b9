"""The multiply-accumulates of ops: counted while the reference computes, and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, Graph, Spec, Tensor, TensorKind
from dovetail.ops import bind_node, input_specs
from dovetail.testing import OpCase, bind
from dovetail_opset import PACKAGE
from dovetail_opset.build import add_all
from dovetail_opset.testing import CASES

F32 = DType.FLOAT_32


class Counted:
    """A number without a value that counts the products of which it is the sum."""

    def __init__(self, products: int = 0) -> None:
        self.products = products

    def __mul__(self, other: object) -> Counted:
        return Counted(1)  # of two elements, or of an element and padding

    __rmul__ = __mul__

    def __add__(self, other: object) -> Counted:
        return Counted(self.products + (other.products if isinstance(other, Counted) else 0))

    __radd__ = __add__


def counted(case: OpCase) -> tuple[int, int]:
    """Return the products that the reference of a case computes, and the op's work."""
    schema = PACKAGE.schemas[case.op_type]
    node = bind(case).node(schema)
    op, ins, outs = bind_node(schema, node), input_specs(node), [t.spec for t in node.outputs]
    numbers = np.vectorize(lambda _: Counted(), otypes=[object])
    arrays = [None if s is None else numbers(np.empty(s.shape)) for s in ins]
    (result,) = schema.reference(op, arrays, outs)
    return sum(n.products for n in result.flat if isinstance(n, Counted)), schema.work(
        op, ins, outs
    )


WINDOWED = ("Conv1d", "Conv2d", "Conv3d", "DepthWiseConv1d", "DepthWiseConv2d")
PRODUCTS = ("FullyConnected", "MatMul")
cases = [c for c in CASES if c.op_type in (*WINDOWED, *PRODUCTS) and c.dtype is None]


@pytest.mark.parametrize("case", cases, ids=[case.id for case in cases])
def test_the_work_is_the_number_of_products_that_the_reference_computes(case: OpCase) -> None:
    products, work = counted(case)
    assert work == products


def test_every_windowed_op_and_product_is_among_the_cases() -> None:
    assert {case.op_type for case in cases} == {*WINDOWED, *PRODUCTS}


def work_of(op_type: str, *shapes: tuple[int, ...] | None, **params: Any) -> int:
    """Return the work of an op on inputs of these shapes."""
    graph = Graph("one")
    inputs = [
        None
        if shape is None
        else graph.add_tensor(Tensor(f"x{i}", F32, shape, TensorKind.APP_WRITE))
        for i, shape in enumerate(shapes)
    ]
    outs = add_all(graph, op_type, inputs, name="op", **params)
    (node,) = graph.nodes
    schema = PACKAGE.schemas[op_type]
    return schema.work(bind_node(schema, node), input_specs(node), [t.spec for t in outs])


# The first convolution of ResNet-50: 112 x 112 results of 64 filters of 7 x 7 x 3 each.
STEM = {"stride": (2, 2), "pad_amount": ((3, 3), (3, 3))}


@pytest.mark.parametrize(
    ("op_type", "shapes", "params", "work"),
    [
        ("Conv2d", [(1, 224, 224, 3), (7, 7, 3, 64)], STEM, 118_013_952),
        (
            "DepthWiseConv2d",  # 14 x 14 positions, 9 taps of 512 channels
            [(1, 14, 14, 512), (3, 3, 1, 512)],
            {"stride": (1, 1), "pad_amount": ((1, 1), (1, 1))},
            903_168,
        ),
        (
            "Conv2d",  # 8 x 8 positions, 16 outputs that read 9 taps of 4 of 8 channels
            [(1, 8, 8, 8), (3, 3, 4, 16)],
            {"stride": (1, 1), "pad_amount": ((1, 1), (1, 1)), "group": 2},
            36_864,
        ),
        (
            "TransposeConv2d",  # 5 x 7 elements of 6 channels, each with 4 taps of 2 outputs
            [(1, 5, 7, 6), (2, 2, 6, 2)],
            {"stride": (2, 2), "pad_amount": ((0, 0), (0, 0)), "group": 3},
            1_680,
        ),
        ("TransposeConv1d", [(3, 5, 2), (4, 2, 7)], {"stride": 2, "pad_amount": (1, 1)}, 840),
        ("FullyConnected", [(2, 6, 4), (10, 8)], {}, 480),  # 6 rows of 8, 10 units
        ("MatMul", [(5, 1, 3, 4), (2, 6, 4)], {"transpose_in1": True}, 720),
        ("MatMul", [(4, 3), (4, 6)], {"transpose_in0": True}, 72),
        # 3 steps, a batch of 2, 3 gates, 5 units that read 7 elements and 5 units
        ("Gru", [(3, 2, 7), *[(5, 7)] * 3, *[(5, 5)] * 3], {}, 1_080),
        # 2 elements, 5 positions in a row, 3 channels, 2 * 1 + 1 displacements
        ("Correlation1D", [(1, 2, 5, 3)] * 2, {"displacement": 1, "shift": 0}, 90),
        ("Relu", [(1, 8, 8, 4)], {}, 0),
        ("ElementWiseMultiply", [(4, 4), (4, 4)], {}, 0),
    ],
)
def test_work_counted_by_hand(
    op_type: str, shapes: list[tuple[int, ...]], params: dict[str, Any], work: int
) -> None:
    assert work_of(op_type, *shapes, **params) == work


def test_work_of_an_lstm_with_a_projection() -> None:
    """4 steps, a batch of 2, 4 gates of 5 units reading 7 elements and 3 outputs, then 3 x 5."""
    x, w, r, units, size = (4, 2, 7), (5, 7), (5, 3), (5,), (3, 5)
    shapes = [x, w, w, w, r, r, r, units, units, units, None, None, *[None] * 4]
    shapes += [w, r, None, None, None, units, size]
    assert work_of("Lstm", *shapes) == 4 * 2 * (4 * (5 * 7 + 5 * 3) + 3 * 5)
    del shapes[16:]
    coupled = work_of("Lstm", *shapes[:4], *[(5, 5)] * 3, *shapes[7:10])
    assert coupled == 4 * 2 * 3 * (5 * 7 + 5 * 5)


def test_work_without_elements_is_none() -> None:
    assert work_of("MatMul", (0, 4), (4, 6)) == 0
    schema = PACKAGE.schemas["FullyConnected"]
    assert schema.work(schema.op(), [Spec(F32, (4,)), Spec(F32, (0, 4))], [Spec(F32, (0,))]) == 0
