"""Maxima, minima and their indices of stored integers: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.container import WeightStore
from dovetail.ir import DType, Graph, ScaleOffset, Tensor, TensorKind
from dovetail.ops import OpRegistry, check_ops
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import PlanPrepared, build_plan
from dovetail_numpy import KERNELS
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.kernels import integer_choices
from dovetail_opset import PACKAGE
from dovetail_opset.build import add

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16


@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin", "Argmax", "Argmin"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("spread", [0, 3, 65535])
@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ((U8, 0.02, 120), (U8, 0.02, 120)),
        ((S8, 0.03, -7), (U8, 0.041, 3)),
        ((U8, 0.03, 300), (S16, 1e-4, -5)),
        ((U16, 1e-4, 30000), (U16, 2e-4, 5)),
        ((S16, 0.5, 0), (S8, 1e-9, 1)),
    ],
)
def test_equal_to_definition(op_type: str, axis: int, spread: int, given: Any, wanted: Any) -> None:
    rng, graph, shape = np.random.default_rng(5), Graph("net"), (5, 6, 70)
    (dtype, scale, zero), (target, step, shift) = given, wanted
    encoding = ScaleOffset(scale, -zero)
    x = Tensor("x", dtype, shape, TensorKind.APP_WRITE, encoding=encoding)
    is_index = op_type.startswith("Arg")
    params: dict[str, Any] = {"axis": axis} if is_index else {"axes": [axis]}
    y = add(graph, op_type, [graph.add_tensor(x)], name="y", **params)
    y.kind = TensorKind.APP_READ
    if not is_index:
        y.dtype, y.encoding = target, ScaleOffset(step, -shift)
    low, high = dtype.stored_range()
    data = rng.integers(max(low, high - spread), high, shape, endpoint=True).astype(dtype.storage)
    checked = check_ops(graph, OpRegistry.of(PACKAGE))
    plan = build_plan(checked, KERNELS.for_backend("test"), WeightStore(), None)
    (one,) = plan.steps
    assert one.bind.__module__ == integer_choices.__name__
    found = {"y": np.zeros(y.shape, y.dtype.storage)}
    PlanPrepared(plan).run({"x": data}, found, RunControl())
    (view,) = checked.nodes
    definition = DEFINITIONS.of(view)
    assert definition is not None
    (wanted_values,) = definition.compute(view, [data])
    np.testing.assert_array_equal(found["y"], wanted_values)
