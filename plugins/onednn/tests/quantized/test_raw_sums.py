"""Rescaled sums before they are rounded: float32 results of the library, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.ir import Array
from dovetail_onednn import library
from dovetail_onednn._api import SCALES, ZERO_POINTS, Arg, DataType
from dovetail_onednn.attributes import Quantization
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.geometry import Geometry, convolution_desc
from dovetail_onednn.known_answer import _computed
from dovetail_onednn.layouts import filters, images, vector


@pytest.mark.parametrize("zero", [0, 130])
@pytest.mark.parametrize(("channels", "units"), [(3, 10), (16, 16), (64, 48), (513, 70)])
def test_float32_results(channels: int, units: int, zero: int) -> None:
    if not library().has_vnni:
        pytest.skip("the library has no exact code for bytes on this processor")
    rng = np.random.default_rng(channels)
    # 255 beside 127: the largest sums of neighbors, with some irregular ones
    x = np.where(rng.random((40, channels)) < 0.8, 255, rng.integers(0, 256, (40, channels)))
    w = np.where(rng.random((channels, units)) < 0.8, 127, -128)
    m = rng.uniform(1e-6, 3e-3, units).astype(np.float32)
    b = rng.uniform(-300, 300, units).astype(np.float32)
    source, target = images((1, 5, 8, channels)).of_type(DataType.U8), images((1, 5, 8, units))
    weights, ones, none = filters((1, 1, channels, units), 1), (1, 1), (0, 0)
    geometry = Geometry(source, weights, vector(units), target, ones, ones, none, none)
    quantization = Quantization(((Arg.WEIGHTS, 1),), (Arg.SOURCE,) if zero else ())
    with convolution_desc(geometry, (), (source, target), quantization) as desc:
        operands: dict[int, tuple[MemoryDesc, Array]] = {
            Arg.SOURCE: (source, x.astype(np.uint8)),
            Arg.WEIGHTS: (weights.of_type(DataType.S8), w.astype(np.int8).reshape(1, 1, *w.shape)),
            Arg.BIAS: (vector(units), b),
            SCALES | Arg.WEIGHTS: (vector(units), m),
        }
        if zero:
            place = ZERO_POINTS | Arg.SOURCE
            operands[place] = (desc.desc(place), np.full(1, zero, np.int32))
        found = _computed(desc, operands, target)
    wanted = ((x - zero) @ w).astype(np.float32) * m + b
    np.testing.assert_array_equal(found.view(np.uint32), wanted.ravel().view(np.uint32))
