"""Images: prepared graphs as data, and the fingerprint of what they depend on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

import dovetail
from dovetail.container import ContextContent, ContextFile, Producer, StoredContextGraph
from dovetail.ir import Array, Blob
from dovetail.runtime.compatibility import Verdict, judge


class Fingerprint(msgspec.Struct, frozen=True):
    """All that prepared graphs depend on besides the model.

    Attributes:
        facts: Values by name: library, version, instruction set, threads, options, op packages and
            kernel dists, format of the plan.
    """

    facts: dict[str, str] = {}


class Image(msgspec.Struct, frozen=True):
    """Prepared graphs of a context as data.

    Attributes:
        fingerprint: What they depend on.
        graphs: The plan of each graph, of JSON types, by name. The backend alone reads it; the keys
            of blobs that the graph uses are texts in it, so that tools can tell who shares them.
        blobs: Their prepacked weights by key. Those that no plan names are of all graphs.
        opaque: The graphs as one blob, of a backend that cannot describe them.
        is_whole: Whether its graphs can be restored only together.
    """

    fingerprint: Fingerprint
    graphs: Mapping[str, Any]
    blobs: Mapping[str, Array] = msgspec.field(default_factory=dict)
    opaque: bytes = b""
    is_whole: bool = False

    def to_bytes(self) -> bytes:
        """Return it as a context binary without interfaces and models."""
        return b"".join(
            ContextContent(
                producer=Producer("dovetail", dovetail.__version__),
                backend="",
                options={},
                fingerprint=self.fingerprint.facts,
                op_packages={},
                graphs=tuple(StoredContextGraph(name=n, plan=p) for n, p in self.graphs.items()),
                blobs={key: Blob(array) for key, array in self.blobs.items()},
                opaque=self.opaque,
                is_whole=self.is_whole,
            ).parts("image")
        )

    @classmethod
    def from_bytes(cls, data: bytes | memoryview, where: str = "image") -> Image:
        """Return the image in these bytes, all of which are checked.

        Args:
            data: From `to_bytes`.
            where: Name of the bytes, for errors.

        Raises:
            ContainerError: They are no context binary, are cut short or altered, or have a newer
                format.
        """
        file = ContextFile.of(np.frombuffer(data, np.uint8), where)
        file.verify()
        return cls.of(file, tuple(file.graphs))

    @classmethod
    def of(cls, file: ContextFile, names: Iterable[str]) -> Image:
        """Return the image of some graphs in a context binary or section.

        Args:
            file: The file.
            names: Names of the graphs.

        Raises:
            ContainerError: A plan is damaged.
        """
        plans = {name: file.plan(name) for name in names if file.graphs[name].plan is not None}
        manifest = file.manifest
        facts = Fingerprint(manifest.fingerprint)
        return cls(facts, plans, file.blobs, file.opaque, manifest.is_whole)

    def require(self, fingerprint: Fingerprint) -> None:
        """Raise unless the graphs can run where this is the fingerprint.

        Raises:
            ContainerError: They cannot; the error lists the facts that differ.
        """
        found = judge(self.fingerprint.facts, fingerprint.facts)
        found.require(Verdict.USABLE, "image")
