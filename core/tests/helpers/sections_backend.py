"""The updating backend with sections: the bytes of its updateable tensors."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

import numpy as np
from updating_backend import UpdatingBackend, UpdatingPrepared

from dovetail.errors import ContainerError
from dovetail.ir import Blob
from dovetail.ops import CheckedGraph
from dovetail.runtime.base import ContextBase
from dovetail.runtime.contract import Capabilities, Image, PrepareRequest


class SectionsPrepared(UpdatingPrepared):
    def section(self, names: Collection[str]) -> Image:
        blobs = {
            t.name: np.array(t.data.bytes)
            for t in self.graph.tensors.values()
            if t.kind.is_updateable and t.data is not None and t.name in names
        }
        return Image(self.backend.fingerprint(self.context.device), {}, blobs)

    def apply(self, section: Image) -> None:
        section.require(self.backend.fingerprint(self.context.device))
        if unknown := section.blobs.keys() - self.graph.tensors.keys():
            raise ContainerError(f"a section of another graph, with {sorted(unknown)}")
        tensors = [self.graph.tensors[name] for name in section.blobs]
        for tensor in tensors:
            tensor.data = Blob(section.blobs[tensor.name])
        self.update(tensors)


class SectionsBackend(UpdatingBackend):
    """Sections need the capability `caching`; images of contexts are not written."""

    name: ClassVar[str] = "sections"
    prepared: ClassVar[type[SectionsPrepared]] = SectionsPrepared

    def capabilities(self) -> Capabilities:
        return Capabilities(op_packages=True, caching=True, updates=True)

    def prepare(
        self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase
    ) -> SectionsPrepared:
        return self.prepared(self, graph, context)
