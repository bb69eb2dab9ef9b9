"""Properties of taps that frontends and kernels rely on."""

import numpy as np
import pytest

from dovetail_opset.resampling import (
    LINEAR,
    Coordinates,
    Nearest,
    Taps,
    cubic,
    filter_taps,
    nearest_taps,
    positions_of,
)


def linear(extent: int, new: int, mode: Coordinates = Coordinates.HALF_PIXEL) -> Taps:
    return filter_taps(positions_of(mode, extent, new), extent, LINEAR)


@pytest.mark.parametrize(("extent", "new"), [(1, 4), (5, 3), (4, 9), (3, 1)])
@pytest.mark.parametrize("mode", Coordinates)
def test_the_matrix_does_what_the_taps_do(extent: int, new: int, mode: Coordinates) -> None:
    x = np.random.default_rng(1).standard_normal((2, extent, 3))
    positions = positions_of(mode, extent, new)
    for taps in (
        linear(extent, new, mode),
        nearest_taps(positions, extent, Nearest.CEIL),
        filter_taps(positions, extent, cubic(-0.5), stretch=2.0, exclude_outside=True),
    ):
        matrix = taps.matrix(extent)
        assert matrix.shape == (new, extent)
        # float64
        np.testing.assert_allclose(taps.apply(x, 1), matrix @ x, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("stretch", [1.0, 1.7, 4.0])
@pytest.mark.parametrize("exclude", [False, True])
def test_weights_add_up_to_one(stretch: float, exclude: bool) -> None:
    positions = positions_of(Coordinates.HALF_PIXEL, 11, 7)
    for kernel in (LINEAR, cubic(-0.75)):
        taps = filter_taps(positions, 11, kernel, stretch=stretch, exclude_outside=exclude)
        assert taps.weights is not None
        np.testing.assert_allclose(taps.weights.sum(1), 1, rtol=1e-12)  # float64
        assert (taps.indices >= 0).all()
        assert (taps.indices < 11).all()


def test_places_far_outside_weigh_nothing() -> None:
    positions = np.array([1.0, 20.0, -9.0])
    alone = filter_taps(positions, 3, cubic(-0.75), exclude_outside=True)
    np.testing.assert_array_equal(alone.matrix(3), [[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    repeated = filter_taps(positions, 3, LINEAR)
    np.testing.assert_array_equal(repeated.matrix(3), [[0, 1, 0], [0, 0, 1], [1, 0, 0]])


def test_taps_are_equal_that_do_the_same() -> None:
    one = Taps(np.array([[0, 1], [1, 2]]), np.array([[0.25, 0.75], [0.5, 0.5]]))
    turned = Taps(np.array([[1, 0, 2], [2, 1, 0]]), np.array([[0.75, 0.25, 0], [0.5, 0.5, 0]]))
    assert one.equals(turned, 3)
    assert not one.equals(linear(3, 2), 3)
    assert not one.equals(linear(3, 3), 3)
    # twice of half an element is the element
    halves = Taps(np.array([[1, 1], [2, 2]]), np.full((2, 2), 0.5))
    assert halves.equals(Taps(np.array([[1], [2]])), 3)


def test_the_identity() -> None:
    for mode in Coordinates:
        assert linear(5, 5, mode).is_identity(5)
    assert not linear(5, 5).is_identity(6)
    assert not Taps(np.array([[0], [2], [1]])).is_identity(3)
    assert not Taps(np.array([[0], [1]]), np.array([[1], [0.5]])).is_identity(2)
