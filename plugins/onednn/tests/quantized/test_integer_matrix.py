"""Products of matrices of stored integers: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instruction_limits import examples

from dovetail.ir import DType, ScaleOffset
from dovetail.runtime.plan.binds import VIEW
from dovetail_onednn import library

U8, S8, S32 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.SFIXED_POINT_32
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16
SIZES = st.integers(1, 70)


@examples(200)
@given(
    op=st.sampled_from(["FullyConnected", "MatMul", "transposed MatMul"]),
    stack=st.lists(st.integers(1, 3), min_size=0, max_size=2),
    rows=SIZES,
    depth=SIZES,
    units=SIZES,
    source=st.tuples(st.sampled_from([U8, S8]), st.sampled_from([0, 9, 128, -5])),
    target=st.tuples(st.sampled_from([U8, S8]), st.sampled_from([0.01, 0.3]), st.integers(0, 90)),
    bias=st.sampled_from([None, S32, S8]),
    per_unit=st.booleans(),
    weights=st.sampled_from([(S8, 0), (S8, 0), (S8, 2), (U8, 140)]),
    fused=st.booleans(),
    bits=st.sampled_from([None, None, 5]),
    extreme=st.booleans(),
)
def test_one_matrix(
    new_network: Any,
    op: str,
    stack: list[int],
    rows: int,
    depth: int,
    units: int,
    source: Any,
    target: Any,
    bias: DType | None,
    per_unit: bool,
    weights: Any,
    fused: bool,
    bits: int | None,
    extreme: bool,
) -> None:
    net = new_network(extreme=extreme)
    x = net.input("x", (*stack, rows, depth), *source)
    by_rows = op != "MatMul"
    axis = (0 if by_rows else 1) if per_unit else None
    shape = (units, depth) if by_rows else (depth, units)
    ins = [x, net.weights("w", shape, weights[0], zero=weights[1], axis=axis)]
    if bias is not None:
        ins.append(net.bias("b", units, bias))
    params = {"keep_dims": True} if op == "FullyConnected" else {"transpose_in1": by_rows}
    dtype, scale, zero = target
    grid = {"dtype": dtype, "scale": scale, "zero": zero, "bits": bits}
    y = net.add(op.split()[-1], *ins, name="y", **grid, **params)
    net.check(net.add("Relu", y, name="relu", **grid) if fused else y)


@examples(150)
@given(
    stack=st.lists(st.integers(1, 3), min_size=0, max_size=2),
    sizes=st.tuples(SIZES, SIZES, SIZES),
    transposed=st.tuples(st.booleans(), st.booleans()),
    source=st.tuples(st.sampled_from([U8, S8]), st.sampled_from([0, 9, 128, -5])),
    matrix=st.tuples(st.sampled_from([U8, S8]), st.sampled_from([0, 9, 128, -5])),
    zero=st.sampled_from([0, 77]),
    is_broadcast=st.booleans(),
    extreme=st.booleans(),
)
def test_two_activations(
    new_network: Any,
    stack: list[int],
    sizes: tuple[int, int, int],
    transposed: tuple[bool, bool],
    source: Any,
    matrix: Any,
    zero: int,
    is_broadcast: bool,
    extreme: bool,
) -> None:
    net, (rows, depth, units) = new_network(extreme=extreme), sizes
    left = (depth, rows) if transposed[0] else (rows, depth)
    right = (units, depth) if transposed[1] else (depth, units)
    a = net.input("a", (*stack, *left), *source)
    b = net.input("b", (*(() if is_broadcast else stack), *right), *matrix)
    params = {"transpose_in0": transposed[0], "transpose_in1": transposed[1]}
    y = net.add("MatMul", a, b, name="y", scale=0.2, zero=zero, **params)
    net.check(y)


@examples(30)
@given(
    op=st.sampled_from(["FullyConnected", "MatMul"]),
    rows=st.sampled_from([1, 3, 40]),
    depth=st.integers(600, 1500),
    units=SIZES,
    source=st.tuples(st.sampled_from([U8, S8]), st.sampled_from([0, 9, -5])),
    weights=st.sampled_from([(S8, 0), (S8, 2), (U8, 140)]),
    per_unit=st.booleans(),
    extreme=st.booleans(),
)
def test_sums_beyond_float32(
    new_network: Any,
    op: str,
    rows: int,
    depth: int,
    units: int,
    source: Any,
    weights: Any,
    per_unit: bool,
    extreme: bool,
) -> None:
    net, by_rows = new_network(extreme=extreme), op == "FullyConnected"
    shape = (units, depth) if by_rows else (depth, units)
    axis = (0 if by_rows else 1) if per_unit else None
    x = net.input("x", (rows, depth), *source)
    w = net.weights("w", shape, weights[0], zero=weights[1], axis=axis)
    net.check(net.add(op, x, w, net.bias("b", units), name="y", scale=9.0, zero=30))


@pytest.mark.parametrize("is_read_again", [False, True])
@pytest.mark.parametrize("dtype", [U8, S8])
@pytest.mark.parametrize("perm", [(0, 2, 1, 3), (0, 2, 3, 1), (2, 0, 1, 3), (0, 1, 3, 2)])
@pytest.mark.parametrize("index", [0, 1])
def test_transposes_without_a_copy(
    new_network: Any, index: int, perm: tuple[int, ...], dtype: DType, is_read_again: bool
) -> None:
    net = new_network()
    given = net.input("x", (2, 40, 24, 16), dtype, 20)
    moved = net.add("Transpose", given, name="t", dtype=dtype, perm=np.array(perm, np.uint32))
    moved.encoding = given.encoding
    *stack, rows, columns = moved.shape
    other = net.input("other", (*stack, columns, 11) if index == 0 else (*stack, 11, rows), U8, 77)
    ins = (moved, other) if index == 0 else (other, moved)
    results = [net.add("MatMul", *ins, name="y", scale=0.2, zero=9)]
    if is_read_again:
        results.append(net.add("Relu", moved, name="again", dtype=dtype, scale=0.03, zero=5))
    net.check(*results, engine=is_read_again)
    steps = net.prepare().steps
    assert len(steps) == (3 if is_read_again else 2)
    assert [step.bind is VIEW for step in steps].count(True) == (not is_read_again)


def test_a_transpose_for_a_product_that_numpy_computes(new_network: Any) -> None:
    net = new_network()
    given = net.input("x", (2, 40, 24, 16), U8, 20)
    moved = net.add("Transpose", given, name="t", perm=np.array((0, 2, 3, 1), np.uint32))
    moved.encoding = given.encoding
    other = net.input("other", (2, 24, 40, 11), DType.UFIXED_POINT_16, 77)
    net.check(net.add("MatMul", moved, other, name="y", scale=0.2, zero=9), engine=False)


@examples(150)
@given(
    sizes=st.tuples(st.integers(1, 300), st.integers(1, 90)),
    source=st.tuples(st.sampled_from([U8, U8, S8, U16]), st.sampled_from([0, 0, 7])),
    weights=st.sampled_from([S8, S8, U8, DType.SFIXED_POINT_4]),
    target=st.tuples(st.sampled_from([U8, S8, U16]), st.sampled_from([0, 30])),
    after=st.sampled_from([None, "Relu", "Tanh", "ElementWiseAdd"]),
    has_bias=st.booleans(),
    extreme=st.booleans(),
)
def test_one_row(
    new_network: Any,
    sizes: Any,
    source: Any,
    weights: DType,
    target: Any,
    after: str | None,
    has_bias: bool,
    extreme: bool,
) -> None:
    net, (depth, units) = new_network(extreme=extreme), sizes
    grid = {"dtype": target[0], "zero": target[1], "scale": 0.9}
    ins = [net.input("x", (1, depth), *source), net.weights("w", (units, depth), weights, axis=0)]
    ins += [net.bias("b", units)] if has_bias else []
    y = net.add("FullyConnected", *ins, name="y", **grid)
    if after == "ElementWiseAdd":
        y = net.add(after, y, net.input("other", y.shape, target[0]), name="z", **grid)
    elif after is not None:
        y = net.add(after, y, name="z", **grid)
    net.check(y, engine=False)


@pytest.mark.parametrize("dtype", [U8, U16])
def test_one_row_reads_weights_as_they_are_stored(new_network: Any, dtype: DType) -> None:
    net = new_network()
    x, w = net.input("x", (1, 256), dtype), net.weights("w", (96, 256))
    prepared = net.check(net.add("FullyConnected", x, w, name="y", dtype=dtype, scale=0.9))
    read = [v.array for step in prepared.steps for v in step.reads if v.array is not None]
    is_shared = any(np.shares_memory(array, w.stored()) for array in read)
    assert is_shared == library().has_vnni


@pytest.mark.parametrize("op", ["FullyConnected", "MatMul"])
@pytest.mark.parametrize("units", [65, 96, 128])
@pytest.mark.parametrize("source", [(U8, 0), (S8, 0), (U8, 130), (U16, 32768)])
def test_five_rows(new_network: Any, op: str, units: int, source: tuple[DType, int]) -> None:
    net = new_network(extreme=False)
    x = net.input("x", (5, 8), *source)
    shape = (units, 8) if op == "FullyConnected" else (8, units)
    kind = U16 if source[0] is U16 else U8
    w = net.weights("w", shape, S8, zero=0)
    net.check(net.add(op, x, w, name="y", dtype=kind, zero=128, scale=0.3))


@pytest.mark.parametrize("source", [(U8, 0), (U8, 7), (S8, 0), (U16, 0), (U16, 300), (S16, 0)])
@pytest.mark.parametrize("weights", [(S8, 2), (U8, 140)])
@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("units", [2, 8, 72])
def test_blocks_of_rows_beside_few_columns(
    new_network: Any, source: Any, weights: Any, is_constant: bool, units: int
) -> None:
    net, (stored, zero) = new_network(extreme=False), weights
    x, shape = net.input("x", (28, 16), *source), (16, units)
    w = net.weights("w", shape, stored, zero=zero) if is_constant else net.input("w", shape, stored)
    w.encoding = ScaleOffset(0.003, -zero)
    scale = 0.05 if source[0] in (U8, S8) else 20.0
    net.check(net.add("MatMul", x, w, name="y", dtype=U8, scale=scale, zero=100), engine=False)


@pytest.mark.parametrize("op", ["FullyConnected", "Conv2d"])
@pytest.mark.parametrize("depth", [1024, 1030, 1019])
@pytest.mark.parametrize("source", [(U8, 200), (S8, 72), (U16, 251), (S16, -5)])
def test_sums_that_only_the_zero_point_makes_small(
    new_network: Any, op: str, depth: int, source: Any
) -> None:
    """Without it, float32 does not hold them."""
    net, (dtype, zero) = new_network(extreme=False), source
    shape = (3, depth) if op == "FullyConnected" else (1, 3, 5, depth)
    x = net.input("x", shape, *source)
    stored = net.rng.integers(100, 128, (64, depth)).astype(np.int8)  # all are large
    if op == "FullyConnected":
        w = net.static("w", stored, S8, ScaleOffset(0.003, 0))
        params: dict[str, Any] = {}
    else:
        w = net.static("w", stored.T.reshape(1, 1, depth, 64), S8, ScaleOffset(0.003, 0))
        params = {"stride": (1, 1), "pad_amount": ((0, 0), (0, 0))}
    feeds = {"x": (zero + net.rng.integers(-2, 3, shape)).astype(dtype.storage)}
    grid = {"dtype": S16 if dtype in (U16, S16) else S8, "scale": 0.02 * 0.003 * 3}
    net.check(net.add(op, x, w, name="y", **grid, **params), engine=False, feeds=feeds)
