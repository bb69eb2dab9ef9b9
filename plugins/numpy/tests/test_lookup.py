"""Tables of elementwise functions: the steps of a plan return what the definition does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dovetail.container import WeightStore
from dovetail.ir import DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail.ops import CheckedGraph, OpRegistry, check_ops
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import PlanPrepared, build_plan
from dovetail.runtime.plan.binds import VIEW
from dovetail_numpy import KERNELS
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.kernels import lookup, wide
from dovetail_opset import PACKAGE
from dovetail_opset.build import add

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16
FUNCTIONS = ("Relu", "Relu6", "Sigmoid", "HardSwish", "Gelu", "ElementWiseExp", "ElementWiseAbs")
BINARY = (
    "ElementWiseAdd",
    "ElementWiseSubtract",
    "ElementWiseMultiply",
    "ElementWiseDivide",
    "ElementWiseMaximum",
    "ElementWiseSquaredDifference",
    "ElementWisePower",
    "ElementWiseFloorDiv",
)
# Smaller and larger than what is looked up by pairs, of odd and even sizes.
SHAPES = ((1,), (3, 7), (129, 127), (2, 65, 128))
SCALES = st.floats(2**-12, 2**6, width=32)


@st.composite
def grids(draw: st.DrawFn, dtypes: tuple[DType, ...]) -> tuple[DType, ScaleOffset]:
    dtype = draw(st.sampled_from(dtypes))
    low, high = dtype.stored_range()
    return dtype, ScaleOffset(draw(SCALES), -draw(st.integers(low, high)))


class Net:
    """A graph on stored integers, with random data."""

    def __init__(self, seed: int) -> None:
        self.graph = Graph("net")
        self.rng = np.random.default_rng(seed)

    def values(self, dtype: DType, shape: tuple[int, ...]) -> Any:
        low, high = dtype.stored_range()
        return self.rng.integers(low, high, shape, endpoint=True).astype(dtype.storage)

    def input(self, shape: tuple[int, ...], grid: tuple[DType, ScaleOffset]) -> Tensor:
        name = f"x{len(self.graph.tensors)}"
        tensor = Tensor(name, grid[0], shape, TensorKind.APP_WRITE, encoding=grid[1])
        return self.graph.add_tensor(tensor)

    def constant(self, shape: tuple[int, ...], grid: tuple[DType, ScaleOffset]) -> Tensor:
        values = self.values(grid[0], shape)
        tensor = Tensor.static(f"c{len(self.graph.tensors)}", values, grid[0], encoding=grid[1])
        return self.graph.add_tensor(tensor)

    def node(
        self, op_type: str, inputs: list[Tensor], grid: tuple[DType, ScaleOffset], **params: Any
    ) -> Tensor:
        made = add(self.graph, op_type, inputs, name=f"n{len(self.graph.tensors)}", **params)
        made.dtype, made.encoding = grid
        return made

    def checked(self) -> CheckedGraph:
        return check_ops(self.graph, OpRegistry.of(PACKAGE))

    def check(self, result: Tensor) -> PlanPrepared:
        """Check that a plan's result is the definition's, bit for bit."""
        result.kind = TensorKind.APP_READ
        graph = self.checked()
        values = {t.name: t.stored() for t in self.graph.tensors.values() if t.data is not None}
        feeds = {t.name: self.values(t.dtype, t.shape) for t in graph.inputs}
        values |= feeds
        for view in graph.nodes:
            definition = DEFINITIONS.of(view)
            assert definition is not None, view.op_type
            ins = [None if t is None else values[t.name] for t in view.node.inputs]
            results = definition.compute(view, ins)
            values |= {t.name: r for t, r in zip(view.node.outputs, results, strict=True)}
        plan = build_plan(graph, KERNELS.for_backend("test"), WeightStore(), None)
        prepared = PlanPrepared(plan)
        found = {t.name: np.zeros(t.shape, t.dtype.storage) for t in graph.outputs}
        prepared.run(feeds, found, RunControl())
        np.testing.assert_array_equal(found[result.name], values[result.name])
        return prepared


@pytest.mark.parametrize("op_type", FUNCTIONS)
@given(
    source=grids((U8, S8, U16, S16)),
    target=grids((U8, S8, U16)),
    shape=st.sampled_from(SHAPES),
    seed=st.integers(0, 99),
)
@settings(max_examples=25, deadline=None)
def test_function_of_one_tensor(
    op_type: str, source: Any, target: Any, shape: tuple[int, ...], seed: int
) -> None:
    net = Net(seed)
    prepared = net.check(net.node(op_type, [net.input(shape, source)], target))
    assert prepared.steps[0].bind.__module__ == lookup.__name__


@pytest.mark.parametrize("op_type", BINARY)
@given(
    grids_=st.tuples(*(grids((U8, S8)) for _ in range(3))),
    shapes=st.sampled_from(
        [
            ((5, 7), (5, 7)),
            ((130, 129), (130, 129)),
            ((2, 64, 200), (1, 1, 200)),
            ((1, 64, 200), (2, 64, 1)),
            ((129, 127), (1,)),
        ]
    ),
    is_constant=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=25, deadline=None)
def test_function_of_two_tensors(
    op_type: str, grids_: Any, shapes: Any, is_constant: bool, seed: int
) -> None:
    net = Net(seed)
    a, b, target = grids_
    second = net.constant if is_constant else net.input
    operands = [net.input(shapes[0], a), second(shapes[1], b)]
    prepared = net.check(net.node(op_type, operands, target))
    if op_type in WIDE and shapes[0] == (5, 7):
        assert prepared.steps[0].bind.__module__ == wide.__name__


WIDE = (
    "ElementWiseAdd",
    "ElementWiseSubtract",
    "ElementWiseMultiply",
    "ElementWiseDivide",
    "ElementWiseMaximum",
    "ElementWiseMinimum",
    "ElementWiseSquaredDifference",
    "Prelu",
)
WIDE_SHAPES = [
    ((130, 129), (130, 129)),
    ((1, 130, 1), (1, 1)),
    ((2, 64, 200), (1, 1, 200)),
    ((2, 1, 20000), (2, 3, 1)),
    ((2, 3, 1, 5), (1, 3, 4, 1)),
    ((9, 9, 9, 9, 1), (9, 1, 9, 1, 2)),
    ((3, 70, 1, 60), (1, 70, 9, 1)),
]


@pytest.mark.parametrize("op_type", WIDE)
@given(
    grids_=st.tuples(grids((U16, S16)), grids((U8, U16, S16)), grids((U8, U16, S16))),
    shapes=st.sampled_from(WIDE_SHAPES),
    is_constant=st.booleans(),
    is_first=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=25, deadline=None)
def test_function_of_wide_tensors(
    op_type: str, grids_: Any, shapes: Any, is_constant: bool, is_first: bool, seed: int
) -> None:
    if op_type == "Prelu":  # whose slopes broadcast to the data
        is_first = True
        assume(np.broadcast_shapes(*shapes) == shapes[0])
    net = Net(seed)
    a, b, target = grids_
    second = net.constant if is_constant else net.input
    operands = [net.input(shapes[0], a), second(shapes[1], b)]
    prepared = net.check(net.node(op_type, operands if is_first else operands[::-1], target))
    if not is_constant or shapes[1] != (1, 1):
        assert prepared.steps[0].bind.__module__ == wide.__name__


def test_wide_sum_in_place() -> None:
    net = Net(0)
    a, b = (net.input((40000,), (U16, ScaleOffset(s, -z))) for s, z in ((0.25, 9), (0.5, 33000)))
    first = net.node("ElementWiseAdd", [a, b], (S16, ScaleOffset(0.75, 0)))
    second = net.node("ElementWiseMultiply", [first, first], (S16, ScaleOffset(9.5, 12)))
    net.check(net.node("ElementWiseSubtract", [b, second], (U16, ScaleOffset(2.5, -500))))


@given(source=grids((U8, S8, U16)), target=grids((U8,)), shape=st.sampled_from(SHAPES))
@settings(max_examples=20, deadline=None)
def test_product_of_a_tensor_with_itself(source: Any, target: Any, shape: tuple[int, ...]) -> None:
    net = Net(0)
    x = net.input(shape, source)
    net.check(net.node("ElementWiseMultiply", [x, x], target))


@pytest.mark.parametrize("target", [U8, U16, DType.FLOAT_32, DType.INT_32])
@given(source=grids((U8, S8, U16, S16)), scale=SCALES, shape=st.sampled_from(SHAPES))
@settings(max_examples=15, deadline=None)
def test_conversion(target: DType, source: Any, scale: float, shape: tuple[int, ...]) -> None:
    net = Net(0)
    encoding = ScaleOffset(scale, -3) if target.is_fixed_point else None
    spec = Spec(target, shape, encoding)
    net.check(net.node("Convert", [net.input(shape, source)], (target, encoding), spec=spec))


@pytest.mark.parametrize("is_output", [True, False])
def test_function_that_changes_nothing_is_a_view(is_output: bool) -> None:
    net = Net(0)
    grid = (U8, ScaleOffset(0.5, 0))
    result = net.node("Relu", [net.input((150, 150), grid)], grid)
    if not is_output:
        result = net.node("Sigmoid", [result], (U8, ScaleOffset(1 / 255, 0)))
    prepared = net.check(result)
    assert (prepared.steps[0].bind is VIEW) is not is_output
