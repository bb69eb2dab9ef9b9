"""Cases of changes of type."""

from __future__ import annotations

import numpy as np

from dovetail.ir import AxisScaleOffset, DType, ScaleOffset, Spec
from dovetail.testing import Encoded, OpCase
from dovetail_opset.testing._data import real, whole

_X = real(3, 5, low=-4, high=4)
_BYTES = whole(3, 5, low=0, high=256, dtype=np.uint8)
_EIGHT, _OTHER = ScaleOffset(0.03125, -100), ScaleOffset(0.0625, -90)
_HALVES = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 300.0, -300.0], np.float32)

CASES: tuple[OpCase, ...] = (
    OpCase("Cast", (_X,), np.trunc(_X).astype(np.int32), name="float to int"),
    OpCase("Cast", (whole(4),), whole(4).astype(np.float32), name="int to float"),
    OpCase("Cast", (whole(4),), whole(4).astype(np.int64), name="wider"),
    OpCase("Cast", (np.array([0, 3, -1], np.int32),), np.array([False, True, True]), name="bool"),
    OpCase("Cast", (np.array([True, False]),), np.array([1, 0], np.float32), name="from bool"),
    OpCase(
        "Cast",
        (Encoded(_BYTES, DType.UFIXED_POINT_8, _EIGHT),),
        _BYTES.astype(np.int32),
        name="stored values",
    ),
    OpCase(
        "Quantize",
        (_HALVES,),
        np.array([100, 102, 102, 100, 98, 255, 0], np.uint8),
        name="half to even, clamped",
        outputs=(Spec(DType.UFIXED_POINT_8, (7,), ScaleOffset(1.0, -100)),),
    ),
    OpCase(
        "Quantize",
        (_X,),
        np.clip(np.rint(_X.astype(np.float64) / 0.001953125), -32768, 32767).astype(np.int16),
        name="int16",
        outputs=(Spec(DType.SFIXED_POINT_16, (3, 5), ScaleOffset(0.001953125)),),
    ),
    OpCase(
        "Dequantize",
        (Encoded(_BYTES, DType.UFIXED_POINT_8, _EIGHT),),
        (_BYTES.astype(np.float32) - 100) / 32,
    ),
    OpCase(
        "Dequantize",
        (
            Encoded(
                whole(3, 2, low=-127, dtype=np.int8),
                DType.SFIXED_POINT_8,
                AxisScaleOffset(1, np.array([0.5, 0.25], np.float32)),
            ),
        ),
        whole(3, 2, low=-127, dtype=np.int8) * np.array([0.5, 0.25], np.float32),
        name="by channel",
    ),
    OpCase(
        "Convert",
        (Encoded(_BYTES, DType.UFIXED_POINT_8, _EIGHT),),
        np.clip(np.rint((_BYTES.astype(np.float64) - 100) / 2) + 90, 0, 255).astype(np.uint8),
        name="another encoding",
        outputs=(Spec(DType.UFIXED_POINT_8, (3, 5), _OTHER),),
    ),
    OpCase(
        "Convert",
        (_X,),
        _X.astype(np.float16),
        name="half float",
        outputs=(Spec(DType.FLOAT_16, (3, 5)),),
    ),
)
