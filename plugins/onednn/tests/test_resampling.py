"""Resizing against the ops' references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.ir import DType, Spec
from dovetail_onednn import banded
from dovetail_opset.ops.resize import Interpolation
from dovetail_opset.resampling import Coordinates


def resized(model: Any, op_type: str, size: tuple[int, int], x: Any, **params: Any) -> Any:
    """Add a resize of an image to another height and width."""
    spec = Spec(DType.FLOAT_32, (x.shape[0], *size, x.shape[3]))
    return model.add(op_type, x, name="y", spec=spec, **params)


@st.composite
def sizes(draw: st.DrawFn) -> dict[str, Any]:
    coordinates = draw(st.sampled_from(["half_pixel_centers", "align_corners", ""]))
    return {
        "op_type": draw(st.sampled_from(["ResizeBilinear", "ResizeNearestNeighbor"])),
        "shape": (draw(st.integers(1, 2)), *draw(st.tuples(*[st.integers(1, 12)] * 2)), 5),
        "size": draw(st.tuples(*[st.integers(1, 30)] * 2)),
        "params": {coordinates: True} if coordinates else {},
    }


# each example compiles a primitive, for which no deadline is known
@settings(max_examples=100, derandomize=True)
@given(case=sizes())
def test_any_size(new_model: Any, agrees: Any, case: dict[str, Any]) -> None:
    model = new_model()
    x = model.input("x", *case["shape"])
    agrees(model, resized(model, case["op_type"], case["size"], x, **case["params"]))


@pytest.mark.parametrize("size", [(26, 22), (17, 30), (5, 4), (13, 11)])
def test_bilinear(model: Any, agrees: Any, size: tuple[int, int]) -> None:
    x = model.input("x", 2, 13, 11, 24)
    y = resized(model, "ResizeBilinear", size, x, half_pixel_centers=True)
    agrees(model, y, engine="y")


@pytest.mark.parametrize(
    ("size", "channels", "is_by_products"),
    [
        *(((190, 190), 1, True), ((300, 60), 1, True), ((190, 190), 2, True), ((60, 300), 3, True)),
        *(((200, 55), 3, True), ((190, 60), 3, False), ((190, 190), 4, False)),
        ((59, 300), 3, False),
    ],
)
def test_images_of_few_channels_are_enlarged_by_products(
    model: Any, agrees: Any, size: tuple[int, int], channels: int, is_by_products: bool
) -> None:
    x = model.input("x", 2, 60, 55, channels)
    y = resized(model, "ResizeBilinear", size, x, half_pixel_centers=True)
    agrees(model, y, engine="y")
    (step,) = model.prepare().steps
    assert (len(step.reads) > 1) is is_by_products  # matrices


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("channels", [1, 3])
def test_what_is_not_finite_stays_where_it_is(model: Any, channels: int, number: float) -> None:
    x = model.input("x", 1, 64, 64, channels)
    y = resized(model, "ResizeBilinear", (256, 256), x, half_pixel_centers=True)
    model.output(y)
    prepared, feeds = model.prepare(), model.feeds()
    finite, wanted = (each["y"] for each in (model.run(prepared, feeds), model.expected(feeds)))
    np.testing.assert_allclose(finite, wanted, rtol=1e-6, atol=1e-6)
    feeds["x"][0, 30, 20, 0] = number
    found, wanted = (each["y"] for each in (model.run(prepared, feeds), model.expected(feeds)))
    assert np.count_nonzero(~np.isfinite(wanted)) == 64  # 4 pixels around the 4 by 4
    # the library computes positions in float32
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert len(prepared.steps[0].reads) > 1  # matrices


@pytest.mark.parametrize("size", [(26, 33), (13, 110), (65, 11)])
@pytest.mark.parametrize("half_pixel_centers", [True, False])
def test_nearest(model: Any, agrees: Any, size: tuple[int, int], half_pixel_centers: bool) -> None:
    x = model.input("x", 2, 13, 11, 24)
    params = {"half_pixel_centers": half_pixel_centers}
    agrees(model, resized(model, "ResizeNearestNeighbor", size, x, **params), engine="y")


@pytest.mark.parametrize(
    ("op_type", "size", "params"),
    [
        ("ResizeBilinear", (26, 22), {}),
        ("ResizeBilinear", (26, 22), {"align_corners": True}),
        ("ResizeBilinear", (6, 5), {"half_pixel_centers": True, "antialias": True}),
        ("ResizeNearestNeighbor", (17, 22), {"half_pixel_centers": True}),
        ("ResizeNearestNeighbor", (6, 5), {}),
        ("ResizeNearestNeighbor", (26, 22), {"align_corners": True}),
    ],
)
def test_what_the_library_means_otherwise_is_left(
    model: Any,
    agrees: Any,
    kinds: Any,
    op_type: str,
    size: tuple[int, int],
    params: dict[str, Any],
) -> None:
    agrees(model, resized(model, op_type, size, model.input("x", 1, 13, 11, 8), **params))
    assert kinds(model.prepare().steps) == ["reference y"]


WEIGHTED = (Interpolation.LINEAR, Interpolation.CUBIC)


@st.composite
def weighted(draw: st.DrawFn) -> dict[str, Any]:
    if draw(st.booleans()):
        op_type, params = "ResizeBilinear", {"align_corners": draw(st.booleans())}
        if not params["align_corners"]:
            params |= {"half_pixel_centers": True, "antialias": True}
    else:
        op_type = "Resize"
        params = {
            "interpolation_mode": draw(
                st.sampled_from([Interpolation.LINEAR, Interpolation.CUBIC])
            ),
            "transformation_mode": draw(st.sampled_from(list(Coordinates))),
            "exclude_outside": draw(st.booleans()),
        }
    old, new = (draw(st.tuples(*[st.integers(2, most)] * 2)) for most in (70, 90))
    ends = draw(st.integers(1, 3)), draw(st.sampled_from([1, 3, 15, 16, 21, 64]))
    shapes = (ends[0], *old, ends[1]), (ends[0], *new, ends[1])
    return {"op_type": op_type, "params": params, "shapes": shapes}


@settings(max_examples=120, derandomize=True, deadline=None)
@given(case=weighted())
def test_products_of_bands(new_model: Any, agrees: Any, case: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(banded, "_LEAST", 1)
        model, (old, new) = new_model(), case["shapes"]
        y = resized(model, case["op_type"], new[1:3], model.input("x", *old), **case["params"])
        agrees(model, y, engine=None if old == new else "y")


def test_large_images_are_resized_by_products(model: Any, agrees: Any) -> None:
    x = model.input("x", 1, 40, 50, 16)
    y = resized(model, "ResizeBilinear", (80, 100), x, align_corners=True)
    agrees(model, y, engine="y")


def test_the_longest_extent(model: Any) -> None:
    """The library's positions are float32, with errors of up to 1e-4 elements."""
    x = model.input("x", 1, 1, 1024, 1)
    y = resized(model, "ResizeBilinear", (1, 3000), x, half_pixel_centers=True)
    model.output(y)
    feeds = model.feeds()
    found, wanted = model.run(model.prepare(), feeds)["y"], model.expected(feeds)["y"]
    steps = abs(feeds["x"][0, 0, 1:] - feeds["x"][0, 0, :-1]).max()
    assert abs(found - wanted).max() < 1e-4 * steps
