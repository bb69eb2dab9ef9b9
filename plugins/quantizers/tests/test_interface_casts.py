"""Values after casts at the interface of a quantized graph: they saturate on every processor."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.ir import DType, Node, ScaleOffset, Tensor
from dovetail_quantizers.refinement.walk import _interface


@pytest.mark.parametrize(
    ("dtype", "lowest", "highest"),
    [
        (DType.UFIXED_POINT_8, 0, 255),
        (DType.SFIXED_POINT_8, -128, 127),
        (DType.UFIXED_POINT_16, 0, 65535),
    ],
)
def test_cast_to_fixed_point_saturates(dtype: DType, lowest: int, highest: int) -> None:
    x = Tensor("x", DType.INT_32, (6,))
    y = Tensor("y", dtype, (6,), encoding=ScaleOffset(0.5, 0))
    node = Node("cast", "qti.aisw", "Cast", [x], [y])
    values = np.array([np.nan, np.inf, -np.inf, 1e30, 7, -(2.0**40)], np.float32)
    (found,) = _interface(node, [values])
    stored = np.array([0, highest, lowest, highest, 7, lowest])
    np.testing.assert_array_equal(found, stored * 0.5)
