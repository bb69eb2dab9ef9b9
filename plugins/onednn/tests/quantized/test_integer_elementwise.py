"""Elementwise functions of stored bytes: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instruction_limits import examples

from dovetail.ir import DType, ScaleOffset, Tensor, TensorKind
from dovetail.runtime.plan import PlanPrepared
from dovetail_onednn.quantized.lines import line_through

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
EVERY = np.arange(256)
# every pair of bytes; rows that fill no vector; an operand for each channel; one for each of the
# rows of an axis; one for each place; few elements
SHAPES = [
    ((256, 256), (256, 256)),
    ((37, 131), (37, 131)),
    ((3, 50, 71), (71,)),
    ((1, 1, 72), (64, 9, 72)),
    ((2, 40, 80), (2, 1, 80)),
    ((1, 9, 31, 40), (1, 9, 31, 1)),
    ((1, 40, 50, 3), (1, 1, 1, 3)),
    ((2, 6, 24), (24,)),
]


@st.composite
def grids(draw: st.DrawFn) -> tuple[DType, float, int, int | None]:
    """Draw type, scale, zero point and bits of a tensor, extreme ones too."""
    dtype = draw(st.sampled_from([U8, S8]))
    low, high = dtype.stored_range()
    scale = draw(st.floats(2**-9, 2**3, width=32) | st.floats(2**-40, 2**30, width=32))
    zero = draw(st.sampled_from([0, low, high]) | st.integers(low, high))
    return dtype, scale, zero, draw(st.sampled_from([None, None, None, 5]))


def encoded(grid: tuple[DType, float, int, int | None]) -> dict[str, Any]:
    dtype, scale, zero, bits = grid
    return {"dtype": dtype, "encoding": ScaleOffset(scale, -zero, bits)}


def feeds_of(net: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    """Return all pairs of stored integers if the shape has room for them, else random ones."""
    feeds: dict[str, Any] = net.feeds()
    if shape == (256, 256):
        for axis, (name, values) in enumerate(feeds.items()):
            every = EVERY.astype(np.uint8).view(values.dtype)
            feeds[name] = np.ascontiguousarray(np.broadcast_to(np.expand_dims(every, axis), shape))
    return feeds


def input_of(net: Any, name: str, shape: tuple[int, ...], **grid: Any) -> Tensor:
    tensor = Tensor(name, shape=shape, kind=TensorKind.APP_WRITE, **grid)
    added: Tensor = net.graph.add_tensor(tensor)
    return added


def check_bits(net: Any, result: Tensor, feeds: dict[str, Any]) -> PlanPrepared:
    """Check that a plan's result is the definition's."""
    result.kind = TensorKind.APP_READ
    prepared: PlanPrepared = net.prepare()
    found, wanted = net.run(prepared, feeds), net.defined(feeds)
    np.testing.assert_array_equal(found[result.name], wanted[result.name])
    return prepared


@pytest.mark.parametrize("op", ["ElementWiseAdd", "ElementWiseSubtract", "ElementWiseMultiply"])
@given(
    shapes=st.sampled_from(SHAPES),
    drawn=st.tuples(grids(), grids(), grids()),
    is_swapped=st.booleans(),
)
@examples(60)
def test_two_tensors(new_network: Any, op: str, shapes: Any, drawn: Any, is_swapped: bool) -> None:
    net = new_network()
    given_shapes = shapes[::-1] if is_swapped else shapes
    names = zip("ab", given_shapes, drawn[:2], strict=True)
    ins = [input_of(net, name, shape, **encoded(grid)) for name, shape, grid in names]
    result = net.add(op, *ins, name="y")
    grid = encoded(drawn[2])
    result.dtype, result.encoding = grid["dtype"], grid["encoding"]
    check_bits(net, result, feeds_of(net, shapes[0]))


FUNCTIONS: dict[str, dict[str, Any]] = {
    "Relu": {},
    "Relu6": {},
    "ReluMinMax": {"min_value": -1.0, "max_value": 2.0},
    "HardSwish": {},
    "Sigmoid": {},
    "ElementWiseNeg": {},
    "ElementWiseAbs": {},
}


@pytest.mark.parametrize("op", FUNCTIONS)
@given(shape=st.sampled_from([(256, 256), (37, 131)]), drawn=st.tuples(grids(), grids()))
@examples(30)
def test_one_tensor(new_network: Any, op: str, shape: Any, drawn: Any) -> None:
    net = new_network()
    x = input_of(net, "a", shape, **encoded(drawn[0]))
    result = net.add(op, x, name="y", **FUNCTIONS[op])
    grid = encoded(drawn[1])
    result.dtype, result.encoding = grid["dtype"], grid["encoding"]
    check_bits(net, result, feeds_of(net, shape))


@pytest.mark.parametrize("zeros", [(0, 0), (113, 7)])
@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        ("ElementWiseAdd", SHAPES[0]),
        ("ElementWiseSubtract", SHAPES[2]),
        ("ElementWiseMultiply", SHAPES[2]),
        ("ElementWiseMultiply", SHAPES[-2]),
        ("ElementWiseMultiply", SHAPES[-1]),
        ("ElementWiseAdd", SHAPES[-1]),
        ("Relu6", SHAPES[1]),
    ],
)
def test_engine_computes_usual_encodings(
    new_network: Any, op: str, shapes: Any, zeros: tuple[int, int]
) -> None:
    net = new_network()
    count = 1 if op == "Relu6" else 2
    ins = [
        input_of(net, name, shape, dtype=U8, encoding=ScaleOffset(0.031, -zero))
        for name, shape, zero in zip("ab"[:count], shapes, zeros, strict=False)
    ]
    result = net.add(op, *ins, name="y", scale=0.043, zero=3)
    prepared = check_bits(net, result, feeds_of(net, shapes[0]))
    assert [step.bind.__module__ for step in prepared.steps] == ["dovetail_onednn.execution"]


@given(
    slope=st.floats(-300, 300),
    start=st.floats(-5000, 5000),
    limits=st.tuples(st.integers(0, 255), st.integers(0, 255)),
)
@examples(300)
def test_line_through_points_of_a_line(slope: float, start: float, limits: Any) -> None:
    low, high = min(limits), max(limits)
    wanted = np.clip(np.rint(slope * EVERY + start), low, high).astype(np.int64)
    line = line_through(EVERY, wanted)
    if line is None:
        # only where two results cannot be told from rounding errors
        parts = (slope * EVERY + start)[(wanted > low) | (wanted < high)] % 1
        assert abs(parts - 0.5).min() < 0.02
        return
    found = np.float32(line.slope) * EVERY.astype(np.float64) + np.float32(line.start)
    np.testing.assert_array_equal(np.clip(np.rint(found), line.low, line.high), wanted)


def test_no_line_through_a_curve() -> None:
    assert line_through(EVERY, np.rint(EVERY.astype(float) ** 2 / 255).astype(np.int64)) is None
