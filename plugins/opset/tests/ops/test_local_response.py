"""Local response normalization against its formula, one element after the other."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.errors import OpError

Run = Callable[..., Any]


def neighbors(place: tuple[int, ...], shape: tuple[int, ...], axes: list[int], radius: int) -> Any:
    """Return the indices at most `radius` away along each of some axes."""
    ranges = [
        range(max(p - radius, 0), min(p + radius + 1, n)) if axis in axes else (p,)
        for axis, (p, n) in enumerate(zip(place, shape, strict=True))
    ]
    return itertools.product(*ranges)


CASES: list[tuple[tuple[int, ...], int, list[int]]] = [
    ((2, 3, 2, 7), 0, [3]),
    ((7,), 0, [0]),
    ((2, 7), 0, [1]),
    ((2, 4, 5, 3), 1, [1, 2]),
    ((2, 6, 3), 1, [1]),
    ((1, 2, 3, 4, 2), 1, [1, 2, 3]),
]


@pytest.mark.parametrize(("shape", "region", "axes"), CASES)
@pytest.mark.parametrize("radius", [0, 1, 2, 50])
def test_lrn(
    run_op: Run,
    rng: np.random.Generator,
    shape: tuple[int, ...],
    region: int,
    axes: list[int],
    radius: int,
) -> None:
    x = rng.standard_normal(shape).astype(np.float32)
    y = run_op("Lrn", x, radius=radius, region=region, alpha=0.3, beta=0.75, bias=2.0)
    for place in np.ndindex(*shape):
        total = sum(float(x[other]) ** 2 for other in neighbors(place, shape, axes, radius))
        want = float(x[place]) / (2 + 0.3 * total) ** 0.75  # alpha is not divided by the count
        # float32 sums of at most 24 squares, then three operations
        assert y[place] == pytest.approx(want, rel=1e-5)


def test_lrn_defaults(run_op: Run, rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 5)).astype(np.float32)
    stated = {"alpha": 1.0, "beta": 0.5, "bias": 1.0, "region": 0}
    np.testing.assert_array_equal(run_op("Lrn", x, radius=1), run_op("Lrn", x, radius=1, **stated))
    for dtype in (np.float16, np.float64):
        assert run_op("Lrn", x.astype(dtype), radius=1).dtype == dtype


@pytest.mark.parametrize("shape", [(0, 4), (2, 0), (0, 3, 3, 2)])
def test_lrn_of_nothing(run_op: Run, shape: tuple[int, ...]) -> None:
    assert run_op("Lrn", np.zeros(shape, np.float32), radius=2).shape == shape


@pytest.mark.parametrize(
    ("shape", "dtype", "params", "said"),
    [
        ((), np.float32, {"radius": 1}, "must have rank 1 or more for ACROSS_CHANNEL"),
        ((2, 3), np.float32, {"radius": 1, "region": 1}, "must have rank 3 or more for WITHIN"),
        ((2, 3), np.float32, {"radius": -1}, "radius is -1"),
        ((2, 3), np.int32, {"radius": 1}, "must be float or fixed-point, but is INT_32"),
    ],
)
def test_refusals(
    run_op: Run, shape: tuple[int, ...], dtype: type[Any], params: dict[str, Any], said: str
) -> None:
    with pytest.raises(OpError) as caught:
        run_op("Lrn", np.zeros(shape, dtype), **params)
    assert said in str(caught.value)
