"""Resizing of stored integers on oneDNN: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, ScaleOffset, Spec, Tensor, TensorKind
from dovetail_opset.build import add
from dovetail_opset.ops.resize import Interpolation
from dovetail_opset.resampling import Coordinates

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16


def resized(
    net: Any,
    old: Any,
    new: Any,
    given: Any,
    wanted: Any,
    op_type: str = "ResizeBilinear",
    **params: Any,
) -> Tensor:
    dtype, scale, zero = given
    x = Tensor("x", dtype, old, TensorKind.APP_WRITE, encoding=ScaleOffset(scale, -zero))
    dtype, scale, zero = wanted
    spec = Spec(dtype, (old[0], *new, old[-1]), ScaleOffset(scale, -zero))
    return add(net.graph, op_type, [net.graph.add_tensor(x)], name="y", spec=spec, **params)


@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ((U8, 0.02, 0), (U8, 0.02, 0)),
        ((U8, 0.02, 128), (U8, 0.02, 128)),
        ((S8, 0.02, -3), (S8, 0.02, -3)),
        ((U8, 0.06621304154396057, 0), (U8, 0.057822082191705704, 0)),
        ((U8, 0.031, 117), (U8, 0.04, 90)),
        ((U8, 0.031, 117), (S8, 0.0129, -70)),
        ((U16, 0.0002, 300), (U16, 0.0002, 300)),
        ((U16, 0.0002, 0), (U16, 0.00022, 0)),
        ((U16, 0.0002, 31000), (S16, 0.00017, -900)),
        ((S16, 0.0002, 31000), (U8, 0.03, 90)),
        ((U8, 0.03, 90), (U16, 0.00011, 65535)),
        ((S16, 0.01, 5), (S16, 2.5e-7, 7)),
        ((U8, 0.02, 3), (U8, 0.04, 3)),  # every other level is a tie
        ((U16, 0.0002, 300), (U16, 0.0004, 300)),
    ],
)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((1, 16, 16, 64), (32, 32)),
        ((2, 7, 9, 5), (14, 36)),
        ((1, 12, 11, 33), (6, 22)),
        ((1, 1, 6, 16), (4, 12)),
        ((1, 3, 2, 16), (48, 64)),
        # weights of sixths beyond the border only, where both elements are the same
        ((2, 1, 1, 64), (6, 14)),
        ((2, 2, 2, 64), (3, 3)),
        ((2, 1, 7, 16), (6, 14)),
    ],
)
def test_exact_factors(
    new_network: Any, old: Any, new: Any, given: Any, wanted: Any, extreme: bool
) -> None:
    net = new_network(extreme)
    net.check(resized(net, old, new, given, wanted, half_pixel_centers=True), engine=False)


def test_engine_resizes_by_two(new_network: Any) -> None:
    net = new_network()
    same = (U8, 0.02, 128)
    net.check(resized(net, (1, 8, 8, 32), (16, 16), same, same, half_pixel_centers=True))


@pytest.mark.parametrize(
    ("new", "params"),
    [
        ((26, 22), {"half_pixel_centers": True}),
        ((12, 10), {"align_corners": True}),
        ((12, 10), {}),
        ((3, 2), {"half_pixel_centers": True, "antialias": True}),
    ],
)
def test_other_factors_are_left_to_the_definition(new_network: Any, new: Any, params: Any) -> None:
    net = new_network()
    same = (U8, 0.02, 7)
    net.check(resized(net, (1, 6, 5, 8), new, same, same, **params), engine=False)


@pytest.mark.parametrize("old", [(1, 8, 8, 32), (1, 1, 1, 32)])
@pytest.mark.parametrize("wanted", [(U16, 0.0002, 300), (S16, 0.00019, 7), (U8, 0.1, 3)])
def test_engine_resizes_words(new_network: Any, wanted: Any, old: Any) -> None:
    net, new = new_network(), (16, 16) if old[1] > 1 else (6, 14)
    y = resized(net, old, new, (U16, 0.0002, 300), wanted, half_pixel_centers=True)
    y.kind = TensorKind.APP_READ
    (step,) = net.prepare().steps
    assert "onednn" in getattr(step.bind, "func", step.bind).__module__
    net.check(y)


@pytest.mark.parametrize("old", [(1, 8, 8, 32), (1, 9, 16), (1, 3, 4, 5, 16)])
@pytest.mark.parametrize("dtype", [U8, U16])
@pytest.mark.parametrize("mode", Coordinates)
@pytest.mark.parametrize("factor", [2, 4])
def test_linear_resize(
    new_network: Any, factor: int, mode: Coordinates, dtype: DType, old: Any
) -> None:
    net, is_centered = new_network(), mode.name.endswith("HALF_PIXEL")
    params = {"interpolation_mode": Interpolation.LINEAR, "transformation_mode": mode}
    new, ends = [size * factor for size in old[1:-1]], ((dtype, 0.02, 7), (dtype, 0.019, 3))
    y = resized(net, old, new, *ends, "Resize", **params)
    net.check(y, engine=is_centered and len(old) < 5)


def test_pytorch_resizes_to_one_element(new_network: Any) -> None:
    net, mode = new_network(), Coordinates.PYTORCH_HALF_PIXEL
    params = {"interpolation_mode": Interpolation.LINEAR, "transformation_mode": mode}
    ends = (U16, 0.02, 7), (U16, 0.019, 3)
    net.check(resized(net, (1, 4, 4, 32), (1, 8), *ends, "Resize", **params), engine=False)


@pytest.mark.parametrize("scale", [0.0002 * 4, 0.0002 * 1.25, 0.0002 / 3])
def test_ties_of_words(new_network: Any, scale: float) -> None:
    """Quarters of words are ties, or close to ties, on these grids."""
    net = new_network()
    ends = (U16, 0.0002, 300), (U16, scale, 77)
    net.check(resized(net, (1, 64, 64, 16), (128, 128), *ends, half_pixel_centers=True))


def test_scales_far_apart(new_network: Any) -> None:
    net = new_network()
    ends = (U16, 10.0, 300), (U16, 1e-8, 0)
    net.check(resized(net, (1, 8, 8, 8), (16, 16), *ends, half_pixel_centers=True), engine=False)


GRIDS = [
    ((U8, 0.02, 0), (U8, 0.02, 0)),
    ((U8, 0.031, 117), (S8, 0.0129, -70)),
    ((S8, 0.02, -3), (U8, 0.04, 90)),
    ((U8, 0.02, 300), (U8, 0.01, 700)),
]
SIZES = [((1, 23, 17, 33), (45, 40)), ((2, 40, 31, 24), (29, 64)), ((1, 64, 50, 3), (101, 150))]


@pytest.mark.parametrize(("given", "wanted"), GRIDS)
@pytest.mark.parametrize(("old", "new"), SIZES)
@pytest.mark.parametrize(
    "params",
    [
        {"align_corners": True},
        {},
        {"half_pixel_centers": True},
        {"half_pixel_centers": True, "antialias": True},
    ],
)
def test_weighted_sums_of_bytes(
    new_network: Any, old: Any, new: Any, given: Any, wanted: Any, params: Any
) -> None:
    net = new_network()
    net.check(resized(net, old, new, given, wanted, **params))


@pytest.mark.parametrize("exclude_outside", [False, True])
@pytest.mark.parametrize("mode", Coordinates)
@pytest.mark.parametrize(("given", "wanted"), GRIDS[:2])
def test_cubic_sums_of_bytes(
    new_network: Any, given: Any, wanted: Any, mode: Coordinates, exclude_outside: bool
) -> None:
    net = new_network(extreme=True)
    params = {
        "interpolation_mode": Interpolation.CUBIC,
        "transformation_mode": mode,
        "exclude_outside": exclude_outside,
    }
    net.check(resized(net, (1, 23, 17, 33), (45, 40), given, wanted, "Resize", **params))


@pytest.mark.parametrize("step", [1, 2, 4, 0.5])
@pytest.mark.parametrize(
    ("new", "params"),
    [((46, 68), {}), ((45, 40), {"align_corners": True}), ((45, 49), {"align_corners": True})],
)
def test_sums_of_bytes_that_are_ties(new_network: Any, new: Any, params: Any, step: float) -> None:
    """Means of neighbors are, where weights are a half; all are on a coarser grid, if equal."""
    net = new_network()
    y = resized(net, (1, 23, 17, 33), new, (U8, 0.02, 0), (U8, 0.02 * step, 3), **params)
    x = net.rng.integers(0, 256, (1, 1, 1, 33), np.uint8).repeat(23, 1).repeat(17, 2)
    net.check(y)
    net.check(y, feeds={"x": x})


def test_grids_far_apart_are_left_to_the_definition(new_network: Any) -> None:
    net = new_network()
    ends = (U8, 10.0, 3), (U8, 1e-8, 0)
    net.check(resized(net, (1, 23, 17, 33), (45, 40), *ends, align_corners=True), engine=False)
    assert not any(
        "onednn" in getattr(step.bind, "func", step.bind).__module__ for step in net.prepare().steps
    )


@pytest.mark.parametrize("dtype", [U8, U16])
@pytest.mark.parametrize("shape", [(1, 4, 4, 3), (1, 16, 16, 32)])
def test_nearest_elements_are_clipped_to_the_bitwidth(
    new_network: Any, shape: Any, dtype: DType
) -> None:
    net, grid = new_network(), (dtype, 0.02, 7)
    y = resized(net, shape, (32, 32), grid, grid, "Resize")
    y.encoding = net.graph.tensors["x"].encoding = ScaleOffset(0.02, -7, 5)
    net.check(y, engine=False)
