"""Color conversions against known colors and the inverse conversion."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec
from dovetail_opset.ops.color import AlphaOrder, ColorOrder

Run = Callable[..., Any]


@pytest.mark.parametrize("order", AlphaOrder)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_argb(run_op: Run, order: AlphaOrder, reverse: bool, dtype: Any) -> None:
    pixel = {"A": 255, "R": 1, "G": 2, "B": 3}
    x = np.array([pixel[name] for name in order.name], dtype)
    y = run_op("ArgbToRgb", np.tile(x, (2, 3, 1, 1)), input_order=order, reverse_output=reverse)
    assert (y.shape, y.dtype) == ((2, 3, 1, 3), dtype)
    np.testing.assert_array_equal(y, np.broadcast_to([3, 2, 1] if reverse else [1, 2, 3], y.shape))


def planar(blocks: Array, *, vu: bool) -> Array:
    """Encode an image whose 2 x 2 blocks have one color each: (n, h / 2, w / 2, 3), RGB."""
    red, green, blue = (blocks[..., i].astype(np.float64) / 255 for i in range(3))
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    u, v = (blue - luma) / 1.772 * 224 + 128, (red - luma) / 1.402 * 224 + 128
    rows = (luma * 219 + 16).repeat(2, axis=1).repeat(2, axis=2)
    chroma = np.stack([v, u] if vu else [u, v], axis=-1)
    n = len(blocks)
    return np.concatenate([rows.reshape(n, -1), chroma.reshape(n, -1)], axis=1)


def declared(n: int, h: int, w: int, dtype: DType = DType.FLOAT_32) -> tuple[Spec]:
    return (Spec(dtype, (n, h, w, 3)),)


@pytest.mark.parametrize("name", ["Nv12ToRgb", "Nv21ToRgb"])
@pytest.mark.parametrize("order", ColorOrder)
def test_planes_give_their_colors_back(run_op: Run, rng: Any, name: str, order: ColorOrder) -> None:
    blocks = rng.integers(0, 256, (2, 3, 4, 3))
    want = blocks.repeat(2, axis=1).repeat(2, axis=2)[..., :: 1 - 2 * order]
    x = planar(blocks, vu=name == "Nv21ToRgb")
    y = run_op(name, x.astype(np.float32), specs=declared(2, 6, 8), output_order=order)
    # float32 values of up to 255; the constants here have four digits
    np.testing.assert_allclose(y, want, atol=1e-3)
    stored = np.rint(x).astype(np.uint8)
    spec = declared(2, 6, 8, DType.UINT_8)
    y = run_op(name, stored, specs=spec, output_order=order)
    assert y.dtype == np.uint8
    # each plane is half a step off at most: (0.5 * 1.164 + 0.5 * 2.017) and the last rounding
    assert np.abs(y.astype(int) - want).max() <= 2


def test_luma_is_in_video_range_and_results_are_clamped(run_op: Run) -> None:
    # The fact that surprises: black is 16, white 235, and there is more on both sides.
    x = np.array([[16, 235, 0, 255, 128, 128]], np.uint8)
    y = run_op("Nv12ToRgb", x, specs=declared(1, 2, 2, DType.UINT_8), output_order=ColorOrder.RGB)
    np.testing.assert_array_equal(y.reshape(4, 3), [[0] * 3, [255] * 3, [0] * 3, [255] * 3])


def test_each_row_of_luma_has_its_place(run_op: Run) -> None:
    luma = np.arange(16, 16 + 24, dtype=np.float32)
    x = np.concatenate([luma, np.full(12, 128, np.float32)])[None]
    y = run_op("Nv21ToRgb", x, specs=declared(1, 4, 6), output_order=ColorOrder.RGB)
    want = (luma - 16).reshape(4, 6) * 255 / 219
    np.testing.assert_allclose(y[0, :, :, 1], want, atol=1e-4)  # float32


def test_empty_batches(run_op: Run) -> None:
    x = np.zeros((0, 6), np.float32)
    assert run_op("Nv12ToRgb", x, specs=declared(0, 2, 2), output_order=0).shape == (0, 2, 2, 3)
    x = np.zeros((0, 2, 2, 4), np.float32)
    assert run_op("ArgbToRgb", x, reverse_output=True).shape == (0, 2, 2, 3)


def test_refusals(run_op: Run) -> None:
    x = np.zeros((1, 24), np.float32)
    with pytest.raises(OpError, match="declare the image's height and width"):
        run_op("Nv12ToRgb", x, output_order=0)
    with pytest.raises(OpError, match=r"in\[0\] must have shape \(1, 36\)"):
        run_op("Nv12ToRgb", x, specs=declared(1, 4, 6), output_order=0)
    with pytest.raises(OpError, match="an image of 3 x 4 does not divide into blocks"):
        run_op("Nv21ToRgb", x, specs=declared(1, 3, 4), output_order=0)
    with pytest.raises(OpError, match=r"must be \(n, h, w, 3\), but is declared"):
        run_op("Nv21ToRgb", x, specs=(Spec(DType.FLOAT_32, (1, 4, 4)),), output_order=0)
    with pytest.raises(OpError, match=r"in\[0\] must have shape \(1, 2, 2, 4\)"):
        run_op("ArgbToRgb", np.zeros((1, 2, 2, 3), np.float32), reverse_output=False)
