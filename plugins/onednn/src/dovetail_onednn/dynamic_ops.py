"""Ops of plans: dynamic quantization, and products of what it gives by bytes.

`cpu` puts them in place of the nodes of a graph that compute the same; no graph of a user has them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec
from dovetail.ops import In, Op, OpPackage, Out, int32

Specs = Sequence[Spec | None]
PACKAGE = OpPackage("dovetail.onednn")
_GREATEST = 255
_FLOAT, _BYTE, _WHOLE = (DType.FLOAT_32,), (DType.UINT_8,), (DType.INT_32,)


@PACKAGE.op("DynamicQuantize")
class DynamicQuantize(Op):
    """Bytes of numbers, with a scale and a zero point by which they hold 0 and all numbers.

    x: any shape. Returns UINT_8 of this shape, the scale and the zero point, of one element each,
    and the zero point again as INT_32, which products read. NaN becomes 0.
    """

    inputs = (In("in[0]", _FLOAT),)
    outputs = (
        *(Out("out[0]", _BYTE), Out("out[1]", _FLOAT)),
        *(Out("out[2]", _BYTE), Out("out[3]", _WHOLE)),
    )
    source = "ONNX DynamicQuantizeLinear"

    def infer(
        self, x: Spec, q: Spec | None, scale: Spec | None, zero: Spec | None, whole: Spec | None
    ) -> tuple[Spec, Spec, Spec, Spec]:
        """Return the specs; scale and zero point have the shapes that are declared."""
        one = () if scale is None else scale.shape
        point = one if zero is None else zero.shape
        byte, number = DType.UINT_8, DType.FLOAT_32
        again = Spec(DType.INT_32, point)
        return Spec(byte, x.shape), Spec(number, one), Spec(byte, point), again

    def reference(
        self, x: Array, q: Spec, scale: Spec, zero: Spec, whole: Spec
    ) -> tuple[Array, Array, Array, Array]:
        """Return the bytes, the scale and the zero point in two types."""
        step, point = scale_and_zero(np.min(x), np.max(x))
        stored = np.clip(np.rint(x / step) + np.float32(point), 0, _GREATEST)
        stored = np.where(np.isnan(stored), 0, stored).astype(np.uint8)
        points = np.full(zero.shape, point, np.uint8)
        return stored, np.full(scale.shape, step), points, points.astype(np.int32)


def scale_and_zero(minimum: np.float32, maximum: np.float32) -> tuple[np.float32, int]:
    """Return the scale and the zero point of numbers between two, each step rounded to float32.

    Args:
        minimum: The smallest; NaN if a number is.
        maximum: The largest; NaN if a number is.
    """
    low = np.float32(0) if minimum > 0 else minimum  # NaN stays
    extent = (np.float32(0) if maximum < 0 else maximum) - low
    scale = np.float32(1) if extent == 0 else extent / np.float32(_GREATEST)
    point = float(-low / scale)
    return scale, round(min(point, _GREATEST)) if point >= 0 else 0


@PACKAGE.op("DynamicMatMul")
class DynamicMatMul(Op):
    """Exact sums of products of bytes less their zero points, times both scales, plus a bias.

    q: (..., depth), its scale and its zero point; weights: (depth, units), to which the param
    offset is added; their scale, one for all or (units,); bias: (units,). The output must be
    declared: its last axis is the units.
    """

    inputs = (
        *(In("in[0]", _BYTE), In("in[1]", _FLOAT), In("in[2]", _WHOLE)),
        *(In("in[3]", (DType.INT_8,)), In("in[4]", _FLOAT), In("in[5]", _FLOAT, optional=True)),
    )
    source = "ONNX MatMulInteger"

    offset = int32(0)

    def infer(
        self,
        q: Spec,
        scale: Spec,
        zero: Spec,
        weights: Spec,
        factors: Spec,
        bias: Spec | None,
        out: Spec | None,
    ) -> Spec:
        """Return the declared spec."""
        if out is None:
            raise OpError("the output must be declared")
        return out

    def reference(
        self,
        q: Array,
        scale: Array,
        zero: Array,
        weights: Array,
        factors: Array,
        bias: Array | None,
        out: Spec,
    ) -> Array:
        """Return the sums, scaled."""
        depth = len(weights)
        rows = q.reshape(-1, depth).astype(np.int64) - int(zero.reshape(-1)[0])
        sums = rows @ (weights.astype(np.int64) + self.offset)
        real = sums.astype(np.float32) * (scale.reshape(-1) * factors)
        found: Array = (real if bias is None else real + bias).reshape(out.shape)
        return found

    def work(self, ins: Specs, outs: Specs) -> int:
        """Return the number of products."""
        q, weights = ins[0], ins[3]
        if q is None or weights is None:
            return 0
        return int(np.prod(q.shape, dtype=np.int64)) * weights.shape[-1]
