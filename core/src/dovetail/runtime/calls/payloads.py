"""Payloads: the bytes that records refer to by their content hash."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Protocol, overload

import numpy as np

from dovetail.errors import TraceError
from dovetail.ir import Array, Blob

NOT_RECORDED = ""  # key of a payload that was left out


class Role(enum.IntEnum):
    """The use of a payload in its call."""

    STATIC = 0  # data that belongs to the graph
    INPUT = 1
    OUTPUT = 2


class Payloads(Protocol):
    """Receives payloads.

    Attributes:
        wanted: Whether payloads are recorded, or at least their keys; by role.
    """

    wanted: Sequence[bool]

    def add(self, blob: Blob, role: Role) -> str:
        """Return the key of a payload, its content hash; empty if it is not recorded.

        The bytes may change after the call.
        """


class MemoryPayloads:
    """Payloads in memory, by key.

    Attributes:
        blobs: Copies of the payloads.
        wanted: All.
    """

    wanted: Sequence[bool] = (True, True, True)

    def __init__(self) -> None:
        self.blobs: dict[str, Blob] = {}

    def add(self, blob: Blob, role: Role) -> str:
        """Keep a copy of a payload and return its key."""
        if blob.hash not in self.blobs:
            self.blobs[blob.hash] = Blob(blob.bytes.copy(), hash=blob.hash)
        return blob.hash


class Hashes:
    """Payloads that are not kept: only their keys are returned."""

    wanted: Sequence[bool] = (True, True, True)

    def add(self, blob: Blob, role: Role) -> str:
        """Return the key of a payload."""
        return blob.hash


class CallPayloads:
    """The payloads of one call, by index: a `BlobSink`.

    Args:
        payloads: Receives them.
        has_outputs: Whether outputs mean anything; else they are not recorded.

    Attributes:
        keys: Their keys.
    """

    __slots__ = ("_payloads", "_wanted", "keys")

    def __init__(self, payloads: Payloads, *, has_outputs: bool = True) -> None:
        wanted = payloads.wanted
        self._payloads = payloads
        self._wanted = wanted if has_outputs else (*wanted[: Role.OUTPUT], False)
        self.keys: list[str] = []

    def add(self, blob: Blob, role: Role = Role.STATIC) -> int:
        """Return the index of a payload."""
        self.keys.append(self._payloads.add(blob, role) if self._wanted[role] else NOT_RECORDED)
        return len(self.keys) - 1

    def add_array(self, array: Array, role: Role) -> int:
        """Return the index of an array's elements in C order."""
        if self._wanted[role]:
            return self.add(Blob(np.ascontiguousarray(array)), role)
        self.keys.append(NOT_RECORDED)
        return len(self.keys) - 1


class PayloadSource(Protocol):
    """Finds payloads."""

    def get(self, key: str, /) -> Blob | None:
        """Return a payload by its key; None if it is missing."""


class RecordedBlobs(Sequence[Blob]):
    """The payloads of a record by index, each loaded when it is used."""

    def __init__(self, keys: Sequence[str], source: PayloadSource, where: str) -> None:
        self._keys = keys
        self._source = source
        self._where = where

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, index: int) -> Blob: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Blob]: ...

    def __getitem__(self, index: int | slice) -> Blob | Sequence[Blob]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        found = self.find(index)
        if found is None:
            raise TraceError(f"payload {index} was not recorded", where=self._where)
        return found

    def __iter__(self) -> Iterator[Blob]:
        return (self[i] for i in range(len(self)))

    def find(self, index: int) -> Blob | None:
        """Return a payload, or None if it was not recorded.

        Raises:
            TraceError: The record has no payload of this index, or it is missing.
        """
        if not 0 <= index < len(self._keys):
            raise TraceError(f"the record has no payload {index}", where=self._where)
        key = self._keys[index]
        if key == NOT_RECORDED:
            return None
        blob = self._source.get(key)
        if blob is None:
            raise TraceError(f"payload {key} is missing", where=self._where)
        return blob
