"""Report on what the graphs of a context binary share: sizes, and weights that are not shared."""

from __future__ import annotations

from collections import Counter

import msgspec
from msgspec.structs import replace

from dovetail.container import (
    ContextFile,
    ContextParts,
    Difference,
    constants_of,
    cosine_similarity,
    differences,
)
from dovetail.ir import Graph, Tensor
from dovetail.runtime.compatibility import used_facts


class GraphShare(msgspec.Struct, frozen=True):
    """One graph.

    Attributes:
        name: Its name.
        alone_bytes: Size of a context binary with this graph alone; None if its graphs can be
            restored only together.
        shared_bytes: Bytes of blobs that it shares with other graphs.
    """

    name: str
    alone_bytes: int | None
    shared_bytes: int


class Unshared(msgspec.Struct, frozen=True):
    """Two tensors of the same name in two graphs that are stored twice, or packed twice.

    Attributes:
        name: Their name.
        graphs: The graphs: the first one with this name, and the one that differs.
        differences: The facts in which the tensors differ.
        cosine: Cosine similarity of their real values; None if there is none, or it was not asked
            for.
    """

    name: str
    graphs: tuple[str, str]
    differences: tuple[Difference, ...]
    cosine: float | None


class SharingReport(msgspec.Struct, frozen=True):
    """A report on what graphs of a context binary share.

    Attributes:
        graphs: The graphs, in order.
        file_bytes: Size of the file.
        sum_bytes: Size of the context binaries of all graphs alone, together; None if unknown.
        ratio_to_sum: Size of the file divided by that.
        ratio_to_largest: Size of the file divided by that of the largest graph alone.
        shared_bytes: Bytes of blobs that several graphs use, each counted once.
        has_models: Whether all models are embedded, so that names of tensors are known.
        same_names: Number of names of weights that several graphs have.
        unshared: Weights of the same name that cannot be shared.
    """

    graphs: tuple[GraphShare, ...]
    file_bytes: int
    sum_bytes: int | None
    ratio_to_sum: float | None
    ratio_to_largest: float | None
    shared_bytes: int
    has_models: bool
    same_names: int
    unshared: tuple[Unshared, ...]


def sharing_report(file: ContextFile, *, similarity: bool = False) -> SharingReport:
    """Return what the graphs of a context binary share.

    Args:
        file: The context binary.
        similarity: Whether to read the weights that are not shared, for their similarity.

    Raises:
        ContainerError: A part that is read is damaged.
    """
    parts = ContextParts(file)
    used = {name: parts.blobs(name) for name in file.graphs}
    uses = Counter(digest for blobs in used.values() for digest in blobs)
    sizes = {digest: size for blobs in used.values() for digest, size in blobs.items()}
    graphs = tuple(
        GraphShare(
            name,
            _alone_bytes(parts, name),
            sum(size for digest, size in blobs.items() if uses[digest] > 1),
        )
        for name, blobs in used.items()
    )
    alone = [graph.alone_bytes for graph in graphs if graph.alone_bytes is not None]
    is_known = bool(alone) and len(alone) == len(graphs)
    models = {name: model for name, model in parts.models.items() if model is not None}
    same_names, unshared = _unshared(models, similarity=similarity)
    return SharingReport(
        graphs,
        file.nbytes,
        sum(alone) if is_known else None,
        file.nbytes / sum(alone) if is_known else None,
        file.nbytes / max(alone) if is_known else None,
        sum(size for digest, size in sizes.items() if uses[digest] > 1),
        len(models) == len(graphs),
        same_names,
        unshared,
    )


def _alone_bytes(parts: ContextParts, name: str) -> int | None:
    """Return the size of a context binary with one graph."""
    content, model = parts.content([name]), parts.models[name]
    if content.is_whole:
        return None
    if model is not None:  # otherwise only the backend knows its op packages
        names = {node.package for node in model.nodes}
        packages = {n: version for n, version in content.op_packages.items() if n in names}
        facts = used_facts(content.fingerprint, packages)
        content = replace(content, op_packages=packages, fingerprint=facts)
    return parts.size(content)


def _unshared(models: dict[str, Graph], *, similarity: bool) -> tuple[int, tuple[Unshared, ...]]:
    """Return the number of names that several graphs have, and the weights that differ."""
    first: dict[str, tuple[str, Tensor]] = {}
    repeated: set[str] = set()
    found: list[Unshared] = []
    for graph, model in models.items():
        for name, tensor in constants_of(model).items():
            known = first.setdefault(name, (graph, tensor))
            if known[0] == graph:
                continue
            repeated.add(name)
            if facts := differences(known[1], tensor):
                cosine = cosine_similarity(known[1], tensor) if similarity else None
                found.append(Unshared(name, (known[0], graph), facts, cosine))
                for each in (known[1], tensor):
                    if each.data is not None:
                        each.data.release()
    return len(repeated), tuple(found)
