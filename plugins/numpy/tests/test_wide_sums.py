"""Sums, means and average pools of up to 16 bits: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.container import WeightStore
from dovetail.ir import DType, Graph, ScaleOffset, Shape, Tensor, TensorKind
from dovetail.ops import OpRegistry, check_ops
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import PlanPrepared, build_plan
from dovetail_numpy import KERNELS
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.kernels import wide_sums
from dovetail_opset import PACKAGE
from dovetail_opset.build import add

U8, U16, S16 = DType.UFIXED_POINT_8, DType.UFIXED_POINT_16, DType.SFIXED_POINT_16
KINDS = st.sampled_from([(U16, 0), (U16, 41000), (S16, -300), (S16, 0), (U8, 130)])
# Equal scales have ties among the means.
SCALES = st.sampled_from([0.02, 0.0137, 1.0, 1e-4])


def check(
    op_type: str, shape: Shape, source: Any, target: Any, *, by_kernel: bool = True, **params: Any
) -> None:
    """Check that the result of a plan is the definition's, and which kernel computed it."""
    (dtype, zero, extreme), (out, out_zero, scale) = source, target
    graph, rng = Graph("net"), np.random.default_rng(3)
    low, high = dtype.stored_range()
    data = rng.integers(high - 3 if extreme else low, high, shape, endpoint=True)
    encoding = ScaleOffset(0.02, -zero)
    x = graph.add_tensor(Tensor("x", dtype, shape, TensorKind.APP_WRITE, encoding=encoding))
    y = add(graph, op_type, [x], name="y", **params)
    y.dtype, y.encoding, y.kind = out, ScaleOffset(scale, -out_zero), TensorKind.APP_READ
    checked = check_ops(graph, OpRegistry.of(PACKAGE))
    (view,) = checked.nodes
    definition = DEFINITIONS.of(view)
    assert definition is not None
    stored = data.astype(dtype.storage)
    (wanted,) = definition.compute(view, [stored])
    prepared = PlanPrepared(build_plan(checked, KERNELS.for_backend("test"), WeightStore(), None))
    assert (prepared.steps[0].bind.__module__ == wide_sums.__name__) == by_kernel
    found = np.zeros(y.shape, out.storage)
    prepared.run({"x": stored}, {y.name: found}, RunControl())
    np.testing.assert_array_equal(found, wanted)


@st.composite
def poolings(draw: st.DrawFn) -> tuple[Shape, dict[str, Any]]:
    """Draw the shape of an input, and params."""
    axes = draw(st.sampled_from([2, 2, 3]))
    size = [draw(st.integers(1, 4)) for _ in range(axes)]
    pads = [(draw(st.integers(0, n - 1)), draw(st.integers(0, n - 1))) for n in size]
    params = {
        "filter_size": size,
        "stride": [draw(st.integers(1, 3)) for _ in range(axes)],
        "pad_amount": pads,
        "rounding_mode": draw(st.sampled_from([0, 1])),
        "count_pad_for_edges": draw(st.booleans()),
    }
    spatial = [draw(st.integers(n, n + 8)) for n in size]
    return (draw(st.integers(1, 2)), *spatial, draw(st.integers(1, 40))), params


@given(
    case=poolings(),
    source=KINDS,
    target=st.one_of(KINDS, st.just((U8, 30))),
    scale=SCALES,
    extreme=st.booleans(),
)
@settings(max_examples=150, derandomize=True, deadline=None)
def test_average_pool(case: Any, source: Any, target: Any, scale: float, extreme: bool) -> None:
    shape, params = case
    op_type = f"PoolAvg{len(shape) - 2}d"
    check(op_type, shape, (*source, extreme), (*target, scale), **params)


@pytest.mark.parametrize("padding", [0, 1])
def test_average_pool_in_several_blocks(padding: int) -> None:
    params: Any = {"filter_size": (3, 3), "stride": (1, 1)}
    params["pad_amount"] = ((padding, padding),) * 2
    check("PoolAvg2d", (2, 40, 31, 70), (U16, 30000, False), (U16, 31000, 0.021), **params)


@given(
    op_type=st.sampled_from(["ReduceMean", "ReduceSum"]),
    axes=st.sampled_from([(0,), (1, 2), (3,), (2, 3), (0, 1, 2, 3)]),
    source=KINDS,
    target=st.one_of(KINDS, st.just((U8, 30))),
    scale=SCALES,
    keep_dims=st.booleans(),
)
@settings(max_examples=60, derandomize=True, deadline=None)
def test_sum(
    op_type: str, axes: Shape, source: Any, target: Any, scale: float, keep_dims: bool
) -> None:
    params: Any = {"axes": axes, "keep_dims": keep_dims}
    check(op_type, (2, 5, 7, 33), (*source, False), (*target, scale), **params)


@pytest.mark.parametrize("shape", [(1, 2, 16), (3, 40000)], ids=["axes apart", "many elements"])
def test_sum_by_definition(shape: Shape) -> None:
    axes = (0, 2) if len(shape) == 3 else (1,)
    target = (U16, 5, 0.3)
    check("ReduceMean", shape, (U16, 9, False), target, by_kernel=False, axes=axes)
