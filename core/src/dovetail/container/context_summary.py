"""Summary of a context binary or section, for `dovetail inspect`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dovetail.container.context import ContextFile
from dovetail.container.context_parts import ContextParts
from dovetail.container.summary import GraphSummary, Summary, TensorSummary
from dovetail.ir import Graph, Tensor


class PreparedSummary(GraphSummary, frozen=True, kw_only=True):
    """One prepared graph; without its model, numbers of nodes and tensors are 0.

    Attributes:
        has_model: Whether the graph itself is embedded.
        plan_bytes: Size of its plan.
        blob_bytes: Bytes of all blobs that it uses.
        shared_blob_bytes: Bytes of those that other graphs use, too.
        memory_bytes: Memory that it takes once loaded, as far as the backend knows.
        context_tensors: Names of the tensors of the context that it uses.
        config: Its settings that differ from their defaults.
        observed: Names of the tensors that watches receive; `*` for all.
        added_outputs: Names of the tensors that became outputs when it was finalized.
        updated: The tensors that a section has.
        digest: Its identity; that of its base in a section.
    """

    has_model: bool
    plan_bytes: int
    blob_bytes: int
    shared_blob_bytes: int
    memory_bytes: int
    context_tensors: tuple[str, ...]
    config: dict[str, Any]
    observed: tuple[str, ...]
    added_outputs: tuple[str, ...]
    updated: tuple[TensorSummary, ...]
    digest: str


class ContextSummary(Summary, frozen=True, kw_only=True):
    """A context binary or section.

    Attributes:
        graphs: Its graphs, in order.
        shared_blob_bytes: Bytes of the blobs used by several graphs, each counted once.
        backend: Name of the backend that it is for.
        options: The backend's options that differ from their defaults.
        device: The settings of the device that differ from their defaults.
        fingerprint: Facts that the graphs depend on.
        tensors: Tensors that the graphs share.
        is_whole: Whether the graphs can be restored only together.
    """

    graphs: tuple[PreparedSummary, ...]
    backend: str
    options: dict[str, Any]
    device: dict[str, Any]
    fingerprint: dict[str, str]
    tensors: tuple[TensorSummary, ...]
    is_whole: bool


def summarize_context(file: ContextFile) -> ContextSummary:
    """Return the summary of a context binary or section; no weights are read.

    Raises:
        ContainerError: A plan, a model or an interface is damaged.
    """
    manifest, parts = file.manifest, ContextParts(file)
    used = {name: parts.blobs(name) for name in file.graphs}
    uses = Counter(digest for blobs in used.values() for digest in blobs)
    sizes = {entry.sha256: entry.size for entry in manifest.blobs}
    return ContextSummary(
        kind="section" if file.is_section else "context",
        format_version=file.version,
        format_minor=manifest.minor,
        requires=manifest.requires,
        producer=manifest.producer,
        op_packages=manifest.op_packages,
        graphs=tuple(_prepared(file, name, parts.models[name], used, uses) for name in file.graphs),
        blobs=len(sizes),
        blob_bytes=sum(sizes.values()),
        shared_blob_bytes=sum(size for h, size in sizes.items() if uses[h] > 1),
        file_bytes=file.nbytes,
        backend=manifest.backend,
        options=manifest.options,
        device=manifest.device,
        fingerprint=manifest.fingerprint,
        tensors=_tensors(file.tensors()),
        is_whole=manifest.is_whole,
    )


def _prepared(
    file: ContextFile,
    name: str,
    model: Graph | None,
    used: dict[str, dict[str, int]],
    uses: Counter[str],
) -> PreparedSummary:
    entry, blobs = file.graphs[name], used[name]
    inputs, outputs = map(_tensors, file.interface(name))
    own = GraphSummary.of(Graph(name) if model is None else model)
    return PreparedSummary(
        name=name,
        inputs=inputs,
        outputs=outputs,
        ops=own.ops,
        nodes=own.nodes,
        tensors=own.tensors,
        static_bytes=own.static_bytes,
        has_model=model is not None,
        plan_bytes=0 if entry.plan is None else file.sizes()[entry.plan],
        blob_bytes=sum(blobs.values()),
        shared_blob_bytes=sum(size for digest, size in blobs.items() if uses[digest] > 1),
        memory_bytes=entry.memory_bytes,
        context_tensors=entry.shared,
        config=entry.config,
        observed=("*",) if entry.all_observed else entry.observed,
        added_outputs=entry.added_outputs,
        updated=_tensors(file.updated(name)),
        digest=entry.digest,
    )


def _tensors(tensors: tuple[Tensor, ...]) -> tuple[TensorSummary, ...]:
    return tuple(map(TensorSummary.of, tensors))
