"""Kernels that move or compare stored integers, against the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.container import WeightStore
from dovetail.ir import DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail.ops import OpRegistry, check_ops
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import PlanPrepared, build_plan
from dovetail_numpy import KERNELS
from dovetail_numpy.integer import DEFINITIONS
from dovetail_opset import PACKAGE
from dovetail_opset.build import add

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16
PADS = ((0, 0), (1, 2), (0, 1), (3, 0))


def check(op_type: str, shape: tuple[int, ...], dtype: DType, zero: int, **params: Any) -> str:
    """Check that a plan's result is the definition's; return the module of its step."""
    graph, encoding = Graph("net"), ScaleOffset(0.02, -zero)
    x = Tensor("x", dtype, shape, TensorKind.APP_WRITE, encoding=encoding)
    graph.add_tensor(x)
    result = add(graph, op_type, [x], name="y", **params)
    result.dtype, result.encoding, result.kind = dtype, encoding, TensorKind.APP_READ
    checked = check_ops(graph, OpRegistry.of(PACKAGE))
    low, high = dtype.stored_range()
    stored = np.random.default_rng(3).integers(low, high, shape, endpoint=True)
    stored = stored.astype(dtype.storage)
    prepared = PlanPrepared(build_plan(checked, KERNELS.for_backend("test"), WeightStore(), None))
    found = np.zeros(result.shape, dtype.storage)
    prepared.run({"x": stored}, {"y": found}, RunControl())
    (view,) = checked.nodes
    definition = DEFINITIONS.of(view)
    assert definition is not None
    np.testing.assert_array_equal(found, definition.compute(view, [stored])[0])
    bind = prepared.steps[0].bind
    return str(getattr(bind, "func", bind).__module__)


@pytest.mark.parametrize("dtype", [U8, S8, U16, S16])
@pytest.mark.parametrize("value", [0.0, 1.3, -2.0])
def test_pad_with_a_real_constant(dtype: DType, value: float) -> None:
    params = {"scheme": 0, "pad_amount": PADS, "pad_constant_value": value}
    module = check("Pad", (2, 5, 7, 3), dtype, 9, **params)
    assert module == "dovetail_numpy.kernels.slicing"


@pytest.mark.parametrize("dtype", [U8, S8, U16, S16])
@given(
    axes=st.sampled_from([2, 3]),
    size=st.integers(1, 4),
    stride=st.integers(1, 3),
    pad=st.integers(0, 3),
    zero=st.sampled_from([0, 7, 100]),
)
@settings(max_examples=30, deadline=None, derandomize=True)
def test_maximum_of_windows(
    dtype: DType, axes: int, size: int, stride: int, pad: int, zero: int
) -> None:
    params = {
        "filter_size": (size,) * axes,
        "stride": (stride,) * axes,
        "pad_amount": ((min(pad, size - 1), 0),) * axes,
    }
    module = check(f"PoolMax{axes}d", (2, *(6, 7, 5)[:axes], 3), dtype, zero, **params)
    assert module == "dovetail_numpy.kernels.pooling"


@pytest.mark.parametrize("dtype", [U8, U16])
def test_resize_to_nearest(dtype: DType) -> None:
    spec = Spec(dtype, (1, 10, 9, 3), ScaleOffset(0.02, -9))
    module = check("ResizeNearestNeighbor", (1, 5, 7, 3), dtype, 9, spec=spec)
    assert module == "dovetail_numpy.kernels.resize"
