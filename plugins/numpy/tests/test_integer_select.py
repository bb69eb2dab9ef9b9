"""ElementWiseSelect between tensors on other grids than its result."""

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
from dovetail_numpy.integer.one_grid import moves_on_one_grid
from dovetail_numpy.kernels import logic, lookup
from dovetail_opset import PACKAGE, STANDARD
from dovetail_opset.build import add

OPS = OpRegistry.of(PACKAGE)
U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16, S16, S32 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16, DType.SFIXED_POINT_32
GRIDS = st.tuples(
    st.sampled_from([U8, S8, U16, S16]),
    st.sampled_from([ScaleOffset(0.03, -3), ScaleOffset(0.03, -100), ScaleOffset(1e-4, -7)]),
)
SHAPES = st.sampled_from([(3, 4, 5), (1, 4, 5), (4, 1), (5,), ()])


@given(
    shapes=st.tuples(SHAPES, SHAPES, SHAPES),
    grids=st.tuples(GRIDS, GRIDS, GRIDS),
    constants=st.tuples(st.booleans(), st.booleans()),
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_grids(shapes: Any, grids: Any, constants: Any) -> None:
    rng, graph = np.random.default_rng(1), Graph("net")
    condition = Tensor("condition", DType.BOOL_8, shapes[0], TensorKind.APP_WRITE)
    feeds: dict[str, Any] = {"condition": rng.random(shapes[0]) < 0.5}
    ins, stored = [graph.add_tensor(condition)], [feeds["condition"]]
    for name, shape, (dtype, encoding), is_constant in zip(
        "ab", shapes[1:], grids, constants, strict=False
    ):
        low, high = dtype.stored_range()
        values = np.asarray(rng.integers(low, high, shape, endpoint=True), dtype.storage)
        stored.append(values)
        if is_constant:
            tensor = Tensor.static(name, values, dtype, encoding=encoding)
        else:
            tensor = Tensor(name, dtype, shape, TensorKind.APP_WRITE, encoding=encoding)
            feeds[name] = values
        ins.append(graph.add_tensor(tensor))
    dtype, encoding = grids[2]
    spec = Spec(dtype, np.broadcast_shapes(*shapes), encoding)
    y = add(graph, "ElementWiseSelect", ins, name="y", spec=spec)
    y.kind, y.encoding = TensorKind.APP_READ, encoding
    checked = check_ops(graph, OPS)
    moves = moves_on_one_grid(checked, OPS.find(STANDARD, "Reshape"), lambda _: True)
    plan = build_plan(moves, KERNELS.for_backend("test"), WeightStore(), None)
    prepared, found = PlanPrepared(plan), np.zeros(y.shape, dtype.storage)
    *before, last = (s.bind.__module__ for s in prepared.steps)
    assert last == logic.__name__
    assert set(before) <= {lookup.__name__}
    prepared.run(feeds, {"y": found}, RunControl())
    (view,) = checked.nodes
    definition = DEFINITIONS.of(view)
    assert definition is not None
    np.testing.assert_array_equal(found, definition.compute(view, stored)[0])


def test_32_bits_on_one_grid_are_clipped_as_defined() -> None:
    encoding, graph = ScaleOffset(0.03, -3, bitwidth=24), Graph("net")
    condition = Tensor("condition", DType.BOOL_8, (4,), TensorKind.APP_WRITE)
    feeds = {
        "condition": np.array([True, False, True, False]),
        "a": np.array([-(1 << 31), 5, (1 << 31) - 1, 7], np.int32),
        "b": np.array([1, (1 << 31) - 1, 2, -(1 << 31)], np.int32),
    }
    ins = [graph.add_tensor(condition)]
    for name in "ab":
        tensor = Tensor(name, S32, (4,), TensorKind.APP_WRITE, encoding=encoding)
        ins.append(graph.add_tensor(tensor))
    y = add(graph, "ElementWiseSelect", ins, name="y", spec=Spec(S32, (4,), encoding))
    y.kind, y.encoding = TensorKind.APP_READ, encoding
    checked, found = check_ops(graph, OPS), np.zeros(4, np.int32)
    plan = build_plan(checked, KERNELS.for_backend("test"), WeightStore(), None)
    PlanPrepared(plan).run(feeds, {"y": found}, RunControl())
    (view,) = checked.nodes
    definition = DEFINITIONS.of(view)
    assert definition is not None
    (wanted,) = definition.compute(view, list(feeds.values()))
    assert (wanted != np.where(feeds["condition"], feeds["a"], feeds["b"])).any()  # it clips
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [DType.INT_32, DType.FLOAT_32])
def test_other_conditions_are_left(dtype: DType) -> None:
    graph = Graph("net")
    ins = [graph.add_tensor(Tensor("condition", dtype, (3,), TensorKind.APP_WRITE))]
    for name, scale in (("a", 0.03), ("b", 0.5)):
        tensor = Tensor(name, U8, (3,), TensorKind.APP_WRITE, encoding=ScaleOffset(scale, 0))
        ins.append(graph.add_tensor(tensor))
    y = add(graph, "ElementWiseSelect", ins, name="y", spec=Spec(U8, (3,), ScaleOffset(0.1, 0)))
    y.kind, y.encoding = TensorKind.APP_READ, ScaleOffset(0.1, 0)
    checked = check_ops(graph, OPS)
    plan = build_plan(checked, KERNELS.for_backend("test"), WeightStore(), None)
    assert [s.bind.__module__ for s in PlanPrepared(plan).steps] != [logic.__name__]
