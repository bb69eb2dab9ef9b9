"""Softmax and normalizations of stored bytes: bits equal to the definition."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.container import WeightStore
from dovetail.ir import Array, DType, Graph, ScaleOffset, Tensor, TensorKind
from dovetail.ops import OpRegistry, check_ops
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import PlanPrepared, build_plan
from dovetail_numpy import KERNELS
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.kernels import (
    integer_item_norms,
    integer_local_response,
    integer_row_norms,
    integer_softmax,
)
from dovetail_numpy.kernels.near_ties import NearTies
from dovetail_opset import PACKAGE
from dovetail_opset.build import add

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
SHAPES = st.sampled_from([(1, 7), (3, 65), (2, 9, 128), (300, 256), (4, 1), (5, 40, 257)])
ZEROS = st.sampled_from([0, 100, -128, 255, 37])
SEEDS = st.integers(0, 9)
HOMES: dict[str, ModuleType] = {
    "Softmax": integer_softmax,
    "LayerNorm": integer_row_norms,
    "RmsNorm": integer_row_norms,
    "L2Norm": integer_row_norms,
    "InstanceNorm": integer_item_norms,
    "GroupNorm": integer_item_norms,
    "Lrn": integer_local_response,
}
# few levels, ties among them, or all
SPREADS = st.sampled_from([0, 1, 3, 40, 255])


class Node:
    """A graph of one node on stored integers, with random data."""

    def __init__(self, seed: int) -> None:
        self.graph, self.rng = Graph("net"), np.random.default_rng(seed)

    def input(
        self, shape: tuple[int, ...], dtype: DType, scale: float, zero: int, spread: int
    ) -> tuple[Tensor, Array]:
        low, high = dtype.stored_range()
        first = int(self.rng.integers(low, high - spread, endpoint=True))
        stored = self.rng.integers(first, first + spread, shape, endpoint=True)
        encoding = ScaleOffset(scale, -min(max(zero, low), high))
        tensor = Tensor("x", dtype, shape, TensorKind.APP_WRITE, encoding=encoding)
        return self.graph.add_tensor(tensor), stored.astype(dtype.storage)

    def constant(self, name: str, count: int) -> Tensor:
        values = self.rng.integers(0, 255, count, endpoint=True).astype(np.uint8)
        return self.graph.add_tensor(
            Tensor.static(name, values, U8, encoding=ScaleOffset(0.011, -120))
        )

    def check(
        self,
        op_type: str,
        ins: list[Tensor],
        stored: Array,
        grid: Any,
        **params: Any,
    ) -> None:
        result = add(self.graph, op_type, ins, name="y", **params)
        dtype, scale, zero = grid
        low, high = dtype.stored_range()
        result.dtype, result.kind = dtype, TensorKind.APP_READ
        result.encoding = ScaleOffset(scale, -min(max(zero, low), high))
        checked = check_ops(self.graph, OpRegistry.of(PACKAGE))
        prepared = PlanPrepared(
            build_plan(checked, KERNELS.for_backend("test"), WeightStore(), None)
        )
        assert [s.bind.__module__ for s in prepared.steps] == [HOMES[op_type].__name__]
        found = np.zeros(result.shape, dtype.storage)
        prepared.run({"x": stored}, {"y": found}, RunControl())
        (view,) = checked.nodes
        definition = DEFINITIONS.of(view)
        assert definition is not None
        constants = [t.stored() for t in ins[1:]]
        np.testing.assert_array_equal(found, definition.compute(view, [stored, *constants])[0])


@given(
    shape=SHAPES,
    dtype=st.sampled_from([U8, S8]),
    scale=st.sampled_from([0.001, 0.05, 0.2, 3.0]),
    beta=st.sampled_from([1.0, 0.125, -1.0]),
    grid=st.tuples(st.sampled_from([U8, S8]), st.sampled_from([1 / 256, 0.0031, 0.1]), ZEROS),
    spread=SPREADS,
    is_last=st.booleans(),
    seed=SEEDS,
)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_softmax(
    shape: Any,
    dtype: DType,
    scale: float,
    beta: float,
    grid: Any,
    spread: int,
    is_last: bool,
    seed: int,
) -> None:
    node = Node(seed)
    x, stored = node.input(shape, dtype, scale, 30, spread)
    axis = len(shape) - 1 if is_last else len(shape) - 2
    node.check("Softmax", [x], stored, grid, axis=axis, beta=beta)


@given(
    shape=SHAPES,
    source=st.tuples(st.sampled_from([U8, S8]), st.sampled_from([0.01, 0.3]), ZEROS),
    grid=st.tuples(st.sampled_from([U8, S8]), st.sampled_from([0.004, 0.03, 1.0]), ZEROS),
    has_factors=st.booleans(),
    epsilon=st.sampled_from([1e-5, 1e-12, 0.5]),
    spread=SPREADS,
    seed=SEEDS,
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_layer_norm(
    shape: Any,
    source: Any,
    grid: Any,
    has_factors: bool,
    epsilon: float,
    spread: int,
    seed: int,
) -> None:
    node = Node(seed)
    x, stored = node.input(shape, *source, spread)
    ins = [x]
    if has_factors:
        ins += [node.constant("gamma", shape[-1]), node.constant("beta", shape[-1])]
    node.check("LayerNorm", ins, stored, grid, axes=[len(shape) - 1], epsilon=epsilon)


@given(
    op_type=st.sampled_from(["RmsNorm", "L2Norm"]),
    shape=SHAPES,
    axes=st.sampled_from([1, 2]),
    source=st.tuples(st.sampled_from([U8, S8]), st.sampled_from([0.01, 0.3]), ZEROS),
    grid=st.tuples(st.sampled_from([U8, S8]), st.sampled_from([0.004, 0.03, 1.0]), ZEROS),
    factors=st.integers(0, 2),
    epsilon=st.sampled_from([1e-5, 0.0, 1e-20, 0.5]),
    spread=SPREADS,
    seed=SEEDS,
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_plain_norms(
    op_type: str,
    shape: Any,
    axes: int,
    source: Any,
    grid: Any,
    factors: int,
    epsilon: float,
    spread: int,
    seed: int,
) -> None:
    node = Node(seed)
    x, stored = node.input(shape, *source, spread)
    if math.prod(shape[-axes:]) > 3000:
        axes = 1  # float32 would not do for so many
    over = list(range(len(shape)))[-axes:]
    ins = [x]
    if op_type == "RmsNorm":
        for name in ("gamma", "beta")[:factors]:
            ins.append(node.constant(name, math.prod(shape[-axes:])))
            ins[-1].shape = shape[-axes:]
    node.check(op_type, ins, stored, grid, axes=over, epsilon=epsilon)


@given(
    shape=st.sampled_from([(1, 7, 6), (3, 4, 65, 12), (2, 900, 6), (1, 40, 50, 24), (2, 1, 18)]),
    group=st.sampled_from([0, 1, 2, 3, 6]),
    source=st.tuples(st.sampled_from([U8, S8]), st.sampled_from([0.01, 0.3]), ZEROS),
    grid=st.tuples(st.sampled_from([U8, S8]), st.sampled_from([0.03, 1.0]), ZEROS),
    has_factors=st.booleans(),
    epsilon=st.sampled_from([1e-5, 1e-12, 0.5]),
    spread=SPREADS,
    seed=SEEDS,
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_norms_of_items(
    shape: Any,
    group: int,
    source: Any,
    grid: Any,
    has_factors: bool,
    epsilon: float,
    spread: int,
    seed: int,
) -> None:
    """Compare InstanceNorm, and GroupNorm of some groups."""
    node = Node(seed)
    x, stored = node.input(shape, *source, spread)
    ins = [x, node.constant("gamma", shape[-1])]
    if has_factors:
        ins.append(node.constant("beta", shape[-1]))
    op_type, params = ("GroupNorm", {"group": group}) if group else ("InstanceNorm", {})
    node.check(op_type, ins, stored, grid, epsilon=epsilon, **params)


@given(
    shape=SHAPES,
    source=st.tuples(st.sampled_from([U8, S8]), st.sampled_from([0.01, 0.3]), ZEROS),
    grid=st.tuples(st.sampled_from([U8, S8]), st.sampled_from([0.004, 0.03, 1.0]), ZEROS),
    params=st.sampled_from([(1e-4, 0.75, 1.0, 2), (2.0, 0.5, 0.1, 1), (1e-3, 1.3, 2.0, 0)]),
    spread=SPREADS,
    seed=SEEDS,
)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_lrn(shape: Any, source: Any, grid: Any, params: Any, spread: int, seed: int) -> None:
    node = Node(seed)
    x, stored = node.input(shape, *source, spread)
    alpha, beta, bias, radius = params
    node.check("Lrn", [x], stored, grid, alpha=alpha, beta=beta, bias=bias, radius=radius)


@pytest.mark.parametrize("number", [3.5, 3.4999, 3.5001, np.nan])
def test_numbers_near_ties_are_computed_exactly(number: float) -> None:
    approximate = np.array([1.25, number, 300, -7], np.float32)
    out = np.zeros(4, np.uint8)
    asked: list[list[int]] = []

    def exact(at: Array) -> Array:
        asked.append(at.tolist())
        return np.full(len(at), 4.6)

    with np.errstate(invalid="ignore"):
        NearTies(0.5, 0, (0, 255), 0.001).store(approximate, out, np.empty_like(approximate), exact)
    assert asked == [[1]]
    assert out.tolist() == [1, 9, 255, 0]
