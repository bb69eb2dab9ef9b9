"""The work of `dovetail weights compare`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from dovetail.api import load_model
from dovetail.api.inspection import WeightsReader, find_inspector
from dovetail.cli.output import current_output, table
from dovetail.container import (
    Difference,
    TensorDifference,
    WeightComparison,
    Weights,
    compare_weights,
    constants_of,
    is_container,
    only_graph,
    read_weights,
)
from dovetail.files import identifier
from dovetail.ir import Tensor, TensorKind

_COLUMNS = 100
_MIN_WRAPPED = 30  # columns of differences next to long names
_MD5_SHOWN = 8  # digits; --json has all
_LONG = re.compile(r"\d+\.\d{7,}(?:e[-+]?\d+)?")


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
    a, b = (only_graph(weights_of(path), graph, str(path)) for path, graph in pairs)
    if weights_reader(first):
        a = with_types(a, b)
    elif weights_reader(second):
        b = with_types(b, a)
    found = compare_weights(a, b)
    names = str(first), str(second)
    data = {"first": names[0], "second": names[1], **msgspec.to_builtins(found)}
    current_output().data(data, comparison_text(found, *names))
    return found.is_equal


def weights_of(path: Path) -> Weights:
    """Return the weights of a container, of a file of them, or of a model that can be converted."""
    if is_container(path):
        return read_weights(path)
    if reader := weights_reader(path):
        return {path.stem: reader.weights(path)}
    return {name: constants_of(graph) for name, graph in load_model(path).graphs.items()}


def weights_reader(path: Path) -> WeightsReader | None:
    """Return the reader of a file that has weights alone, None if it has more."""
    found = None if is_container(path) else find_inspector(path)
    return found if isinstance(found, WeightsReader) else None


def with_types(weights: Weights, others: Weights) -> Weights:
    """Return weights that are bytes with types, shapes and encodings of those of the same name.

    Weights of another size stay as they are.
    """
    known = {identifier(name): each for found in others.values() for name, each in found.items()}
    return {
        graph: {name: _typed(tensor, known.get(identifier(name))) for name, tensor in found.items()}
        for graph, found in weights.items()
    }


def _typed(tensor: Tensor, other: Tensor | None) -> Tensor:
    if other is None or other.data is None or tensor.data is None:
        return tensor
    if other.data.nbytes != tensor.data.nbytes:
        return tensor
    kind, encoding = TensorKind.STATIC, other.encoding
    return Tensor(tensor.name, other.dtype, other.shape, kind, encoding=encoding, data=tensor.data)


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
        parts.append(_tensor_table(found.tensors))
    for file, names in ((first, found.unmatched_first), (second, found.unmatched_second)):
        if names:
            parts.append("\n".join([f"only in {file}:", *(f"  {name}" for name in names)]))
    return "\n\n".join(parts)


def _tensor_table(tensors: Sequence[TensorDifference]) -> str:
    """Return a table whose last column is wrapped."""
    headings = ("NOT SHARED", "COSINE", "MD5", "OTHER MD5", "DIFFERENCES")
    longest = max(len(headings[0]), *(len(tensor.name) for tensor in tensors))
    left = longest + sum(len(each) + 2 for each in ("1.000000", "0" * _MD5_SHOWN, headings[3])) + 2
    width = max(_MIN_WRAPPED, _COLUMNS - left)
    return table(headings, (row for tensor in tensors for row in _rows(tensor, width)))


def _rows(tensor: TensorDifference, width: int) -> Iterator[tuple[str, ...]]:
    first, *others = textwrap.wrap(", ".join(map(_difference_text, tensor.differences)), width)
    cosine = "" if tensor.cosine is None else f"{tensor.cosine:.6f}"
    yield tensor.name, cosine, *(md5[:_MD5_SHOWN] for md5 in tensor.md5), first
    for line in others:
        yield "", "", "", "", line


def _difference_text(difference: Difference) -> str:
    """Return a difference with numbers of six digits, unless these are the same."""
    short = [_LONG.sub(_six_digits, each) for each in (difference.first, difference.second)]
    if short[0] == short[1]:
        return str(difference)
    return str(Difference(difference.fact, *short))


def _six_digits(found: re.Match[str]) -> str:
    return f"{float(found[0]):.6g}"
