"""Constants of sums in float32: the definition's bits for all pairs of bytes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from dovetail.ir import DType, ScaleOffset, TensorKind
from dovetail_onednn.quantized.sums import sum_constants

U8 = DType.UFIXED_POINT_8


def sum_of(new_network: Any, rng: np.random.Generator, op_type: str, **result: Any) -> Any:
    """Return the view of a sum of two tensors with drawn scales."""
    net = new_network()
    scales = rng.uniform(0.01, 0.05, 2).astype(np.float32).tolist()
    zeros = rng.integers(0, 256, 2).tolist()
    ins = [net.input(name, (2, 3)) for name in "ab"]
    for tensor, scale, zero in zip(ins, scales, zeros, strict=True):
        tensor.encoding = ScaleOffset(scale, -zero)
    scale = result.get("scale", float(np.float32(max(scales) * rng.uniform(0.8, 1.6))))
    net.add(op_type, *ins, name="y", scale=scale, zero=100).kind = TensorKind.APP_READ
    (view,) = net.checked().nodes
    return view


def test_nearly_all_encodings_have_constants(new_network: Any) -> None:
    rng = np.random.default_rng(5)
    ops = ["ElementWiseAdd", "ElementWiseSubtract"] * 40
    found = [sum_constants(sum_of(new_network, rng, op)) for op in ops]
    assert sum(numbers is not None for numbers in found) > 0.9 * len(found)


def test_constants_give_the_real_sum_rounded(new_network: Any) -> None:
    """The pairs nearest to ties, in exact arithmetic, with every order of roundings."""
    rng = np.random.default_rng(6)
    view = sum_of(new_network, rng, "ElementWiseAdd")
    numbers = sum_constants(view)
    assert numbers is not None
    (ga, gb), gy = [s.encoding for s in view.ins], view.outs[0].encoding
    every = np.arange(256.0)
    steps = (every[:, None] + ga.offset) * ga.scale + (every + gb.offset) * gb.scale
    steps = steps / gy.scale - gy.offset
    pairs = np.argsort(np.abs(steps - np.floor(steps) - 0.5), axis=None)[:200]
    for a, b in zip(*(axis.tolist() for axis in np.unravel_index(pairs, (256, 256))), strict=True):
        real = (a + ga.offset) * Fraction(ga.scale) + (b + gb.offset) * Fraction(gb.scale)
        wanted = min(max(round(real / Fraction(gy.scale) - gy.offset), 0), 255)
        exact = numbers.first * a, numbers.second * b
        first, second = (float(np.float32(x)) for x in exact)
        for total in (first + second, exact[0] + second, first + exact[1]):
            v = np.float32(np.float32(total) + np.float32(numbers.constant))
            assert min(max(round(float(v)), 0), 255) == wanted


def test_extreme_ratios_have_no_constants(new_network: Any) -> None:
    rng = np.random.default_rng(7)
    for scale in (1e-6, 1e6):
        assert sum_constants(sum_of(new_network, rng, "ElementWiseAdd", scale=scale)) is None
