"""The writer of traces."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from dovetail.container import Closing
from dovetail.errors import TraceError
from dovetail.files import atomic_write, unwritable
from dovetail_saver.trace.header import CALLS_NAME, HEADER_NAME, PAYLOADS_NAME, Header
from dovetail_saver.trace.lines import Line, Mark, PayloadLine, encode_line
from dovetail_saver.trace.payloads import PayloadWriter


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
        TraceError: The folder is in use.
        ContainerError: It cannot be written.
    """

    def __init__(self, folder: str | os.PathLike[str], header: Header) -> None:
        self.folder = Path(folder)
        self._header = header
        _require_new(self.folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write_header()
            self.payloads = PayloadWriter(
                self.folder / PAYLOADS_NAME, header.payloads, self._announce
            )
            self._calls = open(self.folder / CALLS_NAME, "xb", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise unwritable(self.folder, error) from error
        self._is_closed = False

    def write(self, line: Line) -> None:
        """Write a line.

        Raises:
            OSError: It cannot be written.
        """
        data = encode_line(line) + b"\n"
        written = self._calls.write(data)
        if written != len(data):
            raise OSError(f"only {written} of {len(data)} bytes were written")

    def close(self, reason: str = "", backends: tuple[str, ...] = ()) -> None:
        """End the trace; a second call does nothing.

        Args:
            reason: Why it ends before the program.
            backends: Names of the backends in use.

        Raises:
            OSError: The end cannot be written; the files are closed nevertheless.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self.write(Mark(reason))
            if backends:
                self._header = msgspec.structs.replace(self._header, backends=backends)
                self._write_header()
        finally:
            self._calls.close()
            self.payloads.close()

    def _announce(self, line: PayloadLine) -> None:
        self.write(line)

    def _write_header(self) -> None:
        with atomic_write(self.folder / HEADER_NAME) as file:
            file.write(msgspec.json.format(msgspec.json.encode(self._header)) + b"\n")


def _require_new(folder: Path) -> None:
    """Raise if a folder has content.

    Raises:
        TraceError: It has.
    """
    try:
        is_used = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except (OSError, ValueError) as error:
        raise TraceError(f"cannot use the folder: {error}", where=str(folder)) from error
    if is_used:
        raise TraceError(
            "the folder of a trace must be new or empty",
            where=str(folder),
            hint="name another folder, or remove this one",
        )
