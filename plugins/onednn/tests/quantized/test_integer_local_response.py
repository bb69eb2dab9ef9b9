"""Local response normalization of stored bytes on oneDNN: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.ir import DType
from dovetail_onednn.quantized import local_response

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8


@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ((U8, 0), (U8, 0.0151, 0)),
        ((U8, 131), (U8, 0.008, 120)),
        ((S8, -7), (S8, 0.011, 4)),
        ((U8, 0), (U8, 0.0003, 3)),
    ],
)
@pytest.mark.parametrize("shape", [(1, 21, 19, 96), (2, 5, 3, 16), (40, 256)])
@pytest.mark.parametrize("numbers", [(2e-5, 1.0, 2), (0.3, 2.0, 2)])
def test_lrn(
    new_network: Any, given: Any, wanted: Any, shape: Any, numbers: Any, extreme: bool
) -> None:
    net = new_network(extreme)
    x = net.input("x", shape, given[0], given[1])
    dtype, scale, zero = wanted
    alpha, bias, radius = numbers
    params = {"alpha": alpha, "beta": 0.75, "bias": bias, "radius": radius}
    net.check(net.add("Lrn", x, name="y", dtype=dtype, scale=scale, zero=zero, **params))


def test_marked_elements_are_computed_by_the_definition(new_network: Any, monkeypatch: Any) -> None:
    counts = []

    def counted(*arguments: Any) -> Any:
        counts.append(arguments[-1].size)
        return response(*arguments)

    response = local_response.response
    monkeypatch.setattr(local_response, "response", counted)
    net = new_network()
    x = net.input("x", (1, 64, 64, 96), U8)
    params = {"alpha": 0.01, "beta": 0.75, "bias": 1.0, "radius": 2}
    net.check(net.add("Lrn", x, name="y", scale=0.0151, **params))
    (count,) = counts
    assert 0 < count < 0.001 * 64 * 64 * 96
