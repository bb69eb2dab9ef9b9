"""Moves between grids as moves on one grid and requantizations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.container import WeightStore
from dovetail.ir import AxisScaleOffset, DType, Graph, ScaleOffset, Tensor, TensorKind
from dovetail.ops import CheckedGraph, OpRegistry, check_ops
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import PlanPrepared, build_plan
from dovetail_numpy import KERNELS
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.one_grid import moves_on_one_grid
from dovetail_opset import PACKAGE, STANDARD
from dovetail_opset.build import add_all

OPS = OpRegistry.of(PACKAGE)
U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16
SHAPE = (2, 4, 6, 8)
INDICES = np.array([1, -1, 0, 1, 1], np.int32)
WINDOW = {"filter_size": (2, 2), "stride": (2, 1), "pad_amount": ((1, 0), (0, 1))}
ONE, TWO = (SHAPE,), (SHAPE, SHAPE)
# Shapes of the inputs, params, and the ops of the steps where all grids differ.
CASES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "Transpose": (ONE, {"perm": (0, 3, 1, 2)}, "Transpose Reshape"),
    "Concat": (TWO, {"axis": 2}, "Reshape Reshape Concat"),
    "Pack": (TWO, {"axis": 1}, "Reshape Reshape Pack"),
    "Split": (ONE, {"axis": 3, "split_index": [2]}, "Reshape Split"),
    "Tile": (ONE, {"multiples": (1, 2, 1, 1)}, "Reshape Tile"),
    "Pad": (ONE, {"scheme": 0, "pad_amount": ((0, 0), (1, 0), (0, 0), (0, 0))}, "Reshape Pad"),
    "SpaceToDepth": (ONE, {"block_size": (2, 2)}, "SpaceToDepth Reshape"),
    "Gather": (ONE, {"axis": 0}, "Reshape Gather"),
    "GatherFew": (ONE, {"axis": 2}, "Gather Reshape"),
    "PoolMax2d": (ONE, WINDOW, "PoolMax2d Reshape"),
    "ElementWiseSelect": (TWO, {}, "Reshape Reshape ElementWiseSelect"),
    "Squeeze": (((1, 5, 1),), {"axes": [0]}, "Squeeze"),
}
GRIDS = st.tuples(
    st.sampled_from([U8, S8, U16, S16]),
    st.sampled_from([0.03, 0.011, 2e-4, 0.0]),
    st.sampled_from([0, 5, 300, -7]),
    st.sampled_from([None, None, 5]),
)


def build(op: str, grids: Any, constant: str = "") -> tuple[CheckedGraph, dict[str, Any]]:
    """Return a graph of one op, and the stored values of its inputs."""
    shapes, params, _ = CASES[op]
    rng, graph, feeds, ins = np.random.default_rng(2), Graph("net"), {}, []
    for name, shape, (dtype, scale, zero, bitwidth) in zip("ab", shapes, grids, strict=False):
        encoding = ScaleOffset(scale, -zero, bitwidth)
        feeds[name] = rng.integers(*dtype.stored_range(), shape, dtype.storage, endpoint=True)
        if name == constant:
            tensor = Tensor.static(name, feeds[name], dtype, encoding=encoding)
        else:
            tensor = Tensor(name, dtype, shape, TensorKind.APP_WRITE, encoding=encoding)
        ins.append(graph.add_tensor(tensor))
    if op == "ElementWiseSelect":
        feeds["c"] = rng.random(SHAPE) < 0.5
        ins.insert(0, graph.add_tensor(Tensor("c", DType.BOOL_8, SHAPE, TensorKind.APP_WRITE)))
    if op.startswith("Gather"):
        ins.append(graph.add_tensor(Tensor.static("i", INDICES[: 5 if op == "Gather" else 2])))
    dtype, scale, zero, bitwidth = grids[2]
    for y in add_all(graph, op.removesuffix("Few"), ins, name="y", **params):
        y.dtype, y.encoding = dtype, ScaleOffset(scale, -zero, bitwidth)
        y.kind = TensorKind.APP_READ
    return check_ops(graph, OPS), feeds


def on_one_grid(graph: CheckedGraph) -> CheckedGraph:
    return moves_on_one_grid(graph, OPS.find(STANDARD, "Reshape"), lambda view: view.is_quantized)


def ops(graph: CheckedGraph) -> str:
    return " ".join(view.op_type for view in graph.nodes)


@given(
    op=st.sampled_from(sorted(CASES)),
    grids=st.tuples(GRIDS, GRIDS, GRIDS),
    constant=st.sampled_from(["", "", "a", "b"]),
)
@settings(max_examples=400, deadline=None, derandomize=True)
def test_results_are_those_of_the_definition(op: str, grids: Any, constant: str) -> None:
    graph, feeds = build(op, grids, constant)
    moves = on_one_grid(graph)
    prepared = PlanPrepared(build_plan(moves, KERNELS.for_backend("test"), WeightStore(), None))
    found = {t.name: np.zeros(t.shape, t.dtype.storage) for t in graph.outputs}
    given_names = {t.name for t in graph.inputs}
    with np.errstate(all="ignore"):  # as in runs of a backend
        prepared.run({n: v for n, v in feeds.items() if n in given_names}, found, RunControl())
        (view,) = graph.nodes
        definition = DEFINITIONS.of(view)
        assert definition is not None
        ins = [feeds.get(t.name, INDICES[: t.shape[0]]) for t in view.node.inputs if t is not None]
        wanted = definition.compute(view, ins)
    for tensor, result in zip(graph.outputs, wanted, strict=True):
        np.testing.assert_array_equal(found[tensor.name], result)


@pytest.mark.parametrize("op", sorted(CASES))
def test_the_smaller_tensor_is_requantized(op: str) -> None:
    grids = [(dtype, scale, 3, None) for dtype, scale in ((U8, 0.1), (S8, 0.2), (U8, 0.3))]
    moves = on_one_grid(build(op, grids)[0])
    assert ops(moves) == CASES[op][2]
    assert {source for view in moves.nodes for source in view.node.sources} == {"y"}


def test_constants_are_requantized_once() -> None:
    grids = [(U8, 0.1, 3, None), (U16, 0.01, 0, None), (S8, 0.3, 7, None)]
    assert ops(on_one_grid(build("Concat", grids, "b")[0])) == "Reshape Concat"


@pytest.mark.parametrize("is_constant", [False, True])
def test_a_tensor_is_requantized_once_for_all_readers(is_constant: bool) -> None:
    graph, encoding = Graph("net"), ScaleOffset(0.1, -3)
    stored = np.arange(8, dtype=np.uint8)
    given = Tensor("a", U8, (8,), TensorKind.APP_WRITE, encoding=encoding)
    constant = Tensor.static("a", stored, U8, encoding=encoding)
    x = graph.add_tensor(constant if is_constant else given)
    for name in "yz":
        (y,) = add_all(graph, "Concat", [x, x], name=name, axis=0)
        y.encoding, y.kind = ScaleOffset(0.2, -1), TensorKind.APP_READ
    wanted = ["Concat"] * 2 if is_constant else ["Reshape", *["Concat"] * 2]
    assert ops(on_one_grid(check_ops(graph, OPS))).split() == wanted


def _updateable(graph: Graph) -> None:
    graph.tensors["a"].kind = TensorKind.UPDATEABLE_APP_WRITE


def _by_axis(graph: Graph) -> None:
    scales, offsets = np.full(8, 0.02, np.float32), np.zeros(8, np.int32)
    graph.tensors["a"].encoding = AxisScaleOffset(3, scales, offsets)


def _same(graph: Graph) -> None:
    graph.tensors["a"].encoding = graph.tensors["y"].encoding
    graph.tensors["a"].dtype = graph.tensors["y"].dtype


@pytest.mark.parametrize("change", [_updateable, _by_axis, _same])
def test_other_moves_stay(change: Callable[[Graph], None]) -> None:
    grids = [(U8, 0.1, 3, None)] * 2 + [(S8, 0.3, 7, None)]
    graph = build("Transpose", grids)[0].graph
    change(graph)
    checked = check_ops(graph, OPS)
    assert on_one_grid(checked) is checked
