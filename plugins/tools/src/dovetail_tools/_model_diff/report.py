"""The work of `dovetail diff`: load, compare, print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from dovetail.cli.loading import load_content
from dovetail.cli.output import current_output, table
from dovetail.container import Difference
from dovetail.ir import dims_text
from dovetail_tools._model_diff.comparison import (
    GraphDiff,
    ModelDiff,
    Scope,
    StructureDiff,
    diff_models,
)
from dovetail_tools._model_diff.weights import WeightDiff, WeightsDiff

_MAX_ROWS = 50
_MAX_TEXT = 60
_PAIR = ("FIRST", "SECOND")


def report_diff(first: Path, second: Path, scope: Scope) -> bool:
    """Compare two models, print the result, and return whether they are equal.

    Raises:
        DovetailError: A file cannot be read or converted, or is damaged.
    """
    found = diff_models(load_content(first), load_content(second), scope)
    data = {
        "first": str(first),
        "second": str(second),
        "equal": found.is_equal,
        **msgspec.to_builtins(found),
    }
    current_output().data(data, "\n\n".join(_text(found, first, second)))
    return found.is_equal


def _text(found: ModelDiff, first: Path, second: Path) -> Iterator[str]:
    yield f"{first} and {second} {'are equal' if found.is_equal else 'differ'}"
    if found.op_packages:
        yield _differences("OP PACKAGE", found.op_packages)
    for file, names in ((first, found.only_first), (second, found.only_second)):
        yield from _names(f"graphs only in {file}", names)
    for graph in found.graphs:
        yield from _graph_text(graph)


def _graph_text(graph: GraphDiff) -> Iterator[str]:
    name = graph.first if graph.first == graph.second else f"{graph.first} and {graph.second}"
    ways = ", ".join(f"{count:,} by {way}" for way, count in graph.matched.items())
    yield f"graph {name}: nodes matched: {ways or 'none'}"
    if graph.structure is not None:
        yield from _structure_text(graph.structure)
    if graph.weights is not None:
        yield from _weights_text(graph.weights)


def _structure_text(structure: StructureDiff) -> Iterator[str]:
    if structure.is_equal:
        yield "structure: equal"
        return
    yield f"structure: {len(structure.nodes):,} matched nodes differ"
    if structure.interface:
        yield _differences("INTERFACE", structure.interface)
    rows = [
        (
            node.first if node.first == node.second else f"{node.first} / {node.second}",
            each.fact,
            _short(each.first),
            _short(each.second),
        )
        for node in structure.nodes
        for each in node.differences
    ]
    if rows:
        yield _limited(("NODE", "FACT", *_PAIR), rows)
    yield from _names("nodes only in the first", structure.only_first)
    yield from _names("nodes only in the second", structure.only_second)


def _weights_text(weights: WeightsDiff) -> Iterator[str]:
    close = sum(each.is_close for each in weights.different)
    yield (
        f"weights: {weights.compared:,} compared, {weights.identical:,} identical,"
        f" {close:,} equal within the tolerance, {len(weights.different) - close:,} different"
    )
    if apart := [_weight_row(each) for each in weights.different if not each.is_close]:
        yield _limited(("WEIGHT", "SHAPE", "MAX ABS", "COSINE"), apart)
    yield from _names("weights only in the first", weights.only_first)
    yield from _names("weights only in the second", weights.only_second)


def _weight_row(weight: WeightDiff) -> tuple[str, ...]:
    name = weight.first if weight.first == weight.second else f"{weight.first} / {weight.second}"
    shapes = [dims_text(shape) for shape in weight.shapes]
    return (
        name,
        " / ".join(dict.fromkeys(shapes)),
        "" if weight.max_abs is None else f"{weight.max_abs:.6g}",
        "" if weight.cosine is None else f"{weight.cosine:.9f}",
    )


def _differences(heading: str, differences: Iterable[Difference]) -> str:
    rows = [(d.fact, _short(d.first), _short(d.second)) for d in differences]
    return _limited((heading, *_PAIR), rows)


def _limited(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    text = table(headings, rows[:_MAX_ROWS])
    left = len(rows) - _MAX_ROWS
    return text if left <= 0 else f"{text}\n... and {left:,} more, which --json shows"


def _names(heading: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        yield _limited((f"{heading}: {len(names):,}",), [(f"  {name}",) for name in names])


def _short(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."
