"""Payloads in `params.bin`: each stored once, at a multiple of 64 bytes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dovetail.container import MappedBlob, MappedFile
from dovetail.errors import DovetailError, TraceError
from dovetail.ir import Blob
from dovetail.runtime.calls import Role
from dovetail.runtime.calls.payloads import NOT_RECORDED
from dovetail_saver.choices import PayloadPolicy
from dovetail_saver.trace.header import PAYLOADS_NAME
from dovetail_saver.trace.lines import PayloadLine
from dovetail_saver.trace.members import region

ALIGNMENT = 64  # bytes
_GAP = bytes(ALIGNMENT)

# Whether payloads are kept, and whether their keys are recorded at least; by role.
_KEPT: Mapping[PayloadPolicy, Sequence[bool]] = {
    PayloadPolicy.ALL: (True, True, True),
    PayloadPolicy.INPUTS: (True, True, False),
    PayloadPolicy.OUTPUTS_HASH: (True, True, False),
    PayloadPolicy.NONE: (False, False, False),
}
WANTED = {**_KEPT, PayloadPolicy.OUTPUTS_HASH: (True, True, True)}


class PayloadWriter:
    """Writes payloads into a file, each before the records that refer to it: a `Payloads`.

    Args:
        path: The file, which must not exist.
        policy: The payloads to keep.
        announce: Receives the position of each new payload.

    Attributes:
        wanted: Whether payloads are recorded, or at least their keys; by role.

    Raises:
        OSError: The file cannot be written; by `add`, too.
    """

    def __init__(
        self, path: Path, policy: PayloadPolicy, announce: Callable[[PayloadLine], None]
    ) -> None:
        self._file = open(path, "xb", buffering=0)  # noqa: SIM115 - closed by `close`
        self._kept, self.wanted = _KEPT[policy], WANTED[policy]
        self._announce = announce
        self._ends: dict[str, int] = {}  # of the payloads in the file, in their order

    def add(self, blob: Blob, role: Role) -> str:
        """Write a payload unless it is there or not to be kept, and return its key."""
        if not self.wanted[role]:
            return NOT_RECORDED
        key = blob.hash
        if not self._kept[role]:
            return key
        if key not in self._ends:
            size = self.size
            gap = -size % ALIGNMENT
            self._write(_GAP[:gap], size)
            self._write(blob.bytes.data, size + gap)
            self._announce(PayloadLine(key, size + gap, blob.nbytes))
            self._ends[key] = size + gap + blob.nbytes  # last: an interrupt means all of it again
        return key

    @property
    def size(self) -> int:
        """Number of bytes of the file."""
        return next(reversed(self._ends.values()), 0)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, data: bytes | memoryview, offset: int) -> None:
        self._file.seek(offset)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._file.fileno(), rest) :]


class PayloadFile:
    """The payloads of a trace that is read, by key: a `PayloadSource`.

    Only those are found whose lines have been read.

    Args:
        folder: The folder of the trace, or the packed trace.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / PAYLOADS_NAME
        self._file: MappedFile | None = None
        self._start = 0  # of the payloads in the file
        self._size = 0
        self._lines: dict[str, PayloadLine] = {}
        self._intact: set[str] = set()

    @property
    def lines(self) -> Mapping[str, PayloadLine]:
        """The positions of the payloads, by key."""
        return self._lines

    def add(self, line: PayloadLine) -> None:
        """Note the position of a payload."""
        self._lines.setdefault(line.key, line)

    def get(self, key: str, /) -> Blob | None:
        """Return a payload; None if only its key was recorded.

        Its content is compared with its key when it is first used.

        Raises:
            TraceError: The file cannot be read, or ends before the payload does.
        """
        line = self._lines.get(key)
        if line is None:
            return None
        file = self._mapped()
        if line.offset + line.size > self._size:
            raise TraceError(
                f"payload {key} ends at byte {line.offset + line.size} of {self._size}",
                where=str(self._path),
            )
        start = self._start + line.offset

        def check() -> None:
            view = file.view(start, line.size)
            if hashlib.sha256(view.data).hexdigest() != key:
                raise TraceError(f"payload {key} is damaged", where=str(self._path))
            self._intact.add(key)

        is_checked = key in self._intact
        return MappedBlob(file, start, line.size, hash=key, check=None if is_checked else check)

    def _mapped(self) -> MappedFile:
        if self._file is None:
            found = region(self._folder, PAYLOADS_NAME)
            try:
                file = MappedFile(str(found.path))
            except DovetailError as error:
                raise TraceError(
                    f"cannot read the payloads: {error.message}", where=str(self._path)
                ) from error
            rest = max(0, file.data.size - found.start)
            self._file, self._start = file, found.start
            self._size = rest if found.size is None else min(rest, found.size)
        return self._file
