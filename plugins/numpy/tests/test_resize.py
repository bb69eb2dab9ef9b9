"""Weighted sums of stored integers: the steps of a plan return what the definition does."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.container import WeightStore
from dovetail.ir import DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail.ops import OpRegistry, check_ops
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import PlanPrepared, build_plan
from dovetail_numpy import KERNELS
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.kernels import resize
from dovetail_opset import PACKAGE
from dovetail_opset.build import add
from dovetail_opset.ops.resize import Interpolation
from dovetail_opset.resampling import Coordinates

TYPES = [
    DType.UFIXED_POINT_8,
    DType.SFIXED_POINT_8,
    DType.UFIXED_POINT_16,
    DType.SFIXED_POINT_16,
]
SIZES = st.tuples(*[st.integers(1, 40)] * 2)
GRIDS = st.tuples(
    st.sampled_from(TYPES), st.sampled_from([0.0002, 0.03, 0.04]), st.integers(-99, 300)
)
PARAMS = st.one_of(
    st.fixed_dictionaries({"align_corners": st.booleans()}),
    st.fixed_dictionaries({"half_pixel_centers": st.just(True), "antialias": st.booleans()}),
    st.fixed_dictionaries(
        {
            "interpolation_mode": st.sampled_from([Interpolation.LINEAR, Interpolation.CUBIC]),
            "transformation_mode": st.sampled_from(Coordinates),
            "exclude_outside": st.booleans(),
        }
    ),
)


@given(
    old=SIZES,
    new=SIZES,
    channels=st.sampled_from([1, 3, 40]),
    grids=st.tuples(GRIDS, GRIDS),
    params=PARAMS,
    seed=st.integers(0, 99),
)
@settings(max_examples=200, deadline=None)
def test_weighted_sums_of_levels(
    old: Any, new: Any, channels: int, grids: Any, params: Any, seed: int
) -> None:
    (given_type, scale, zero), (dtype, step, shift) = grids
    graph, rng, shape = Graph("net"), np.random.default_rng(seed), (2, *old, channels)
    encoding = ScaleOffset(scale, -zero)
    x = graph.add_tensor(Tensor("x", given_type, shape, TensorKind.APP_WRITE, encoding=encoding))
    spec = Spec(dtype, (2, *new, channels), ScaleOffset(step, -shift))
    op_type = "Resize" if "interpolation_mode" in params else "ResizeBilinear"
    y = add(graph, op_type, [x], name="y", spec=spec, **params)
    y.kind = TensorKind.APP_READ
    checked = check_ops(graph, OpRegistry.of(PACKAGE))
    plan = build_plan(checked, KERNELS.for_backend("test"), WeightStore(), None)
    low, high = given_type.stored_range()
    data = rng.integers(low, high, shape, endpoint=True).astype(given_type.storage)
    found = {"y": np.zeros(y.shape, dtype.storage)}
    PlanPrepared(plan).run({"x": data}, found, RunControl())
    (view,) = checked.nodes
    definition = DEFINITIONS.of(view)
    assert definition is not None
    np.testing.assert_array_equal(found["y"], definition.compute(view, [data])[0])
    taps = [view.op.taps(*sizes) for sizes in zip(old, new, strict=True) if sizes[0] != sizes[1]]
    if any(each.weights is not None for each in taps):
        assert plan.steps[0].bind.__module__ == resize.__name__
