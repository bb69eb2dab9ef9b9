"""Comparison of the weights of two files, by name and by content.

Source of the five counts: QNN's advice on weights that graphs share: files of the same names,
identical and different ones, and files without a counterpart in either folder.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping

import msgspec

from dovetail.container._format import Kind
from dovetail.container._reader import kind_of
from dovetail.container.context import ContextFile
from dovetail.container.embedded import embedded_model
from dovetail.container.model import Model
from dovetail.container.tensor_facts import (
    VALUES,
    Difference,
    cosine_similarity,
    differences,
    md5_of,
)
from dovetail.errors import ConfigError, suggest_name
from dovetail.files import identifier
from dovetail.ir import Graph, Tensor

# Tensors with data by name, of each graph by name.
Weights = Mapping[str, Mapping[str, Tensor]]


class TensorDifference(msgspec.Struct, frozen=True):
    """Two tensors of the same name that cannot share their data.

    Attributes:
        name: Their name; with the graph's before it if a file has several graphs.
        differences: The facts in which they differ.
        nbytes: Their sizes in bytes.
        md5: MD5 of their stored bytes.
        cosine: Cosine similarity of their real values; None if there is none.
    """

    name: str
    differences: tuple[Difference, ...]
    nbytes: tuple[int, int]
    md5: tuple[str, str]
    cosine: float | None

    @property
    def has_same_values(self) -> bool:
        """True if the stored bytes are the same."""
        return all(difference.fact != VALUES for difference in self.differences)


class Contents(msgspec.Struct, frozen=True):
    """Weights by content, whatever their names are.

    Attributes:
        first, second: Number of different contents in each file.
        common: Number of those in both.
        common_bytes: Their bytes.
        renamed: Number of tensors of the first file without a counterpart whose content is in the
            second one.
    """

    first: int
    second: int
    common: int
    common_bytes: int
    renamed: int


class WeightComparison(msgspec.Struct, frozen=True):
    """Weights of two files.

    Attributes:
        same_names: Number of tensors of the same names.
        identical: Number of those with the same bytes.
        different: Number of those with different bytes.
        unmatched_first: Names of tensors of the first file without a counterpart.
        unmatched_second: Names of tensors of the second file without a counterpart.
        tensors: Tensors of the same names that differ in bytes, types, shapes or encodings.
        contents: The weights by content.
    """

    same_names: int
    identical: int
    different: int
    unmatched_first: tuple[str, ...]
    unmatched_second: tuple[str, ...]
    tensors: tuple[TensorDifference, ...]
    contents: Contents

    @property
    def is_equal(self) -> bool:
        """True if nothing differs."""
        return not (self.tensors or self.unmatched_first or self.unmatched_second)


def read_weights(path: str | os.PathLike[str]) -> Weights:
    """Return the weights of a model, context binary or section; each is read when it is used.

    Raises:
        FrontendError: The file cannot be read.
        ContainerError: It is damaged, or is a context binary without models.
    """
    kind = kind_of(path)
    if kind is Kind.MODEL:
        graphs = Model.load(path).graphs
        return {name: constants_of(graph) for name, graph in graphs.items()}
    return context_weights(ContextFile.open(path, "bind", section=kind is Kind.SECTION))


def context_weights(file: ContextFile) -> Weights:
    """Return the weights of a context binary or section.

    Raises:
        ContainerError: It is damaged, or is a context binary without models.
    """
    if file.is_section:
        tensors = {name: file.updated(name) for name in file.graphs}
        return {n: {t.name: t for t in own if t.data is not None} for n, own in tensors.items()}
    return {name: constants_of(graph) for name, graph in embedded_model(file).graphs.items()}


def constants_of(graph: Graph) -> dict[str, Tensor]:
    """Return the tensors of a graph that have data, by name."""
    return {name: tensor for name, tensor in graph.tensors.items() if tensor.data is not None}


def only_graph(weights: Weights, graph: str | None, where: str) -> Weights:
    """Return the weights of one graph, or of all if it is None.

    Raises:
        ConfigError: The file has no such graph.
    """
    if graph is None:
        return weights
    if graph not in weights:
        raise ConfigError(
            f"graph '{graph}' not found",
            code="USAGE",
            where=where,
            hint=suggest_name(graph, weights),
        )
    return {graph: weights[graph]}


def compare_weights(first: Weights, second: Weights) -> WeightComparison:
    """Compare the weights of two files; no more than two tensors are in memory at a time.

    Graphs are compared by name; if both files have only one, these are compared whatever their
    names are. Weights are compared by name; those without a counterpart, by the name that the C++
    of QNN's converters has for them. All bytes are read, and the checksums of blobs checked.

    Raises:
        ContainerError: A blob is damaged.
    """
    a, b = _flat(first, second), _flat(second, first)
    common = _common(a, b)
    found = [_compared(name, a[name], b[other]) for name, other in common.items()]
    matched = set(common.values())
    unmatched = tuple(name for name in a if name not in common)
    others = tuple(name for name in b if name not in matched)
    for name in unmatched:
        _check(a[name])
    for name in others:
        _check(b[name])
    identical = sum(each is None or each.has_same_values for each in found)
    contents_a, contents_b = _contents(a), _contents(b)
    both = contents_a.keys() & contents_b.keys()
    return WeightComparison(
        len(common),
        identical,
        len(common) - identical,
        unmatched,
        others,
        tuple(each for each in found if each is not None),
        Contents(
            len(contents_a),
            len(contents_b),
            len(both),
            sum(contents_a[digest] for digest in both),
            sum(_hash(a[name]) in contents_b for name in unmatched),
        ),
    )


def _common(first: Iterable[str], second: Collection[str]) -> dict[str, str]:
    """Return the names of the first file that the second one has, too, and how they are there."""
    first = list(first)
    known = set(first)
    ours = _by_identifier(name for name in first if name not in second)
    theirs = _by_identifier(name for name in second if name not in known)
    found = {name: name for name in first if name in second}
    for stem, names in ours.items():
        others = theirs.get(stem, ())
        if len(names) == len(others) == 1:
            found[names[0]] = others[0]
    return found


def _by_identifier(names: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(identifier(name), []).append(name)
    return found


def _flat(weights: Weights, others: Weights) -> dict[str, Tensor]:
    """Return tensors by name, with the graph's name before it where that is needed."""
    is_alone = len(weights) <= 1 and len(others) <= 1
    return {
        name if is_alone else f"{graph}/{name}": tensor
        for graph, tensors in weights.items()
        for name, tensor in tensors.items()
    }


def _compared(name: str, first: Tensor, second: Tensor) -> TensorDifference | None:
    """Return how two tensors differ, None if they do not; their bytes are released."""
    nbytes = _check(first), _check(second)
    found = differences(first, second)
    if not found:
        return None
    md5, cosine = (md5_of(first), md5_of(second)), cosine_similarity(first, second)
    for tensor in (first, second):
        if tensor.data is not None:
            tensor.data.release()
    return TensorDifference(name, found, nbytes, md5, cosine)


def _check(tensor: Tensor) -> int:
    """Read the bytes of a tensor, and return their number."""
    if tensor.data is None:
        return 0
    size = tensor.data.bytes.nbytes
    tensor.data.release()
    return size


def _contents(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """Return the sizes of contents by hash."""
    return {t.data.hash: t.data.nbytes for t in tensors.values() if t.data is not None}


def _hash(tensor: Tensor) -> str:
    return "" if tensor.data is None else tensor.data.hash
