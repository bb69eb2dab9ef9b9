"""Rows of stored tables, in the forms in which onnxruntime quantizes embeddings."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from dovetail.ir import DType, ScaleOffset

F32 = np.float32
N = helper.make_node
ROWS = N("Gather", ["table", "i"], ["rows"], name="rows")
INDICES = np.array([[3, 0, 6]], np.int64)


def dequantize(output, *, rows="rows", scale="s"):
    return N("DequantizeLinear", [rows, scale, "z"], [output], name=output)


def grid_of_table(graph):
    """Return the grid of what the only Gather reads, None if it reads plain integers."""
    (gather,) = (node for node in graph.nodes if node.op_type == "Gather")
    return graph.source_encodings.get(gather.inputs[0].source)


@pytest.fixture
def read_table(model, agree, rng):
    """Compare a model with the peer, and return the grid of its table in the graph."""

    def read(nodes, outputs, dtype=np.uint8):
        low = np.iinfo(dtype).min
        table = rng.integers(low, low + 256, (7, 4)).astype(dtype)
        constants = {"table": table, "s": F32(0.05), "z": np.array(low + 100, dtype)}
        constants |= {"t": F32(0.21), "w": F32(rng.normal(size=(4, 2)))}
        made = model(nodes, {"i": INDICES}, outputs, constants)
        made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        return grid_of_table(agree(made, {"i": INDICES}, rtol=1e-6, atol=1e-6))

    return read


@pytest.mark.parametrize(
    ("dtype", "grid"),
    [
        (np.uint8, (DType.UFIXED_POINT_8, ScaleOffset(float(F32(0.05)), -100))),
        (np.int8, (DType.UFIXED_POINT_8, ScaleOffset(float(F32(0.05)), -100))),
    ],
)
def test_a_table_keeps_its_grid(read_table, dtype, grid) -> None:
    nodes = [ROWS, dequantize("x"), N("MatMul", ["x", "w"], ["y"])]
    found = read_table(nodes, ["y"], dtype)
    assert (found.dtype, found.encoding) == grid


def test_rows_are_dequantized_for_each_reader(read_table) -> None:
    nodes = [ROWS, dequantize("x"), dequantize("r"), N("Mul", ["x", "r"], ["y"])]
    assert read_table(nodes, ["x", "y"]) is not None


def test_rows_may_also_be_read_as_they_are_stored(read_table) -> None:
    inputs = ["rows", "s", "z", "rows", "s", "z", "t", "z"]
    add = N("QLinearAdd", inputs, ["q"], domain="com.microsoft")
    nodes = [ROWS, dequantize("x"), add, dequantize("y", rows="q", scale="t")]
    assert read_table(nodes, ["x", "y"]) is not None
    assert read_table([ROWS, add, nodes[-1]], ["y"]) is not None


@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        ([ROWS, dequantize("x")], ["x", "rows"]),
        ([ROWS, dequantize("x"), dequantize("y", scale="t")], ["x", "y"]),
        ([ROWS, dequantize("x"), N("Cast", ["rows"], ["y"], to=TensorProto.INT32)], ["x", "y"]),
    ],
    ids=["output", "two scales", "integers"],
)
def test_integers_that_something_else_needs_stay(read_table, nodes, outputs) -> None:
    assert read_table(nodes, outputs) is None
