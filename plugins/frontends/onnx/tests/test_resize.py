"""Resize and Upsample against the peers: exactly one op where QNN has it, else products."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32, I64 = np.float32, np.int64
VERSIONS = [11, 13, 18, 19]
NONE = np.zeros(0, F32)
COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
# The peer computes places in float32, and weights from them.
LOOSE = {"rtol": 1e-4, "atol": 1e-5}


def numbers(*values):
    return np.array(values, F32)


def image(rng, *shape):
    return rng.standard_normal(shape).astype(F32)


def ops_of(graph):
    return [n.op_type for n in graph.nodes if n.op_type not in ("Transpose", "Reshape")]


@pytest.mark.parametrize("opset", VERSIONS)
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("size", [(8, 10), (3, 7), (4, 2)])
def test_linear_is_resize_bilinear(check, rng, opset, coordinates, size) -> None:
    graph = check(
        "Resize",
        [image(rng, 2, 3, 4, 5)],
        known=[NONE, NONE, np.array((2, 3, *size), I64)],
        opset=opset,
        mode="linear",
        coordinate_transformation_mode=coordinates,
        **LOOSE,
    )
    assert ops_of(graph) == ["ResizeBilinear"]


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("size", [(8, 10), (6, 7), (2, 3), (4, 9)])
def test_nearest(check, rng, coordinates, nearest, size) -> None:
    graph = check(
        "Resize",
        [image(rng, 1, 2, 4, 5)],
        known=[NONE, None, np.array((1, 2, *size), I64)],
        mode="nearest",
        nearest_mode=nearest,
        coordinate_transformation_mode=coordinates,
    )
    assert ops_of(graph) in (["ResizeNearestNeighbor"], ["Resize"])


@pytest.mark.parametrize(
    ("attributes", "op_type"),
    [
        ({"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, "nearest"),
        ({"coordinate_transformation_mode": "half_pixel"}, "nearest"),
        ({"coordinate_transformation_mode": "asymmetric", "nearest_mode": "ceil"}, "general"),
    ],
)
def test_doubling_by_nearest(check, rng, attributes, op_type) -> None:
    scales = [NONE, numbers(1, 1, 2, 2)]
    graph = check("Resize", [image(rng, 1, 3, 3, 5)], known=scales, mode="nearest", **attributes)
    assert ops_of(graph) == ["ResizeNearestNeighbor" if op_type == "nearest" else "Resize"]


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("exclude", [0, 1])
@pytest.mark.parametrize("coefficient", [-0.75, -0.5])
@pytest.mark.parametrize("size", [(8, 10), (3, 4), (1, 7)])
def test_cubic_is_resize(check, rng, coordinates, exclude, coefficient, size) -> None:
    graph = check(
        "Resize",
        [image(rng, 1, 2, 4, 6)],
        known=[NONE, None, np.array((1, 2, *size), I64)],
        mode="cubic",
        coordinate_transformation_mode=coordinates,
        cubic_coeff_a=coefficient,
        exclude_outside=exclude,
        **LOOSE,
    )
    assert ops_of(graph) == ["Resize"]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scale", [0.7, 1.3, 2.5])
def test_a_scale_that_is_no_quotient(check, rng, mode, scale) -> None:
    # floor(5 * 1.3) is 6, but places are 1 / 1.3 apart and not 5 / 6
    check(
        "Resize",
        [image(rng, 1, 2, 5, 5)],
        known=[NONE, numbers(1, 1, scale, scale)],
        mode=mode,
        **LOOSE,
    )


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(1, 1, 2, 3), (1, 1, 0.5, 0.5), (1, 1, 0.6, 2)])
def test_version_10(check, rng, mode, scales) -> None:
    known = [numbers(*scales)]
    check("Resize", [image(rng, 1, 2, 5, 6)], known=known, opset=10, mode=mode, **LOOSE)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(1.0, 1.0, 2.0, 3.0), (1.0, 1.0, 1.5, 1.0)])
def test_upsample(check, rng, mode, scales) -> None:
    x = image(rng, 1, 2, 5, 6)
    graph = check("Upsample", [x], opset=7, mode=mode, scales=scales, **LOOSE)
    if scales[2] == 2:
        wanted = "ResizeNearestNeighbor" if mode == "nearest" else "ResizeBilinear"
        assert ops_of(graph) == [wanted]
    check("Upsample", [x], opset=9, known=[numbers(*scales)], mode=mode, **LOOSE)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("exclude", [0, 1])
@pytest.mark.parametrize("size", [(3, 4), (9, 2), (12, 16)])
def test_antialias(check, rng, mode, exclude, size) -> None:
    graph = check(
        "Resize",
        [image(rng, 1, 2, 8, 11)],
        known=[NONE, None, np.array((1, 2, *size), I64)],
        opset=18,
        mode=mode,
        antialias=1,
        exclude_outside=exclude,
        **LOOSE,
    )
    if mode == "linear" and exclude:
        assert ops_of(graph) == ["ResizeBilinear"]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scale", [0.7, 1.7])
def test_half_pixel_symmetric(check, rng, mode, scale) -> None:
    check(
        "Resize",
        [image(rng, 1, 2, 5, 6)],
        known=[NONE, numbers(1, 1, scale, scale)],
        opset=19,
        mode=mode,
        coordinate_transformation_mode="half_pixel_symmetric",
        **LOOSE,
    )


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("size", [(8, 12), (2, 3), (3, 5), (6, 4), (9, 1)])
def test_nearest_as_tensorflow_has_it(check, rng, opset, size) -> None:
    graph = check(
        "Resize",
        [image(rng, 1, 2, 4, 6)],
        known=[NONE, numbers(1, 1, size[0] / 4, size[1] / 6)],
        opset=opset,
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="tf_half_pixel_for_nn",
    )
    assert ops_of(graph) in (["ResizeNearestNeighbor"], ["Resize"])


def test_another_scale_as_tensorflow_has_it(check, rng) -> None:
    check(
        "Resize",
        [image(rng, 1, 2, 5, 5)],
        known=[NONE, numbers(1, 1, 0.7, 1.3)],
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="tf_half_pixel_for_nn",
    )


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    "roi", [(0, 0, 0.2, 0.15, 1, 1, 0.8, 0.9), (0, 0, -0.3, 0.4, 1, 1, 1.2, 1.3)]
)
def test_a_region_cropped_and_resized(check, rng, mode, roi) -> None:
    graph = check(
        "Resize",
        [image(rng, 1, 2, 5, 6)],
        known=[numbers(*roi), None, np.array((1, 2, 4, 7), I64)],
        mode=mode,
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=9.5,
        **LOOSE,
    )
    assert ("Pad" in ops_of(graph)) is (min(roi) < 0)


def test_a_region_far_away_is_a_constant(check, rng) -> None:
    check(
        "Resize",
        [
            image(rng, 1, 1, 4, 4),
        ],
        known=[numbers(0, 0, 3, 3, 1, 1, 4, 4), None, np.array((1, 1, 2, 3), I64)],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=-2.0,
    )


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_axes_and_aspect_ratio(check, rng, policy, mode) -> None:
    check(
        "Resize",
        [image(rng, 1, 2, 5, 6)],
        known=[NONE, None, np.array((9, 7), I64)],
        opset=18,
        mode=mode,
        axes=[3, 2],
        keep_aspect_ratio_policy=policy,
        **LOOSE,
    )


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("spatial", [(5,), (3, 4, 5)])
def test_one_and_three_dimensions(check, rng, mode, spatial) -> None:
    sizes = np.array((1, 2, *(n * 2 - 1 for n in spatial)), I64)
    x = image(rng, 1, 2, *spatial)
    graph = check("Resize", [x], known=[NONE, None, sizes], mode=mode, **LOOSE)
    if len(spatial) == 3:
        assert ops_of(graph) == ["Resize"]
    else:
        assert ops_of(graph) in (["ResizeNearestNeighbor"], ["ResizeBilinear"])


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_other_axes_than_spatial_ones(check, rng, mode) -> None:
    x = image(rng, 3, 4)
    check("Resize", [x], known=[NONE, None, np.array((5, 7), I64)], mode=mode, **LOOSE)
    x = image(rng, 2, 3, 4, 4)
    known = [NONE, numbers(1, 2, 1, 1)]
    check("Resize", [x], known=known, mode="nearest", **LOOSE)


def test_integers(check, rng) -> None:
    x = rng.integers(0, 255, (1, 2, 4, 4)).astype(np.uint8)
    known = [NONE, numbers(1, 1, 2, 2)]
    check("Resize", [x], known=known, mode="nearest")
    check("Resize", [x.astype(np.int32)], known=known, mode="linear")


def test_nothing_to_do(check, rng) -> None:
    graph = check("Resize", [image(rng, 1, 2, 3, 3)], known=[NONE, numbers(1, 1, 1, 1)])
    assert ops_of(graph) == []


def refusal(model, read, inputs, opset=13, constants=None, **attributes):
    node = helper.make_node("Resize", ["x", *inputs], ["y"], name="bigger", **attributes)
    given = {"x": np.ones((1, 1, 2, 2), F32)}
    given |= {k: np.ones(4, I64) for k in inputs if k and k not in (constants or {})}
    return lambda: read(model([node], given, ["y"], constants or {}, opset=opset))


def test_what_cannot_be_converted_says_why(model, read) -> None:
    four = {"s": numbers(1, 1, 2, 2)}
    with pytest.raises(
        UnsupportedOpError,
        match="sizes 'n' is computed from the model's inputs; it must be known when the",
    ):
        refusal(model, read, ["", "", "n"])()
    with pytest.raises(FrontendError, match="expected 4 scales, one for each axis, got 3"):
        refusal(model, read, ["", "s"], constants={"s": numbers(1, 2, 2)})()
    with pytest.raises(FrontendError, match="must be positive"):
        refusal(model, read, ["", "s"], constants={"s": numbers(1, 1, 0, 2)})()
    with pytest.raises(FrontendError, match="must be positive and less than"):
        refusal(model, read, ["", "s"], constants={"s": numbers(1, 1, 3e38, np.nan)})()
    with pytest.raises(FrontendError, match="too large"):
        refusal(model, read, ["", "s"], constants={"s": numbers(1, 1, 1e6, 1e6)})()
    with pytest.raises(FrontendError, match="expected 4 sizes, one for each axis, got 2"):
        refusal(model, read, ["", "", "n"], constants={"n": np.array([4, 4])})()
    twice = {"axes": [2, -2], "opset": 18}
    with pytest.raises(FrontendError, match=r"duplicate axis in axes"):
        refusal(model, read, ["", "s"], constants={"s": numbers(2, 2)}, **twice)()
    cropped = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    with pytest.raises(FrontendError, match="roi must have 8 numbers, got 2"):
        refusal(model, read, ["s2", "s"], constants={**four, "s2": numbers(0, 1)}, **cropped)()
    with pytest.raises(UnsupportedOpError, match="region of interest 'r' is computed"):
        refusal(model, read, ["r", "s"], constants=four, **cropped)()
    with pytest.raises(
        FrontendError, match="unsupported mode 'wavy'; expected one of nearest, linear, cubic"
    ):
        refusal(model, read, ["", "s"], constants=four, mode="wavy")()
    with pytest.raises(FrontendError, match="missing scales or sizes"):
        refusal(model, read, [])()
    with pytest.raises(UnsupportedOpError, match="there are no elements"):
        refusal(model, read, ["", "s"], constants={"s": numbers(1, 1, 0.25, 2)})()
