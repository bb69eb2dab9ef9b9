"""Conversions to a grid and back that change nothing, which are not computed."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.ir import DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail.ops import OpRegistry, check_ops
from dovetail_cpu import CpuBackend, CpuOptions
from dovetail_opset import PACKAGE
from dovetail_opset.build import add

OPS = OpRegistry.of(PACKAGE)
FLOAT, BYTE, WORD = DType.FLOAT_32, DType.UFIXED_POINT_8, DType.UFIXED_POINT_16
X = np.append(np.linspace(-3, 4, 60), [np.nan, np.inf, -np.inf, -0.0]).astype(np.float32)
GRID = ScaleOffset(0.013, -128)
PAD = {"scheme": 0, "pad_amount": ((1, 0), (0, 0)), "pad_constant_value": 0.4}


def convert(graph: Graph, x: Tensor, name: str, encoding=GRID, dtype=BYTE) -> Tensor:
    """Add a conversion to a grid and one back."""
    stored = add(graph, "Quantize", [x], name=name, spec=Spec(dtype, x.shape, encoding))
    return add(graph, "Dequantize", [stored], name=f"{name}.real", spec=Spec(FLOAT, x.shape))


def source() -> tuple[Graph, Tensor]:
    graph = Graph("net")
    return graph, graph.add_tensor(Tensor("x", FLOAT, (8, 8), TensorKind.APP_WRITE))


def moved(op="Transpose", params=None, grids=(GRID, GRID), dtypes=(BYTE, BYTE)) -> Graph:
    """x, quantized, moved and quantized again."""
    graph, x = source()
    y = convert(graph, x, "first", grids[0], dtypes[0])
    y = add(graph, op, [y], name="move", **({"perm": (1, 0)} if params is None else params))
    y = convert(graph, y, "second", grids[1], dtypes[1])
    y = add(graph, "ElementWiseNeg", [y], name="y")
    y.kind = TensorKind.APP_READ
    return graph


def ops(graph: Graph) -> list[str]:
    made = CpuBackend(OPS, CpuOptions()).adapted(check_ops(graph, OPS))
    return [view.op_type for view in made.nodes]


def check(run_graph, evaluate, graph: Graph) -> None:
    feeds = {"x": X.reshape(8, 8)}
    found, wanted = run_graph(graph, feeds).outputs, evaluate(graph, feeds)
    for tensor in graph.outputs:
        assert found[tensor.name].tobytes() == wanted[tensor.name].tobytes()


@pytest.mark.parametrize("scale", [0.013, 2.0**-5, 1e-40, 1e-38, 9e31])
@pytest.mark.parametrize("dtype", [BYTE, WORD])
def test_they_are_left_out_after_moves(run_graph, evaluate, scale, dtype) -> None:
    grid = ScaleOffset(scale, -128)
    graph = moved(grids=(grid, grid), dtypes=(dtype, dtype))
    assert ops(graph) == ["Quantize", "Dequantize", "Transpose", "ElementWiseNeg"]
    check(run_graph, evaluate, graph)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"grids": (GRID, ScaleOffset(0.013, -127))}, id="another zero point"),
        pytest.param({"dtypes": (BYTE, WORD)}, id="another type"),
        pytest.param({"grids": (ScaleOffset(1e37, -128),) * 2}, id="infinite levels"),
        pytest.param({"grids": (ScaleOffset(0.013, -128, 4),) * 2}, id="fewer bits"),
        pytest.param({"op": "Pad", "params": PAD}, id="a border"),
        pytest.param({"op": "ElementWiseAbs", "params": {}}, id="no move"),
    ],
)
def test_others_stay(run_graph, evaluate, given) -> None:
    graph = moved(**given)
    pair = ["Quantize", "Dequantize"]
    assert ops(graph) == [*pair, given.get("op", "Transpose"), *pair, "ElementWiseNeg"]
    check(run_graph, evaluate, graph)


def test_one_dequantize_serves_all_readers(run_graph, evaluate) -> None:
    graph, x = source()
    stored = add(graph, "Quantize", [x], name="stored", spec=Spec(BYTE, x.shape, GRID))
    reals = [
        add(graph, "Dequantize", [stored], name=f"r{i}", spec=Spec(FLOAT, x.shape))
        for i in range(3)
    ]
    add(graph, "ElementWiseAdd", reals[:2], name="sum").kind = TensorKind.APP_READ
    reals[2].kind = TensorKind.APP_READ
    assert ops(graph) == ["Quantize", "Dequantize", "Dequantize", "ElementWiseAdd"]
    check(run_graph, evaluate, graph)


def test_integers_that_others_read_are_made(run_graph, evaluate) -> None:
    graph = moved()
    graph.tensor("second").kind = TensorKind.APP_READ
    assert ops(graph) == ["Quantize", "Dequantize", "Transpose", "Quantize", "ElementWiseNeg"]
    check(run_graph, evaluate, graph)


@pytest.mark.parametrize("name", ["first", "second"])
def test_updateable_encodings_stay(name) -> None:
    graph = moved()
    graph.tensor(name).kind = TensorKind.UPDATEABLE_NATIVE
    assert ops(graph).count("Quantize") == 2


@pytest.mark.parametrize(("scale", "count"), [(0.013, 2), (0.02, 3)])
def test_a_join_is_on_the_grid_of_all_its_parts(run_graph, evaluate, scale, count) -> None:
    graph, x = source()
    parts = convert(graph, x, "a"), convert(graph, x, "b", ScaleOffset(scale, -128))
    y = convert(graph, add(graph, "Concat", [*parts], name="join", axis=1), "c")
    add(graph, "ElementWiseNeg", [y], name="y").kind = TensorKind.APP_READ
    assert ops(graph).count("Quantize") == count
    check(run_graph, evaluate, graph)
