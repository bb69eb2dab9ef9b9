"""The work of `dovetail context diff`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from dovetail.cli.output import current_output, table
from dovetail.container import (
    ContextFile,
    Kind,
    WeightComparison,
    compare_weights,
    context_weights,
    kind_of,
    summarize_context,
)
from dovetail_tools._weight_report import comparison_text

_NAMED = ("graphs", "inputs", "outputs", "updated", "tensors")


class Change(msgspec.Struct, frozen=True):
    """An item of a manifest that differs.

    Attributes:
        item: Its path, such as `graphs.net.inputs.x.shape`.
        first: Its value in the first file; None if it is absent.
        second: Its value in the second file.
    """

    item: str
    first: Any
    second: Any


class BlobDiff(msgspec.Struct, frozen=True):
    """Blobs by content.

    Attributes:
        common, first, second: Number of blobs in both files, in the first alone, in the second
            alone.
        common_bytes, first_bytes, second_bytes: Their bytes.
    """

    common: int
    first: int
    second: int
    common_bytes: int
    first_bytes: int
    second_bytes: int


class ContextDiff(msgspec.Struct, frozen=True):
    """The differences between two context binaries or sections.

    Attributes:
        changes: Items of the manifests that differ.
        blobs: Blobs by content: plans, models, prepacked and plain weights.
        weights: The weights, if both files have them.
    """

    changes: tuple[Change, ...]
    blobs: BlobDiff
    weights: WeightComparison | None

    @property
    def is_equal(self) -> bool:
        """True if nothing differs."""
        return not (self.changes or self.blobs.first or self.blobs.second)


def report_diff(first: Path, second: Path) -> bool:
    """Compare two context binaries, print the result, and return whether they are equal.

    Raises:
        DovetailError: A file cannot be read, is damaged, or is neither context binary nor section.
    """
    found = diff_contexts(_open(first), _open(second))
    data = {"first": str(first), "second": str(second), **msgspec.to_builtins(found)}
    current_output().data(data, _text(found, str(first), str(second)))
    return found.is_equal


def diff_contexts(first: ContextFile, second: ContextFile) -> ContextDiff:
    """Return how two context binaries or sections differ.

    Raises:
        ContainerError: A part that is read is damaged.
    """
    changes = tuple(_changes(_plain(first), _plain(second), ""))
    a, b = _blobs(first), _blobs(second)
    common, only_a, only_b = a.keys() & b.keys(), a.keys() - b.keys(), b.keys() - a.keys()
    blobs = BlobDiff(
        len(common),
        len(only_a),
        len(only_b),
        sum(a[key] for key in common),
        sum(a[key] for key in only_a),
        sum(b[key] for key in only_b),
    )
    has_weights = _has_weights(first) and _has_weights(second)
    weights = compare_weights(*map(context_weights, (first, second))) if has_weights else None
    return ContextDiff(changes, blobs, weights)


def _open(path: Path) -> ContextFile:
    return ContextFile.open(path, "bind", section=kind_of(path) is Kind.SECTION)


def _has_weights(file: ContextFile) -> bool:
    return file.is_section or all(entry.model is not None for entry in file.graphs.values())


def _blobs(file: ContextFile) -> dict[str, int]:
    return {entry.sha256: entry.size for entry in file.manifest.blobs}


def _plain(file: ContextFile) -> Any:
    """Return the summary of a file as plain data, with the content of each plan."""
    data = msgspec.to_builtins(summarize_context(file))
    for graph in data["graphs"]:
        index = file.graphs[graph["name"]].plan
        graph["plan"] = None if index is None else file.manifest.blobs[index].sha256
    return _by_name(data)


def _by_name(value: Any) -> Any:
    """Return data with graphs and tensors by their names instead of in lists."""
    if not isinstance(value, dict):
        return value
    found = {}
    for key, item in value.items():
        is_named = key in _NAMED and isinstance(item, list | tuple)
        found[key] = {each["name"]: _by_name(each) for each in item} if is_named else _by_name(item)
        if is_named and len(item) > 1:
            found[f"order of {key}"] = [each["name"] for each in item]
    return found


def _changes(first: Any, second: Any, path: str) -> Iterator[Change]:
    if not (isinstance(first, dict) and isinstance(second, dict)):
        if first != second:
            yield Change(path, first, second)
        return
    for key in first | second:
        yield from _changes(first.get(key), second.get(key), f"{path}.{key}" if path else key)


def _text(found: ContextDiff, first: str, second: str) -> str:
    blobs = found.blobs
    parts = [
        table(
            ("ITEM", first, second),
            [(c.item, *map(_value, (c.first, c.second))) for c in found.changes],
        )
        if found.changes
        else "the manifests agree",
        table(
            ("BLOBS", "NUMBER", "BYTES"),
            [
                ("in both", blobs.common, f"{blobs.common_bytes:,}"),
                (f"only in {first}", blobs.first, f"{blobs.first_bytes:,}"),
                (f"only in {second}", blobs.second, f"{blobs.second_bytes:,}"),
            ],
        ),
    ]
    if found.weights is None:
        parts.append("weights are not compared: a file does not have all models")
    else:
        parts.append(comparison_text(found.weights, first, second))
    return "\n\n".join(parts)


def _value(value: Any) -> str:
    """Return a value as text; of a graph or tensor that one file does not have, that it exists."""
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return "present"
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
