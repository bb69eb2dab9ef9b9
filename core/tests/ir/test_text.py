"""The text form of a graph."""

from __future__ import annotations

import numpy as np

from dovetail.ir import (
    AxisScaleOffset,
    DType,
    Graph,
    Node,
    Scalar,
    ScaleOffset,
    Tensor,
    TensorKind,
    to_text,
)

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


def test_long_params_are_shortened_and_missing_ones_said() -> None:
    made = graph()
    made.node("mm").params = {
        "lost": Tensor("p", DType.UINT_32, (1,)),
        "table": Tensor.static("t", np.arange(100, dtype=np.uint32)),
    }
    line = next(line for line in to_text(made).splitlines() if "MatMul" in line)
    assert "{lost=(no data), table=[ 0,  1,  2, ..., 97, 98, 99]}" in line
