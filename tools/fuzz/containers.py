"""Mutated containers: damaged bytes, and changed manifests with correct checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from dovetail.container._format import (
    HEADER_BYTES,
    Header,
    Kind,
    chunk_checksums,
    pack_header,
    placement_of,
    unpack_header,
)
from fuzz import pick
from fuzz.damage import damage
from fuzz.mutation import Mutated
from fuzz.seeds import Seed

_BYTES = 0.3


def mutate_container(seeds: Sequence[Seed], run: int, number: int) -> Mutated:
    """Return a container."""
    random = Random(f"{run}:{number}")
    seed = seeds[random.randrange(len(seeds))]
    if random.random() < _BYTES:
        return Mutated(seed.name, ("bytes",), damage(seed.data, random))
    parts = Parts.of(seed.data)
    for _ in range(random.choice((1, 1, 2, 3))):
        change(parts.manifest, random)
    raw = json.dumps(parts.manifest).encode()
    if random.random() < 0.1:
        raw = damage(raw, random)
    return Mutated(seed.name, ("manifest",), sealed(parts.kind, raw, parts.blobs))


@dataclass(slots=True)
class Parts:
    """The parts of a container: its kind, its manifest, and the bytes of its blobs."""

    kind: Kind
    manifest: dict[str, Any]
    blobs: list[bytes]

    @classmethod
    def of(cls, data: bytes) -> Parts:
        """Return the parts of a valid container."""
        header = unpack_header(np.frombuffer(data, np.uint8), "container")
        end = HEADER_BYTES + header.manifest_bytes
        manifest = json.loads(data[HEADER_BYTES:end])
        sizes = [blob["size"] for blob in manifest["blobs"]]
        offsets = placement_of(header.manifest_bytes, sizes).offsets
        blobs = [data[o : o + s] for o, s in zip(offsets, sizes, strict=True)]
        return cls(header.kind, manifest, blobs)

    def json(self, index: int) -> Any:
        """Return the value in a blob of JSON."""
        return json.loads(self.blobs[index])

    def replace(self, index: int, data: bytes) -> None:
        """Replace the bytes of a blob, and its entry in the manifest."""
        self.blobs[index] = data
        self.manifest["blobs"][index] = {
            "sha256": hashlib.sha256(data).hexdigest(),
            "size": len(data),
            "crc32": list(chunk_checksums(np.frombuffer(data, np.uint8))),
        }

    def sealed(self) -> bytes:
        """Return the container, with correct checksums."""
        return sealed(self.kind, json.dumps(self.manifest).encode(), self.blobs)


def sealed(kind: Kind, raw: bytes, blobs: Sequence[bytes]) -> bytes:
    """Return a container of a manifest and blobs, with correct checksums."""
    placement = placement_of(len(raw), map(len, blobs))
    header = Header(kind, len(raw), placement.file_bytes, hashlib.sha256(raw).digest())
    data = bytearray(placement.file_bytes)
    data[:HEADER_BYTES] = pack_header(header)
    data[HEADER_BYTES : HEADER_BYTES + len(raw)] = raw
    for offset, blob in zip(placement.offsets, blobs, strict=True):
        data[offset : offset + len(blob)] = blob
    return bytes(data)


def change(document: Any, random: Random) -> None:
    """Change one value, anywhere."""
    places = list(_places(document))
    parent, key = random.choice(places)
    how = random.random()
    if how < 0.15:
        del parent[key]
    elif how < 0.3 and isinstance(parent, list):
        parent.append(parent[key])
    elif how < 0.5:
        other, name = random.choice(places)
        if name in other if isinstance(other, dict) else name < len(other):
            parent[key] = json.loads(json.dumps(other[name]))
    else:
        parent[key] = _value(parent[key], random)


def _value(value: Any, random: Random) -> Any:
    if isinstance(value, bool) or random.random() < 0.1:
        return random.choice((True, False, None, [], {}, "", 0, [[[]]], {"a": 1}))
    if isinstance(value, int):
        return random.choice((*pick.INTEGERS, value + 1, value - 1, 2**70))
    if isinstance(value, float):
        return random.choice(pick.FLOATS)
    if isinstance(value, str):
        return random.choice((*pick.TEXTS, value + "x", "Conv2d", "qti.aisw", "../x"))
    return random.choice((None, 0, "x", [], {}))


def _places(value: Any) -> Any:
    """Yield every value in a document, as its container and its key."""
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in list(keys):
        yield value, key
        yield from _places(value[key])
