"""Images: prepared graphs as data, and the fingerprint of what they depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dovetail.container import ImageContent, pack_image, unpack_image
from dovetail.errors import ContainerError
from dovetail.ir import Array


class Fingerprint(msgspec.Struct, frozen=True):
    """All that prepared graphs depend on besides the model.

    Attributes:
        facts: Values by name: library, version, instruction set, threads, options, op packages and
            kernel dists, format of the plan.
    """

    facts: dict[str, str] = {}

    def differences(self, other: Fingerprint) -> tuple[str, ...]:
        """Return the names of the facts that differ, sorted."""
        names = self.facts.keys() | other.facts.keys()
        return tuple(sorted(n for n in names if self.facts.get(n) != other.facts.get(n)))


@dataclass(frozen=True, slots=True)
class Image:
    """Prepared graphs of a context as data.

    Attributes:
        fingerprint: What they depend on.
        graphs: The plan of each graph, of JSON types, by name. The backend alone reads it.
        blobs: Their prepacked weights by key.
        opaque: The graphs as one blob, of a backend that cannot describe them.
    """

    fingerprint: Fingerprint
    graphs: Mapping[str, Any]
    blobs: Mapping[str, Array] = field(default_factory=dict)
    opaque: bytes = b""

    def to_bytes(self) -> bytes:
        """Return it in the format of containers."""
        facts = self.fingerprint.facts
        return pack_image(ImageContent(facts, self.graphs, self.blobs, self.opaque))

    @classmethod
    def from_bytes(cls, data: bytes | memoryview, where: str = "image") -> Image:
        """Return the image in these bytes, all of which are checked.

        Args:
            data: From `to_bytes`.
            where: Name of the bytes, for errors.

        Raises:
            ContainerError: They are no image, are cut short or altered, or have a newer format.
        """
        found = unpack_image(data, where)
        return cls(Fingerprint(dict(found.fingerprint)), found.graphs, found.blobs, found.opaque)

    def require(self, fingerprint: Fingerprint) -> None:
        """Raise unless the graphs can run where this is the fingerprint.

        Raises:
            ContainerError: It differs; the message names the facts that do.
        """
        if names := self.fingerprint.differences(fingerprint):
            facts = (
                f"{name} is {fingerprint.facts.get(name, 'unknown')}, the image's is "
                f"{self.fingerprint.facts.get(name, 'unknown')}"
                for name in names
            )
            raise ContainerError(
                f"the image was created elsewhere: {'; '.join(facts)}",
                code="CONTAINER_INCOMPATIBLE",
                hint="create the image again with this backend, its options and this machine",
            )
