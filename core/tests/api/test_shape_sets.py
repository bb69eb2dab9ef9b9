"""Shapes of inputs for several graphs."""

from __future__ import annotations

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
