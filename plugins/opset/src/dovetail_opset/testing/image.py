"""Cases of colors, patches and columns of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail.ir import Array, DType, Spec
from dovetail.testing import OpCase
from dovetail_opset.testing._data import real, whole
from dovetail_opset.testing._windows import Ints, patches

_X = real(2, 5, 6, 3)
_PIXELS = whole(1, 2, 3, 4, low=0, high=256, dtype=np.uint8)
_VIDEO = real(1, 24, low=0, high=255)  # 4 rows of 4, then 2 rows of 2 pairs


def _colors(x: Array, *, v_first: bool) -> Array:
    """Return BT.601 colors in video range, pixel by pixel."""
    luma, pairs = x[0, :16].reshape(4, 4), x[0, 16:].reshape(2, 2, 2)
    made = np.zeros((1, 4, 4, 3))
    for i, j in np.ndindex(4, 4):
        first, second = (float(v) - 128 for v in pairs[i // 2, j // 2])
        u, v = (second, first) if v_first else (first, second)
        y = 255 / 219 * (float(luma[i, j]) - 16)
        red, blue = y + 1.596027 * v, y + 2.017232 * u
        made[0, i, j] = red, y - 0.812968 * v - 0.391762 * u, blue
    return np.clip(made, 0, 255)


def _columns(x: Array, size: Any, stride: Any, pads: Any, dilation: Any) -> Array:
    """Return Im2Col: of each window all of channel 0, then all of channel 1, and so on."""
    seen = patches(x, size, stride, pads, dilation)
    n, oh, ow, kh, kw, c = seen.shape
    return seen.transpose(0, 5, 3, 4, 1, 2).reshape(n, c * kh * kw, oh * ow)


def _image(x: Array, h: int, w: int, stride: Ints, dilation: Ints) -> Array:
    """Return Col2Im of 2 by 2 windows of an image of three channels, padded by one at its end."""
    oh, ow = ((n - d) // s for n, s, d in zip((h, w), stride, dilation, strict=True))
    blocks = x.reshape(len(x), 3, 2, 2, oh + 1, ow + 1).astype(np.float64)
    made = np.zeros((len(x), h + 1, w + 1, 3))
    for i, j, a, b in np.ndindex(oh + 1, ow + 1, 2, 2):
        down, across = i * stride[0] + a * dilation[0], j * stride[1] + b * dilation[1]
        made[:, down, across] += blocks[:, :, a, b, i, j]
    return made[:, :h, :w]


def _correlated(left: Array, right: Array, displacement: int, shift: int) -> Array:
    n, h, w, _ = left.shape
    made = np.zeros((n, h, w, 2 * displacement + 1))
    for at in np.ndindex(*made.shape):
        other = at[2] + at[3] - displacement + shift
        if 0 <= other < w:
            made[at] = np.mean(left[at[:3]].astype(float) * right[at[0], at[1], other])
    return made


def _glimpses(x: Array, offsets: Array) -> Array:
    """Return windows of 3 by 2, centered at offsets from the image's center, in half sizes."""
    n, h, w, c = x.shape
    made = np.zeros((n, 3, 2, c), np.float32)
    for b, (y, z) in enumerate(offsets):
        top, left = int((y * h + h) / 2 - 1.5), int((z * w + w) / 2 - 1)
        for i, j in np.ndindex(3, 2):
            if 0 <= top + i < h and 0 <= left + j < w:
                made[b, i, j] = x[b, top + i, left + j]
    return made


_UNFOLD: dict[str, Any] = {
    "kernel_size": (3, 2),
    "stride": (2, 1),
    "pad_amount": [[1, 0], [0, 1]],
    "dilation": (1, 2),
}

CASES: tuple[OpCase, ...] = (
    OpCase("ArgbToRgb", (_PIXELS,), lambda x: x[..., 1:], {"reverse_output": False}),
    OpCase(
        "ArgbToRgb",
        (_PIXELS,),
        lambda x: np.dstack([x[0, ..., 2], x[0, ..., 1], x[0, ..., 0]])[None],
        {"reverse_output": True, "input_order": 1},
        name="RGBA reversed",
    ),
    OpCase(
        "ArgbToRgb",
        (real(1, 2, 2, 4),),
        lambda x: x[..., 1:],
        {"reverse_output": False},
        name="float32",
    ),
    *(
        OpCase(
            op,
            (_VIDEO,),
            lambda x, v=v_first, step=step: _colors(x, v_first=v)[..., ::step],
            {"output_order": order},
            name="BGR" if order else "RGB",
            outputs=(Spec(DType.FLOAT_32, (1, 4, 4, 3)),),
            # the standard's coefficients are given to some six digits
            atol=1e-2,
        )
        for op, v_first in (("Nv12ToRgb", False), ("Nv21ToRgb", True))
        for order, step in ((0, 1), (1, -1))
    ),
    OpCase("Im2Col", (_X,), lambda x: _columns(x, *_UNFOLD.values()), _UNFOLD),
    OpCase(
        "Im2Col",
        (_X,),
        lambda x: x.reshape(2, 30, 3).swapaxes(1, 2),
        {"kernel_size": (1, 1), "stride": (1, 1), "pad_amount": [[0, 0], [0, 0]]},
        name="single elements",
    ),
    *(
        OpCase(
            "Col2Im",
            (real(2, 12, 12),),
            lambda x, h=h, w=w, s=stride, d=dilation: _image(x, h, w, s, d),
            {
                "kernel_size": (2, 2),
                "stride": stride,
                "dilation": dilation,
                "pad_amount": [[0, 1], [0, 1]],
            },
            name=f"{h} by {w}",
            outputs=(Spec(DType.FLOAT_32, (2, h, w, 3)),),
        )
        for h, w, stride, dilation in (
            (5, 4, (2, 1), (1, 1)),
            (4, 4, (1, 1), (2, 1)),
        )
    ),
    OpCase(
        "Correlation1D",
        (_X, real(2, 5, 6, 3, seed=2)),
        lambda a, b: _correlated(a, b, 2, 0),
        {"displacement": 2, "shift": 0},
    ),
    OpCase(
        "Correlation1D",
        (_X, real(2, 5, 6, 3, seed=2)),
        lambda a, b: _correlated(a, b, 1, -2),
        {"displacement": 1, "shift": -2},
        name="shifted",
    ),
    OpCase(
        "ExtractPatches",
        (_X,),
        lambda x: patches(x, (2, 3), (2, 2), [[0, 0], [0, 0]]).reshape(2, 2, 2, 18),
        {"size": (2, 3), "stride": (2, 2), "rate": (1, 1), "padding": 0},
        name="valid",
    ),
    OpCase(
        "ExtractPatches",
        (_X,),
        # 5 rows in steps of 2 take 3 windows of 3: one row before, one after; 6 columns in steps
        # of 3 take 2 windows that span 3: none
        lambda x: patches(x, (3, 2), (2, 3), [[1, 1], [0, 0]], (1, 2)).reshape(2, 3, 2, 18),
        {"size": (3, 2), "stride": (2, 3), "rate": (1, 2), "padding": 1},
        name="same, dilated",
    ),
    OpCase(
        "ExtractGlimpse",
        (_X, np.array([[0.1, -0.2], [0.9, 0.8]], np.float32)),
        _glimpses,
        {"size": (3, 2), "noise": 2},
        static=(1,),
    ),
    *(
        OpCase(
            "ExtractGlimpse",
            (_X, np.zeros((2, 2), np.float32)),
            _X[:, 1:4, 2:4],
            {"size": (3, 2), "noise": number},
            name=f"inside, {noise} noise",
        )
        for number, noise in enumerate(("uniform", "gaussian"))
    ),
    OpCase(
        "ExtractGlimpse",
        (_X, np.array([[1, 2], [0, 4]], np.float32)),
        np.stack([_X[0, 1:3, 2:4], _X[1, 0:2, 4:6]]),
        {"size": (2, 2), "noise": 2, "centered": False, "normalized": False},
        name="by element",
    ),
)
