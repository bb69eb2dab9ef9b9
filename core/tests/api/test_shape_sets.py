"""Shapes of inputs for several graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.api.shape_sets import ShapeSet, shape_sets
from dovetail.errors import ConfigError


def test_one_graph_without_several_shapes() -> None:
    assert shape_sets({}) == (ShapeSet({}),)
    assert shape_sets({"x": [(1, 2)]}) == (ShapeSet({"x": (1, 2)}),)


def test_one_graph_for_each_shape() -> None:
    found = shape_sets({"x": [(1, 3), ()], "y": [(5,)], "z": [(2,), (2,)]})
    assert found == (
        ShapeSet({"x": (1, 3), "y": (5,), "z": (2,)}, "_1x3_2"),
        ShapeSet({"x": (), "y": (5,), "z": (2,)}, "_scalar_2"),
    )


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": [(1,), (2,)], "y": [(1,), (2,), (3,)]}, "x: 2 shapes"),
        ({"x": []}, "x: 0 shapes"),
        ({"x": [(1,), (2,), (1,)]}, "shapes are given twice: 1"),
    ],
)
def test_shapes_that_do_not_fit_together(
    shapes: dict[str, list[tuple[int, ...]]], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        shape_sets(shapes)
    assert message in str(caught.value)
    assert caught.value.exit_code == 2


def test_sizes_of_numpy_are_integers() -> None:
    (found,) = shape_sets({"x": [(np.int64(1), 3)], "y": np.array([[2, 5]])})  # type: ignore[dict-item, list-item]
    assert found == ShapeSet({"x": (1, 3), "y": (2, 5)})
    assert type(found.dims["x"][0]) is int


@pytest.mark.parametrize(
    ("shapes", "place"),
    [
        ({"x": (1, 3, 8, 8)}, "shapes.x[3]: Expected `array`, got `int`"),
        ({"x": [(1, "3")]}, "shapes.x[0][1]: Expected `int`, got `str`"),
        ({"x": [(1, 2.5)]}, "shapes.x[0][1]: Expected `int`, got `float`"),
        ({"x": ["1,3"]}, "shapes.x[0]: Expected `array`, got `str`"),
        ({"x": None}, "shapes.x: Expected `array`, got `null`"),
    ],
)
def test_what_are_no_shapes(shapes: Any, place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        shape_sets(shapes)
    assert place in str(caught.value)
    assert "a list of shapes" in caught.value.hint
    assert caught.value.exit_code == 2
