"""Softmax and norms of tensors of up to 16 bits: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.container import WeightStore
from dovetail.ir import DType, Graph, ScaleOffset, Tensor, TensorKind
from dovetail.ops import OpRegistry, check_ops
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import PlanPrepared, build_plan
from dovetail_numpy import KERNELS
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.kernels import wide_norms
from dovetail_opset import PACKAGE
from dovetail_opset.build import add

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16
GRIDS = st.tuples(
    st.sampled_from([(U16, U16), (S16, S16), (U16, U8), (S8, S16), (S16, U16)]),
    st.sampled_from([1e-4, 0.003, 0.5]),  # scale of the data
    st.sampled_from([2.0**-16, 1e-4, 0.02]),  # and of the result
    st.sampled_from([0, 100, 32768, -32768, 65535, -7]),  # zero point, clipped
)
SHAPES = st.sampled_from([(1, 7), (3, 65), (2, 9, 128), (200, 96), (4, 1), (5, 40, 257)])
# few levels, or all
SPREADS = st.sampled_from([0, 1, 3, 255, 65535])
OP_TYPES = st.sampled_from(["Softmax", "LayerNorm", "RmsNorm", "L2Norm"])
EPSILONS = st.sampled_from([1e-5, 0.0, 1e-20, 0.5])


def tensor(name: str, shape: Any, dtype: DType, scale: float, zero: int) -> Tensor:
    low, high = dtype.stored_range()
    encoding = ScaleOffset(scale, -min(max(zero, low), high))
    return Tensor(name, dtype, shape, TensorKind.APP_WRITE, encoding=encoding)


def check(op_type: str, shape: Any, drawn: Any, spread: int, factors: Any, **params: Any) -> None:
    """Compare the only step, of `wide_norms`, with the definition."""
    rng, graph = np.random.default_rng(1), Graph("net")
    (source, target), scale, step, zero = drawn
    x = graph.add_tensor(tensor("x", shape, source, scale, zero))
    low, high = source.stored_range()
    first = int(rng.integers(low, max(low + 1, high - spread), endpoint=True))
    stored = np.clip(rng.integers(first, first + spread, shape, endpoint=True), low, high)
    ins = [x]
    for name, size in factors:
        values = rng.integers(0, 65535, size, endpoint=True).astype(np.uint16)
        encoding = ScaleOffset(1e-4, -20000)
        ins.append(graph.add_tensor(Tensor.static(name, values, U16, encoding=encoding)))
    result = add(graph, op_type, ins, name="y", **params)
    like = tensor("y", shape, target, step, zero)
    result.dtype, result.kind, result.encoding = target, TensorKind.APP_READ, like.encoding
    checked = check_ops(graph, OpRegistry.of(PACKAGE))
    plan = build_plan(checked, KERNELS.for_backend("test"), WeightStore(), None)
    prepared = PlanPrepared(plan)
    assert [s.bind.__module__ for s in prepared.steps] == [wide_norms.__name__]
    data, found = stored.astype(source.storage), np.zeros(shape, target.storage)
    prepared.run({"x": data}, {"y": found}, RunControl())
    (view,) = checked.nodes
    definition = DEFINITIONS.of(view)
    assert definition is not None
    constants = [t.stored() for t in ins[1:]]
    np.testing.assert_array_equal(found, definition.compute(view, [data, *constants])[0])


@given(
    op_type=OP_TYPES,
    shape=SHAPES,
    drawn=GRIDS,
    spread=SPREADS,
    factors=st.integers(0, 2),
    epsilon=EPSILONS,
    beta=st.sampled_from([1.0, -0.25]),
)
@settings(max_examples=400, deadline=None, derandomize=True)
def test_rows(
    op_type: str,
    shape: Any,
    drawn: Any,
    spread: int,
    factors: int,
    epsilon: float,
    beta: float,
) -> None:
    last = len(shape) - 1
    params: dict[str, Any] = {"axes": [last], "epsilon": epsilon}
    if op_type == "Softmax":
        params = {"axis": last, "beta": beta}
    count = factors if op_type in ("LayerNorm", "RmsNorm") else 0
    sizes = [("gamma", shape[-1:]), ("beta", shape[-1:])][:count]
    check(op_type, shape, drawn, spread, sizes, **params)


@given(
    shape=st.sampled_from([(13, 9, 1, 1), (2, 9, 5, 7), (1, 40, 3000), (3, 1, 4), (2, 20000, 3)]),
    drawn=GRIDS,
    spread=SPREADS,
    beta=st.sampled_from([1.0, -0.25]),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_softmax_along_another_axis(shape: Any, drawn: Any, spread: int, beta: float) -> None:
    check("Softmax", shape, drawn, spread, [], axis=1, beta=beta)


@given(
    shape=st.sampled_from([(1, 7, 6), (3, 4, 65, 12), (2, 900, 6), (1, 40, 50, 24), (2, 1, 18)]),
    group=st.sampled_from([0, 1, 2, 3, 6]),
    drawn=GRIDS,
    spread=SPREADS,
    has_beta=st.booleans(),
    epsilon=EPSILONS,
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_items(
    shape: Any, group: int, drawn: Any, spread: int, has_beta: bool, epsilon: float
) -> None:
    op_type, params = ("GroupNorm", {"group": group}) if group else ("InstanceNorm", {})
    sizes = [("gamma", shape[-1:]), ("beta", shape[-1:])][: 1 + has_beta]
    check(op_type, shape, drawn, spread, sizes, epsilon=epsilon, **params)


def test_rows_longer_than_a_block() -> None:
    size = 3 * wide_norms.BLOCK // 2
    for op_type in ("Softmax", "LayerNorm"):
        params = {"axis": 1} if op_type == "Softmax" else {"axes": [1], "epsilon": 1e-5}
        check(op_type, (2, size), ((U16, S16), 1e-4, 1e-4, 100), 65535, [], **params)
