"""Several shapes of a model's inputs, for each of which one graph is converted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dovetail.arguments import without_numpy
from dovetail.errors import ConfigError, Problem
from dovetail.ir import Shape, dims_text
from dovetail.typed import convert


@dataclass(frozen=True, slots=True)
class ShapeSet:
    """The shapes of inputs in one graph.

    Attributes:
        dims: Shapes by input.
        suffix: End of the graph's name; empty if there is only one graph.
    """

    dims: Mapping[str, Shape]
    suffix: str = ""


def shape_sets(shapes: Mapping[str, Sequence[Shape]]) -> tuple[ShapeSet, ...]:
    """Return the shapes of each graph: the first of all inputs, then the second, and so on.

    An input with a single shape has it in all graphs. The suffix of a graph consists of the shapes
    of the other inputs, for example `_1x3x224x224`.

    Args:
        shapes: Shapes of inputs by name, one for each graph, or one for all.

    Raises:
        ConfigError: These are no lists of shapes, inputs have different numbers of them, or two
            graphs have the same (USAGE).
    """
    shapes = _checked(shapes)
    several = {name: given for name, given in shapes.items() if len(given) != 1}
    counts = {len(given) for given in several.values()}
    if len(counts) > 1 or 0 in counts:
        problems = [Problem(f"{len(given)} shapes", name) for name, given in several.items()]
        raise ConfigError(
            "inputs have different numbers of shapes",
            code="USAGE",
            problems=problems,
            hint="give each input one shape for all graphs, or one for each graph",
        )
    count = max(counts, default=1)
    sets = [
        ShapeSet(
            {name: given[i % len(given)] for name, given in shapes.items()},
            "".join(f"_{dims_text(given[i])}" for given in several.values()),
        )
        for i in range(count)
    ]
    suffixes = [each.suffix for each in sets]
    if twice := sorted({each for each in suffixes if suffixes.count(each) > 1}):
        text = ", ".join(each[1:] for each in twice)
        raise ConfigError(f"shapes are given twice: {text}", code="USAGE")
    return tuple(sets)


def _checked(shapes: Mapping[str, Sequence[Shape]]) -> dict[str, list[Shape]]:
    try:
        return convert(without_numpy(shapes), dict[str, list[Shape]], where="", path="shapes")
    except ConfigError as error:
        raise ConfigError(
            "invalid shapes",
            code="USAGE",
            problems=error.as_problems(error.where.removeprefix(": ")),
            hint="give each input a list of shapes, such as {'x': [(1, 3, 224, 224)]}",
        ) from error
