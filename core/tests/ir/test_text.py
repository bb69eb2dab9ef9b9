"""The text form of a graph."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.ir import (
    AxisScaleOffset,
    DataFormat,
    DType,
    Encoding,
    EncodingMapping,
    FloatBlock,
    Graph,
    Mapped,
    MemoryType,
    Node,
    Scalar,
    ScaleOffset,
    Tensor,
    TensorKind,
    Vector,
    to_text,
)
from dovetail.ir.text import encoding_text

ONES = np.ones(2, np.float32)

WANTED = """\
graph net {
  app_write %x: UFIXED_POINT_8[1, 4] (scale 0.5, offset -128)
  static %w: SFIXED_POINT_8[4, 2] (BW_AXIS_SCALE_OFFSET on axis 1, 4 bits)
  app_read %y: FLOAT_32[]
  %m: FLOAT_16[1, 2] = qti.aisw::MatMul(%x, none, %w) {keep=True, perm=[[0, 1], [1, 0]]} 'mm'
  %y: FLOAT_32[] = my.pkg::Sum(%m) 'sum'  # /head/ReduceSum, /head/Cast
}
"""


def graph() -> Graph:
    made = Graph("net")
    x = made.add_tensor(
        Tensor(
            "x", DType.UFIXED_POINT_8, (1, 4), TensorKind.APP_WRITE, encoding=ScaleOffset(0.5, -128)
        )
    )
    per_axis = AxisScaleOffset(1, np.ones(2, np.float32), bitwidth=4)
    stored = np.zeros((4, 2), np.int8)
    w = made.add_tensor(Tensor.static("w", stored, DType.SFIXED_POINT_8, encoding=per_axis))
    m = made.add_tensor(Tensor("m", DType.FLOAT_16, (1, 2)))
    y = made.add_tensor(Tensor("y", DType.FLOAT_32, (), TensorKind.APP_READ))
    # added backwards: the text follows the data
    made.add_node(Node("sum", "my.pkg", "Sum", [m], [y], sources=["/head/ReduceSum", "/head/Cast"]))
    perm = Tensor.static("mm.perm", np.array([[0, 1], [1, 0]], np.uint32))
    params = {"perm": perm, "keep": Scalar(DType.BOOL_8, True)}
    made.add_node(Node("mm", "qti.aisw", "MatMul", [x, None, w], [m], params))
    return made


def test_a_graph_reads_from_top_to_bottom() -> None:
    assert to_text(graph()) == WANTED


def test_dynamic_axes_formats_and_memory_are_shown() -> None:
    made = graph()
    how = {"memory_type": MemoryType.MEMHANDLE, "data_format": DataFormat.UBWC_NV12}
    made.add_tensor(
        Tensor("z", DType.UINT_8, (8, 3), TensorKind.APP_WRITE, dynamic=(True, False), **how)
    )
    assert "\n  app_write %z: UINT_8[<=8, 3] UBWC_NV12 MEMHANDLE\n" in to_text(made)


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        (
            Mapped(AxisScaleOffset(1, ONES, None, 2), EncodingMapping.ASYMMETRIC_PLUS_ONE),
            "(BW_AXIS_SCALE_OFFSET_MAPPED on axis 1, 2 bits, ASYMMETRIC_PLUS_ONE)",
        ),
        (FloatBlock((1, 2), ONES, ONES), "(FLOAT_BLOCK)"),
        (FloatBlock((1, 2), ONES, ONES, 4), "(BW_FLOAT_BLOCK, 4 bits)"),
        (Vector(AxisScaleOffset(0, ONES, None, 4), 1, 1, 2, 1, 6), "(VECTOR on axis 0, 4 bits)"),
    ],
)
def test_encodings_have_a_short_text(encoding: Encoding, text: str) -> None:
    assert encoding_text(encoding) == text


def test_long_params_are_shortened_and_missing_ones_said() -> None:
    made = graph()
    made.node("mm").params = {
        "lost": Tensor("p", DType.UINT_32, (1,)),
        "table": Tensor.static("t", np.arange(100, dtype=np.uint32)),
    }
    line = next(line for line in to_text(made).splitlines() if "MatMul" in line)
    assert "{lost=(no data), table=[ 0,  1,  2, ..., 97, 98, 99]}" in line
