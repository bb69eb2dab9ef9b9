"""Parts of context binaries: what each graph uses, and the file that it would have alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from dovetail.container._manifest import ManifestError
from dovetail.container._writer import container_size
from dovetail.container.context import ContextFile
from dovetail.container.context_content import ContextContent, StoredContextGraph
from dovetail.ir import Graph


class ContextParts:
    """The graphs of a context binary or section, and what they use; no weights are read.

    Args:
        file: The file.

    Attributes:
        file: The file.
        models: The graphs themselves by name; None for those that are not embedded.

    Raises:
        ContainerError: A plan or a model is damaged.
    """

    def __init__(self, file: ContextFile) -> None:
        self.file = file
        self.models: dict[str, Graph | None] = {name: file.model(name) for name in file.graphs}
        self._plans = {name: file.plan(name) for name in file.graphs}
        self._keys = _used_keys(file.manifest.names, self._plans)

    def content(self, names: Collection[str]) -> ContextContent:
        """Return the content of a file with some of the graphs.

        Args:
            names: Names of the graphs.

        Raises:
            ContainerError: A graph is damaged, or uses a tensor that the file does not have.
        """
        file, manifest = self.file, self.file.manifest
        chosen = [name for name in file.graphs if name in names]
        shared = {tensor for name in chosen for tensor in file.graphs[name].shared}
        tensors = tuple(tensor for tensor in file.tensors() if tensor.name in shared)
        if missing := shared - {tensor.name for tensor in tensors}:
            raise ManifestError(f"context tensor '{min(missing)}' not found", where=file.where)
        keys: set[str] = set().union(*(self._keys[name] for name in chosen))
        return ContextContent(
            producer=manifest.producer,
            backend=manifest.backend,
            options=manifest.options,
            fingerprint=manifest.fingerprint,
            op_packages=manifest.op_packages,
            tensors=tensors,
            graphs=tuple(self._stored(name) for name in chosen),
            blobs={key: blob for key, blob in file.stored_blobs().items() if key in keys},
            opaque=file.opaque,
            is_whole=manifest.is_whole,
            device=manifest.device,
            is_section=file.is_section,
        )

    def blobs(self, name: str) -> dict[str, int]:
        """Return the sizes in bytes of the blobs that a file with one graph has, by hash.

        Raises:
            ContainerError: As for `content`.
        """
        _, table = self.content([name]).dumped(self.file.manifest.blobs)
        return {blob.hash: blob.nbytes for blob in table.blobs}

    def size(self, content: ContextContent) -> int:
        """Return the size in bytes of a file with a content from this file."""
        return container_size(*content.dumped(self.file.manifest.blobs))

    def _stored(self, name: str) -> StoredContextGraph:
        entry = self.file.graphs[name]
        inputs, outputs = self.file.interface(name)
        return StoredContextGraph(
            name=name,
            plan=self._plans[name],
            inputs=inputs,
            outputs=outputs,
            shared=entry.shared,
            model=self.models[name],
            digest=entry.digest,
            config=entry.config,
            observed=entry.observed,
            all_observed=entry.all_observed,
            added_outputs=entry.added_outputs,
            updated=self.file.updated(name),
            memory_bytes=entry.memory_bytes,
        )


def _used_keys(keys: Collection[str], plans: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the keys of blobs that each graph uses; those that no plan names are of all."""
    # keys of members of a placement have an index before them, of which their plans do not know
    by_text: dict[str, set[str]] = {}
    for key in keys:
        by_text.setdefault(key.rpartition("/")[2], set()).add(key)
    used = {
        name: {key for text in _texts(plan) for key in by_text.get(text, ())}
        for name, plan in plans.items()
    }
    unnamed = set(keys).difference(*used.values())
    return {name: found | unnamed for name, found in used.items()}


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value of JSON types."""
    stack = [value]
    while stack:
        found = stack.pop()
        if isinstance(found, str):
            yield found
        elif isinstance(found, dict):
            stack += [*found, *found.values()]
        elif isinstance(found, list):
            stack += found
