"""Conversions to a grid and back that change nothing, which are not computed."""

from __future__ import annotations

from dovetail.ir import DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail.ops import OpRegistry, check_ops
from dovetail_htp import HtpBackend, HtpOptions
from dovetail_opset import PACKAGE
from dovetail_opset.build import add

U8, F32 = DType.UFIXED_POINT_8, DType.FLOAT_32


def test_the_second_pair_around_a_move_is_left_out() -> None:
    graph, ops = Graph("net"), OpRegistry.of(PACKAGE)
    y = graph.add_tensor(Tensor("x", F32, (4, 4), TensorKind.APP_WRITE))
    for i in range(2):
        spec = Spec(U8, y.shape, ScaleOffset(0.02, -100))
        y = add(graph, "Quantize", [y], name=f"stored{i}", spec=spec)
        y = add(graph, "Dequantize", [y], name=f"real{i}", spec=Spec(F32, y.shape))
        y = add(graph, "Transpose", [y], name=f"moved{i}", perm=(1, 0))
    y.kind = TensorKind.APP_READ
    made = HtpBackend(ops, HtpOptions()).adapted(check_ops(graph, ops))
    found = [view.op_type for view in made.nodes]
    assert found == ["Quantize", "Dequantize", "Transpose", "Transpose"]
