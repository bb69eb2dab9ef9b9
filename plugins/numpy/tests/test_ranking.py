"""The first elements in order: the steps of a plan return what the op's reference does."""

from __future__ import annotations

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
from dovetail_numpy.kernels import ranking
from dovetail_opset import PACKAGE
from dovetail_opset.build import add_all

F32, U8 = DType.FLOAT_32, DType.UFIXED_POINT_8
TYPES = [F32, DType.FLOAT_16, DType.INT_32, DType.UINT_32, DType.INT_8, U8]


def first_elements(x: Array, dtype: DType, k: int, *, largest: bool) -> tuple[PlanPrepared, str]:
    graph = Graph("net")
    encoding = ScaleOffset(0.5, -3) if dtype is U8 else None
    source = Tensor("x", dtype, x.shape, TensorKind.APP_WRITE, encoding=encoding)
    outs = add_all(
        graph,
        "TopK",
        [graph.add_tensor(source)],
        name="y",
        outputs=("values", "indices"),
        k=k,
        largest=largest,
    )
    for out in outs:
        out.kind = TensorKind.APP_READ
    checked = check_ops(graph, OpRegistry.of(PACKAGE))
    plan = build_plan(checked, KERNELS.for_backend("test"), WeightStore(), None)
    return PlanPrepared(plan), plan.steps[0].bind.__module__


def check(x: Array, dtype: DType, k: int, *, largest: bool) -> str:
    """Compare with a stable sort, and return the module of the kernel."""
    prepared, module = first_elements(x, dtype, k, largest=largest)
    shape = (*x.shape[:-1], k)
    found = {"values": np.zeros(shape, x.dtype), "indices": np.zeros(shape, np.uint32)}
    prepared.run({"x": x}, found, RunControl())
    if largest:
        order = np.argsort(x, axis=-1, kind="stable")[..., ::-1]
    else:
        order = x.shape[-1] - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")
    np.testing.assert_array_equal(found["indices"], order[..., :k])
    np.testing.assert_array_equal(found["values"], np.take_along_axis(x, order[..., :k], -1))
    return module


@given(
    shape=st.tuples(
        st.integers(1, 4), st.integers(1, 3), st.integers(1, 60) | st.integers(200, 600)
    ),
    part=st.floats(0, 1),
    dtype=st.sampled_from(TYPES),
    largest=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=300, deadline=None)
def test_elements_of_every_type(
    shape: tuple[int, ...], part: float, dtype: DType, largest: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 6, shape).astype(dtype.storage)  # many are equal
    if dtype.is_float:
        special = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-45], dtype.storage)
        x = np.where(rng.random(shape) < 0.5, rng.choice(special, shape), x - 3)
    else:
        limits = np.array(dtype.stored_range()).astype(dtype.storage)
        x = np.where(rng.random(shape) < 0.1, rng.choice(limits, shape), x)
    module = check(x, dtype, 1 + int(part * (shape[-1] - 1)), largest=largest)
    assert module == ranking.__name__


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("special", [np.nan, -np.inf, 7.0])
def test_rows_of_equal_elements(special: float, largest: bool) -> None:
    x = np.full((3, 40), special, np.float32)
    assert check(x, F32, 10, largest=largest) == ranking.__name__


def test_wide_elements_are_left_to_the_reference() -> None:
    x = np.arange(24).reshape(2, 12)
    assert check(x, DType.INT_64, 4, largest=True) != ranking.__name__


def test_rows_that_need_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "block_size", lambda _: 100)
    x = np.random.default_rng(0).standard_normal((50, 30), np.float32)
    assert check(x, F32, 3, largest=True) == ranking.__name__


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("k", [1, 7, 29, 30])
def test_long_rows(monkeypatch: pytest.MonkeyPatch, k: int, largest: bool) -> None:
    monkeypatch.setattr(ranking, "block_size", lambda _: 1)
    x = np.random.default_rng(0).integers(0, 9, (20, 30)).astype(np.float32)
    x[5:, 3:9], x[10:, 11], x[15:, ::2] = np.nan, np.inf, -0.0
    x[18:] = np.nan
    assert check(x, F32, k, largest=largest) == ranking.__name__


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("dtype", [F32, DType.INT_32])
@pytest.mark.parametrize("k", [1, 200, 300])
def test_rows_whose_columns_bound_them(
    monkeypatch: pytest.MonkeyPatch, k: int, dtype: DType, largest: bool
) -> None:
    monkeypatch.setattr(ranking, "block_size", lambda _: 1)
    x = np.arange(7000) * np.ones((4, 1))
    x[:3] = x[0, ::-1], x[0], np.random.default_rng(0).permutation(x[0] // 3)
    x = x.astype(dtype.storage)
    if dtype is F32:
        x[2, ::3], x[3, 4000:] = np.nan, np.nan
    assert check(x, dtype, k, largest=largest) == ranking.__name__
