"""Cases of convolutions and their transposes."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail.ir import AxisScaleOffset, DType, ScaleOffset, Spec
from dovetail.testing import Encoded, OpCase, typed
from dovetail_opset.testing._data import real, whole
from dovetail_opset.testing._windows import convolved, spread

_SAME = [[1, 1], [1, 1]]
# Sums of some dozen products in float32, in any order.
_SUMS: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}
_ODD = real(1, 5, 4, 3, seed=2)


def _conv(
    x: tuple[int, ...], weight: tuple[int, ...], name: str, op: str = "Conv2d", **params: Any
) -> OpCase:
    """Return a case of a convolution of any rank, with a bias and static weights."""
    dims = len(weight) - 2
    group = x[-1] if op.startswith("DepthWise") else params.get("group", 1)
    stride, pads = params["stride"], params["pad_amount"]
    dilation = params.get("dilation", (1,) * dims)
    # of one axis, params are not lists of one
    scalar = {k: v if dims > 1 or k == "group" else v[0] for k, v in params.items()}
    return OpCase(
        op,
        (real(*x), real(*weight, seed=2), real(weight[-1], seed=3)),
        lambda x, w, b: convolved(x, w, b, stride, pads, dilation, group),
        scalar,
        name=name,
        static=(1, 2),
        **_SUMS,
    )


def _spread(
    x: tuple[int, ...], weight: tuple[int, ...], name: str, op: str, **params: Any
) -> OpCase:
    """Return a case of a transposed convolution, with a bias and static weights."""
    dims, group = len(weight) - 2, params.get("group", 1)
    stride, pads = params["stride"], params["pad_amount"]
    rest = params.get("dilation", ()), group, params.get("output_padding", ())
    scalar = {k: v if dims > 1 or k == "group" else v[0] for k, v in params.items()}
    return OpCase(
        op,
        (real(*x), real(*weight, seed=2), real(weight[-1] * group, seed=3)),
        lambda x, w, b: spread(x, w, b, stride, pads, *rest),
        scalar,
        name=name,
        static=(1, 2),
        **_SUMS,
    )


def _quantized(name: str, per_channel: bool) -> OpCase:
    """Return a case of a converter's integer convolution: int8 weights, int32 bias."""
    scales = np.array([0.02, 0.01, 0.05, 0.03], np.float32)
    axis = AxisScaleOffset(3, scales)
    one = ScaleOffset(0.02)
    x = Encoded(
        whole(1, 5, 6, 3, low=0, high=256, dtype=np.uint8),
        DType.UFIXED_POINT_8,
        ScaleOffset(0.05, -120),
    )
    weight = Encoded(
        whole(3, 3, 3, 4, low=-127, high=128, seed=2, dtype=np.int8),
        DType.SFIXED_POINT_8,
        axis if per_channel else one,
    )
    bias = Encoded(
        whole(4, low=-900, high=900, seed=3), DType.SFIXED_POINT_32, ScaleOffset(0.05 * 0.02)
    )
    return OpCase(
        "Conv2d",
        (x, weight, bias),
        lambda x, w, b: convolved(x, w, b, (1, 1), _SAME),
        {"stride": (1, 1), "pad_amount": _SAME},
        name=name,
        outputs=(Spec(DType.UFIXED_POINT_8, (1, 5, 6, 4), ScaleOffset(0.5, -128)),),
        static=(1, 2),
        steps=1,
    )


_PLAIN = _conv((2, 7, 9, 6), (3, 3, 6, 4), "padded", stride=(1, 1), pad_amount=_SAME)
_DEPTHWISE = _conv(
    (2, 7, 9, 4), (3, 3, 1, 4), "padded", "DepthWiseConv2d", stride=(1, 1), pad_amount=_SAME
)
_UP = _spread(
    (2, 3, 4, 5), (3, 3, 5, 4), "upsampling", "TransposeConv2d", stride=(2, 2), pad_amount=_SAME
)

CASES: tuple[OpCase, ...] = (
    *(c for case in (_PLAIN, _DEPTHWISE, _UP) for c in (case, *typed(case, DType.FLOAT_16))),
    _quantized("int8 weights", per_channel=False),
    _quantized("int8 weights by channel", per_channel=True),
    OpCase(
        "Conv2d",
        (_ODD, real(2, 3, 3, 2, seed=3)),
        lambda x, w: convolved(x, w, None, (1, 1), [[0, 0], [0, 0]]),
        {"stride": (1, 1), "pad_amount": [[0, 0], [0, 0]]},
        name="without bias, weights from outside",
        **_SUMS,
    ),
    _conv((1, 8, 7, 3), (3, 2, 3, 5), "stride", stride=(2, 3), pad_amount=[[1, 0], [0, 2]]),
    _conv((1, 9, 9, 2), (3, 3, 2, 3), "dilation", stride=(1, 2), pad_amount=_SAME, dilation=(2, 3)),
    _conv((2, 5, 5, 6), (3, 3, 2, 9), "groups", stride=(1, 1), pad_amount=_SAME, group=3),
    _conv((1, 4, 5, 8), (1, 1, 8, 3), "pointwise", stride=(1, 1), pad_amount=[[0, 0], [0, 0]]),
    _conv((0, 5, 5, 2), (3, 3, 2, 3), "no batch", stride=(1, 1), pad_amount=_SAME),
    _conv((2, 9, 4), (3, 4, 5), "padded", "Conv1d", stride=(2,), pad_amount=[[1, 2]]),
    _conv(
        (1, 11, 4),
        (3, 2, 4),
        "groups",
        "Conv1d",
        stride=(1,),
        pad_amount=[[2, 2]],
        group=2,
        dilation=(2,),
    ),
    _conv(
        (1, 4, 5, 6, 2),
        (2, 3, 2, 2, 3),
        "padded",
        "Conv3d",
        stride=(1, 2, 1),
        pad_amount=[[1, 0], [1, 1], [0, 1]],
    ),
    _conv(
        (1, 5, 5, 5, 4),
        (2, 2, 2, 2, 4),
        "groups",
        "Conv3d",
        stride=(1, 1, 2),
        pad_amount=[[0, 0]] * 3,
        dilation=(2, 1, 2),
        group=2,
    ),
    _conv(
        (1, 6, 8, 3),
        (3, 2, 1, 6),
        "multiplier",
        "DepthWiseConv2d",
        stride=(2, 1),
        pad_amount=[[0, 1], [1, 0]],
        dilation=(1, 2),
    ),
    _conv(
        (2, 9, 3),
        (3, 1, 6),
        "multiplier",
        "DepthWiseConv1d",
        stride=(2,),
        pad_amount=[[1, 1]],
        dilation=(2,),
    ),
    _spread((2, 5, 4), (3, 4, 3), "stride", "TransposeConv1d", stride=(2,), pad_amount=[[1, 0]]),
    _spread(
        (1, 4, 4),
        (3, 4, 2),
        "groups",
        "TransposeConv1d",
        stride=(3,),
        pad_amount=[[0, 1]],
        group=2,
        output_padding=(2,),
    ),
    _spread(
        (1, 3, 4, 4),
        (2, 3, 4, 3),
        "groups",
        "TransposeConv2d",
        stride=(2, 3),
        pad_amount=[[0, 1], [1, 0]],
        group=2,
        output_padding=(1, 2),
    ),
    _spread(
        (1, 2, 3, 3, 2),
        (2, 2, 3, 2, 3),
        "stride",
        "TransposeConv3d",
        stride=(1, 2, 2),
        pad_amount=[[0, 0], [1, 0], [1, 1]],
    ),
    _spread(
        (1, 3, 2, 2, 4),
        (2, 2, 2, 4, 1),
        "groups",
        "TransposeConv3d",
        stride=(2, 1, 1),
        pad_amount=[[1, 1], [0, 0], [0, 1]],
        group=2,
        dilation=(2, 1, 2),
        output_padding=(1, 0, 1),
    ),
)
