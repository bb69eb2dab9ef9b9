"""The work of `dovetail weights compare`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dovetail.api import load_model
from dovetail.cli.output import current_output, table
from dovetail.container import (
    TensorDifference,
    WeightComparison,
    Weights,
    compare_weights,
    constants_of,
    is_container,
    only_graph,
    read_weights,
)


def report_weights(first: Path, second: Path, graphs: tuple[str | None, str | None]) -> bool:
    """Compare the weights of two files, print the result, and return whether they are equal.

    Args:
        first: A model, context binary or section.
        second: Another one.
        graphs: Names of the graphs in either file; None for all.

    Raises:
        DovetailError: A file cannot be read, is damaged or has no such graph.
    """
    pairs = zip((first, second), graphs, strict=True)
    weights = [only_graph(weights_of(path), graph, str(path)) for path, graph in pairs]
    found = compare_weights(*weights)
    names = str(first), str(second)
    data = {"first": names[0], "second": names[1], **msgspec.to_builtins(found)}
    current_output().data(data, comparison_text(found, *names))
    return found.is_equal


def weights_of(path: Path) -> Weights:
    """Return the weights of a container, or of a model that can be converted."""
    if is_container(path):
        return read_weights(path)
    return {name: constants_of(graph) for name, graph in load_model(path).graphs.items()}


def comparison_text(found: WeightComparison, first: str, second: str) -> str:
    """Return a comparison as text.

    Args:
        found: The comparison.
        first: Name of the first file.
        second: Name of the second one.
    """
    contents = found.contents
    parts = [
        table(
            ("WEIGHTS", "NUMBER"),
            [
                ("of the same name", found.same_names),
                ("identical", found.identical),
                ("different", found.different),
                (f"only in {first}", len(found.unmatched_first)),
                (f"only in {second}", len(found.unmatched_second)),
            ],
        ),
        f"by content: {contents.first} and {contents.second} different ones,"
        f" {contents.common} in both ({contents.common_bytes:,} bytes),"
        f" {contents.renamed} of them under another name",
    ]
    if found.tensors:
        headings = ("NOT SHARED", "DIFFERENCES", "COSINE", "MD5", "OTHER MD5")
        parts.append(table(headings, map(_row, found.tensors)))
    for file, names in ((first, found.unmatched_first), (second, found.unmatched_second)):
        if names:
            parts.append("\n".join([f"only in {file}:", *(f"  {name}" for name in names)]))
    return "\n\n".join(parts)


def _row(tensor: TensorDifference) -> tuple[str, ...]:
    cosine = "" if tensor.cosine is None else f"{tensor.cosine:.6f}"
    return tensor.name, ", ".join(map(str, tensor.differences)), cosine, *tensor.md5
