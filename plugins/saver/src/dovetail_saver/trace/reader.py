"""The reader of traces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from dovetail.errors import TraceError
from dovetail.runtime.api_table import API
from dovetail.runtime.calls import CallRecord, CompletionRecord
from dovetail.runtime.calls.record import MAX_LINE
from dovetail_saver.trace.header import CALLS_NAME, read_header
from dovetail_saver.trace.lines import Entry, Line, Mark, PayloadLine, decode_line
from dovetail_saver.trace.members import open_member
from dovetail_saver.trace.payloads import PayloadFile

_MARK_BYTES = 1 << 13  # at the end of the file, in which a mark is searched for


class Trace:
    """A trace on disk. Its records are read one by one; its memory does not grow with them.

    Args:
        folder: The folder, or a packed trace.

    Attributes:
        header: Its header.
        payloads: Its payloads by key: those of the records that have been read.
        mark: Its end; None before it has been read, and if the trace is cut off.
        is_cut: Whether the last line read was incomplete.

    Raises:
        TraceError: The folder is not a trace, or one of a version that this reader does not know.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.header = read_header(self.folder)
        self.payloads = PayloadFile(self.folder)
        self.mark: Mark | None = None
        self.is_cut = False

    def __iter__(self) -> Iterator[Entry]:
        """Yield the records in their order; see `entries`."""
        return self.entries()

    def entries(self, *, payloads: bool = True) -> Iterator[Entry]:
        """Yield the records in their order.

        Args:
            payloads: Whether to note the positions of payloads, which takes memory for each.

        Raises:
            TraceError: The file cannot be read, or has an invalid line.
        """
        count = 0
        unfinished: dict[int, int] = {}  # indices of asynchronous calls, by number
        path = str(self.folder / CALLS_NAME)
        for number, data in self.lines():
            line = _decoded(data, path, number)
            if self.mark is not None:
                raise TraceError("a line after the end of the trace", where=f"{path}:{number}")
            if isinstance(line, CallRecord):  # most lines of most traces
                if API[line.function].ends_later:
                    unfinished[line.number] = count
                yield Entry(count, line, path, number)
                count += 1
            elif isinstance(line, PayloadLine):
                if payloads:
                    self.payloads.add(line)
            elif isinstance(line, Mark):
                self.mark = line
            elif isinstance(line, CompletionRecord):
                if line.number not in unfinished:
                    raise TraceError(
                        f"no asynchronous execution has the number {line.number}",
                        where=f"{path}:{number}",
                    )
                yield Entry(unfinished.pop(line.number), line, path, number)
            else:
                yield Entry(count, line, path, number)
                count += 1

    def count(self) -> int:
        """Return the number of calls, and read the mark: at once if the trace was closed.

        Raises:
            TraceError: The file cannot be read, or the trace is cut off and has an invalid line.
        """
        mark = self.read_mark()
        if mark is not None:
            return mark.calls
        found = (entry.record for entry in self.entries(payloads=False))
        return sum(not isinstance(record, CompletionRecord) for record in found)

    def read_mark(self) -> Mark | None:
        """Read the mark from the end of the file and return it; None if there is none.

        Raises:
            TraceError: The file cannot be read.
        """
        with open_member(self.folder, CALLS_NAME) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _MARK_BYTES))
            tail = file.read(_MARK_BYTES).split(b"\n")
        if len(tail) > 1 and not tail[-1] and tail[-2].startswith(b'{"record":"end"'):
            line = decode_line(tail[-2], f"{self.folder / CALLS_NAME}: last line")
            self.mark = line if isinstance(line, Mark) else None
        return self.mark

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the whole lines with their numbers, from 1.

        Raises:
            TraceError: The file cannot be read, or has a line that is too long.
        """
        self.mark, self.is_cut = None, False
        path = self.folder / CALLS_NAME
        with open_member(self.folder, CALLS_NAME) as file:
            try:
                yield from self._whole(file, path)
            except OSError as error:
                raise TraceError(
                    f"cannot read the calls: {error.strerror or error}", where=str(path)
                ) from error

    def _whole(self, file: IO[bytes], path: Path) -> Iterator[tuple[int, bytes]]:
        number = 0
        while data := file.readline(MAX_LINE):
            number += 1
            if data.endswith(b"\n"):
                yield number, data
            elif len(data) == MAX_LINE and data.strip(b"\0"):
                raise TraceError(f"a line exceeds {MAX_LINE} bytes", where=f"{path}:{number}")
            else:
                self.is_cut = True  # allocated ahead and never written: zeros without an end
                return


def _decoded(data: bytes, path: str, number: int) -> Line:
    """Return the content of a line; its name costs time, and is for errors only."""
    try:
        return decode_line(data, "")
    except TraceError as error:
        raise TraceError(error.message, where=f"{path}:{number}") from error
