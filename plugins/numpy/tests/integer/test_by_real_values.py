"""Colors and key points: against formulas written out."""

import numpy as np

from dovetail.ir import DType, ScaleOffset, Spec

U8, U16 = DType.UFIXED_POINT_8, DType.UFIXED_POINT_16


def test_colors_from_luma_and_chroma(node, run_node, rng):
    x = rng.integers(0, 256, (1, 24)).astype(np.uint8)
    out = Spec(U8, (1, 4, 4, 3), ScaleOffset(1.0))
    view = node("Nv12ToRgb", [Spec(U8, x.shape, ScaleOffset(1.0))], [out], output_order=0)
    luma = (x[0, :16].reshape(4, 4) - 16.0) * 255 / 219
    u, v = (x[0, 16:].reshape(2, 2, 2) - 128.0).transpose(2, 0, 1).repeat(2, 1).repeat(2, 2)
    # BT.601 in video range
    red = luma + 1.402 * 255 / 224 * v
    green = luma - (0.114 * 1.772 * u + 0.299 * 1.402 * v) / 0.587 * 255 / 224
    blue = luma + 1.772 * 255 / 224 * u
    wanted = np.clip(np.stack([red, green, blue], axis=-1), 0, 255)
    assert np.abs(run_node(view, x)[0][0] - wanted).max() <= 0.5 + 1e-6


def test_key_point_between_elements(node, run_node):
    heat = np.zeros((1, 3, 3, 1), np.uint8)
    heat[0, 1] = np.uint8([[10], [40], [40]])  # the parabola through these has its peak at 1/2
    heat[0, ::2, 1] = 20
    boxes = np.uint16([[0, 0, 240, 240]])
    outs = [
        Spec(U8, (1, 1), ScaleOffset(0.25)),
        Spec(U16, (1, 1, 2), ScaleOffset(0.125)),
    ]
    ins = [Spec(U8, heat.shape, ScaleOffset(0.5)), Spec(U16, (1, 4), ScaleOffset(0.125))]
    value, place = run_node(node("HeatMapMaxKeyPoint", ins, outs), heat, boxes)
    # 20 at the element, 15 / 2 * 1/2 - 15 / 2 * 1/4 above it
    assert value.tolist() == [[round((20 + 15 / 8) / 0.25)]]
    assert place.tolist() == [[[240 * (1.5 + 0.5) / 3, 120]]]
