"""Casts of whole numbers to integers and back, which are not computed."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.ir import DType, Graph, Spec, Tensor, TensorKind
from dovetail.ops import OpRegistry, check_ops
from dovetail_cpu import CpuBackend, CpuOptions
from dovetail_opset import PACKAGE
from dovetail_opset.build import add, static

OPS = OpRegistry.of(PACKAGE)
FLOAT, BYTE = DType.FLOAT_32, DType.UINT_8
X = np.linspace(-300, 300, 64, dtype=np.float32).reshape(8, 8)


def quantized(
    *, rounded=True, zero: float | None = 3, limits=(0.0, 255.0), dtype=BYTE, readers=1
) -> Graph:
    """x, rounded, plus a zero point, clipped, cast to an integer and back, minus the zero point."""
    graph = Graph("net")
    y = x = graph.add_tensor(Tensor("x", FLOAT, X.shape, TensorKind.APP_WRITE))
    if rounded:
        y = add(graph, "ElementWiseRound", [y], name="round")
    point = static(graph, "zero", np.full(1, zero or 0, np.float32))
    if zero is not None:
        y = add(graph, "ElementWiseAdd", [y, point], name="shift")
    low, high = limits
    y = add(graph, "ReluMinMax", [y], name="clip", min_value=low, max_value=high)
    stored = add(graph, "Cast", [y], name="stored", spec=Spec(dtype, x.shape))
    for i in range(readers):
        back = add(graph, "Cast", [stored], name=f"back{i}", spec=Spec(FLOAT, x.shape))
        y = add(graph, "ElementWiseSubtract", [back, point], name=f"y{i}")
        y.kind = TensorKind.APP_READ
    return graph


def casts(graph: Graph) -> list[str]:
    made = CpuBackend(OPS, CpuOptions()).adapted(check_ops(graph, OPS))
    return [view.node.name for view in made.nodes if view.op_type == "Cast"]


@pytest.mark.parametrize("readers", [1, 2])
@pytest.mark.parametrize("zero", [3, None])
def test_they_are_left_out(run_graph, evaluate, readers, zero) -> None:
    graph = quantized(readers=readers, zero=zero)
    assert casts(graph) == []
    found, wanted = run_graph(graph, {"x": X}).outputs, evaluate(graph, {"x": X})
    for i in range(readers):
        np.testing.assert_array_equal(found[f"y{i}"], wanted[f"y{i}"])


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"rounded": False}, id="fractions"),
        pytest.param({"zero": 0.5}, id="a zero point with a fraction"),
        pytest.param({"limits": (0.0, 256.0)}, id="more than the type holds"),
        pytest.param({"limits": (-1.0, 255.0)}, id="less than the type holds"),
        pytest.param({"limits": (0.5, 255.0)}, id="a limit with a fraction"),
        pytest.param({"dtype": DType.INT_8}, id="another type"),
    ],
)
def test_others_stay(run_graph, evaluate, given) -> None:
    graph = quantized(**given)
    assert casts(graph) == ["stored", "back0"]
    found, wanted = run_graph(graph, {"x": X}).outputs, evaluate(graph, {"x": X})
    np.testing.assert_array_equal(found["y0"], wanted["y0"])


def test_floats_that_the_application_reads_are_made(run_graph, evaluate) -> None:
    graph = quantized()
    graph.tensor("back0").kind = TensorKind.APP_READ
    assert casts(graph) == ["stored", "back0"]
    found, wanted = run_graph(graph, {"x": X}).outputs, evaluate(graph, {"x": X})
    for name in ("back0", "y0"):
        np.testing.assert_array_equal(found[name], wanted[name])


def test_integers_that_others_read_are_made(run_graph, evaluate) -> None:
    graph = quantized()
    graph.tensor("stored").kind = TensorKind.APP_READ
    assert casts(graph) == ["stored"]
    found, wanted = run_graph(graph, {"x": X}).outputs, evaluate(graph, {"x": X})
    for name in ("stored", "y0"):
        np.testing.assert_array_equal(found[name], wanted[name])
