"""Conversions between color formats of images."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum
from typing import ClassVar

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec
from dovetail.ops import BatchAxis, Domain, In, Op, bool8, choice
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, moved, need_rank, need_shape


class AlphaOrder(enum.IntEnum):
    """Position of the alpha channel."""

    ARGB = 0
    RGBA = 1


class ColorOrder(enum.IntEnum):
    """The color that comes first."""

    RGB = 0
    BGR = 1


# ITU-R BT.601: what red and blue contribute to luma.
_RED, _BLUE = 0.299, 0.114
# Video range: luma has 219 steps from 16 on, both chromas 224 steps around 128.
_LUMA = 255 / 219
_CHROMA = 255 / 224
_GREEN = 1 - _RED - _BLUE
# Rows: the factors of luma, U and V for R, G and B.
_FROM_YUV = np.array(
    [
        (_LUMA, 0, 2 * (1 - _RED) * _CHROMA),
        (
            _LUMA,
            -2 * _BLUE * (1 - _BLUE) / _GREEN * _CHROMA,
            -2 * _RED * (1 - _RED) / _GREEN * _CHROMA,
        ),
        (_LUMA, 2 * (1 - _BLUE) * _CHROMA, 0),
    ]
)


@PACKAGE.op("ArgbToRgb")
class ArgbToRgb(Op):
    """Colors without their alpha channel, in the input's order or, reversed, as BGR.

    x: (n, h, w, 4). Returns (n, h, w, 3).
    """

    inputs = (In("in[0]"),)
    domain = Domain.MOVE
    batch_axis = BatchAxis.FIRST

    input_order = choice(AlphaOrder, AlphaOrder.ARGB)
    reverse_output = bool8()

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        need_rank(x, 4, "in[0]")
        need_shape(x, (*x.shape[:3], 4), "in[0]")
        return moved(x, (*x.shape[:3], 3), out)

    def reference(self, x: Array) -> Array:
        colors = x[..., 1:] if self.input_order is AlphaOrder.ARGB else x[..., :3]
        return colors[..., ::-1] if self.reverse_output else colors


class _PlanarToRgb(Op):
    inputs = (In("in[0]"),)
    batch_axis = BatchAxis.FIRST

    output_order = choice(ColorOrder, dtype=DType.INT_32)

    chroma_order: ClassVar[tuple[int, int]] = (0, 1)  # where U and V are in a pair

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        need_rank(x, 2, "in[0]")
        if out is None:
            raise OpError("the output must declare the image's height and width")
        if len(out.shape) != 4 or out.shape[3] != 3:
            raise OpError(f"the output must be (n, h, w, 3), but is declared {out.shape}")
        n, height, width, _ = out.shape
        if height % 2 or width % 2:
            raise OpError(f"an image of {height} x {width} does not divide into blocks of 2 x 2")
        need_shape(x, (n, height * width * 3 // 2), "in[0]")
        return computed(x, out.shape, out)

    @property
    def factors(self) -> Array:
        """Factors of luma, U and V: a row for each color in the output's order, (3, 3)."""
        return _FROM_YUV if self.output_order is ColorOrder.RGB else _FROM_YUV[::-1]

    def reference(self, x: Array, out: Spec) -> Array:
        n, height, width, _ = out.shape
        kind = x.dtype if x.dtype.kind == "f" else np.dtype(np.float32)
        luma = x[:, : height * width].reshape(n, height // 2, 2, width // 2, 2, 1).astype(kind)
        pairs = x[:, height * width :].reshape(n, height // 2, 1, width // 2, 1, 2).astype(kind)
        matrix = self.factors.astype(kind)
        # chroma is the same for a whole block, so its part is computed once for each
        colors = (pairs[..., self.chroma_order] - 128) @ matrix[:, 1:].T
        found: Array = np.clip((luma - 16) * matrix[:, 0] + colors, 0, 255).reshape(out.shape)
        return found if x.dtype.kind == "f" else np.rint(found)


@PACKAGE.op("Nv12ToRgb")
class Nv12ToRgb(_PlanarToRgb):
    """Colors from luma and half-size chroma in pairs (U, V).

    x: (n, h * w * 3 / 2), the luma rows and then the chroma rows, values 0..255; the output
    declares (n, h, w, 3), h and w even. ITU-R BT.601 in video range (the standard is not
    documented; this is the usual one), clamped to 0..255; integers are rounded.
    """

    source = "spec/qnn_ops.md, Nv12ToRgb; ITU-R BT.601"


@PACKAGE.op("Nv21ToRgb")
class Nv21ToRgb(_PlanarToRgb):
    """Colors from luma and half-size chroma in pairs (V, U); otherwise as Nv12ToRgb.

    x: (n, h * w * 3 / 2); the output declares (n, h, w, 3), h and w even.
    """

    source = "spec/qnn_ops.md, Nv21ToRgb; ITU-R BT.601"

    chroma_order = (1, 0)
