"""The writer of traces."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from dovetail.container import Closing
from dovetail.errors import ConfigError, TraceError
from dovetail.files import atomic_write, unwritable
from dovetail.runtime.calls import CallRecord
from dovetail_saver.trace.header import CALLS_NAME, HEADER_NAME, PAYLOADS_NAME, Header
from dovetail_saver.trace.lines import Line, Mark, OpaqueRecord, PayloadLine, encode_line
from dovetail_saver.trace.lines_file import LinesFile
from dovetail_saver.trace.payloads import PayloadWriter
from dovetail_saver.trace.start import TraceStart

_CALL = b'{"record":"call"'


class TraceWriter(Closing):
    """Writes a trace; a context manager.

    Every line is written whole and at once, so that the trace can be read while it grows, and
    after a crash up to its last whole line.

    Args:
        folder: A folder that does not exist, or is empty.
        header: The header.

    Attributes:
        payloads: Receives the payloads of records.

    Raises:
        ConfigError: The folder is in use.
        TraceError: It cannot be read.
        ContainerError: It cannot be written.
    """

    def __init__(self, folder: str | os.PathLike[str], header: Header) -> None:
        self.folder = Path(folder)
        self._header = header
        self._is_closed = False
        require_new(self.folder)
        is_old = self.folder.exists()
        with ExitStack() as opened:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                if not is_old:
                    opened.callback(_remove_empty, self.folder)
                # first of all: of two processes, one creates it
                self._lines = LinesFile(self.folder / CALLS_NAME)
                opened.callback((self.folder / CALLS_NAME).unlink, missing_ok=True)
                opened.callback(self._lines.abandon)
                path = self.folder / PAYLOADS_NAME
                self.payloads = PayloadWriter(path, header.payloads, self._add_payload)
                opened.callback(path.unlink, missing_ok=True)
                opened.callback(self.payloads.close)
            except FileExistsError as error:
                raise _in_use(self.folder) from error
            except OSError as error:
                raise unwritable(self.folder, error) from error
            self._write_header(header)
            opened.pop_all()

    @property
    def calls(self) -> int:
        """Number of calls written."""
        return self._lines.calls

    @property
    def size(self) -> int:
        """Number of bytes of its lines and payloads."""
        return self._lines.size + self.payloads.size

    @property
    def start(self) -> TraceStart:
        """Its records so far."""
        return TraceStart(self.folder, self._lines.size, self._header.backends)

    def write(self, line: Line) -> None:
        """Write a line.

        Raises:
            OSError: It cannot be written.
        """
        self._lines.append(encode_line(line), is_call=isinstance(line, CallRecord | OpaqueRecord))

    def write_record(self, line: bytes) -> None:
        """Write the line of a record as `CallRecorder` returns it.

        Raises:
            OSError: It cannot be written.
        """
        self._lines.append(line, is_call=line.startswith(_CALL))

    def is_last(self, line: bytes) -> bool:
        """Return whether a line is the last one that was written."""
        return self._lines.ends_with(line)

    def add_backend(self, name: str) -> None:
        """Write the name of a backend in use into the header.

        Raises:
            ContainerError: It cannot be written.
        """
        if name in self._header.backends:
            return
        backends = (*self._header.backends, name)
        header = msgspec.structs.replace(self._header, backends=backends)
        self._write_header(header)
        self._header = header

    def close(self, reason: str = "") -> None:
        """End the trace; a second call does nothing.

        Args:
            reason: Why it ends before the program.

        Raises:
            OSError: The end cannot be written; the files are closed nevertheless.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._lines.append(encode_line(Mark(reason, self.calls)), is_last=True)
        finally:
            self.payloads.close()
            self._lines.close()

    def abandon(self) -> None:
        """Let go of the files, which another process writes."""
        self._is_closed = True
        self.payloads.close()
        self._lines.abandon()

    def _add_payload(self, line: PayloadLine) -> None:
        """Write the position of a payload, unless that was done before an interrupt."""
        if not self.is_last(encode_line(line)):
            self.write(line)

    def _write_header(self, header: Header) -> None:
        with atomic_write(self.folder / HEADER_NAME) as file:
            file.write(msgspec.json.format(msgspec.json.encode(header)) + b"\n")


def require_new(folder: Path) -> None:
    """Raise if a folder has content.

    Raises:
        ConfigError: It has.
        TraceError: It cannot be read.
    """
    try:
        is_used = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except (OSError, ValueError) as error:
        raise TraceError(f"cannot use the folder: {error}", where=str(folder)) from error
    if is_used:
        raise _in_use(folder)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _in_use(folder: Path) -> ConfigError:
    return ConfigError(
        "the folder of a trace must be new or empty",
        code="USAGE",
        where=str(folder),
        hint="name another folder, or remove this one",
    )
