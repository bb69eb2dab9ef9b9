"""Bilinear resizing of stored bytes on oneDNN: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.ir import DType, ScaleOffset, Spec, Tensor, TensorKind
from dovetail_opset.build import add

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8


def resized(net: Any, old: Any, new: Any, given: Any, wanted: Any, **params: Any) -> Tensor:
    dtype, scale, zero = given
    x = Tensor("x", dtype, old, TensorKind.APP_WRITE, encoding=ScaleOffset(scale, -zero))
    dtype, scale, zero = wanted
    spec = Spec(dtype, (old[0], *new, old[-1]), ScaleOffset(scale, -zero))
    y = add(net.graph, "ResizeBilinear", [net.graph.add_tensor(x)], name="y", spec=spec, **params)
    return y


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
    ],
)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((1, 16, 16, 64), (32, 32)),
        ((2, 7, 9, 5), (14, 36)),
        ((1, 12, 11, 33), (6, 22)),
        ((1, 1, 6, 16), (4, 12)),
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
