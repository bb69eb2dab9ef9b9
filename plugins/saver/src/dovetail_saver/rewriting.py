"""New traces from other ones: some of the records, some of them changed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dovetail.files import unwritable
from dovetail.ir import Blob
from dovetail.runtime.calls import CallRecord, CompletionRecord, Role
from dovetail.runtime.calls.payloads import NOT_RECORDED
from dovetail_saver.trace import Entry, Header, OpaqueRecord, Trace, TraceWriter, require_new

TraceRecord = CallRecord | CompletionRecord | OpaqueRecord


class TraceCopier:
    """Writes records of a trace to another, with the payloads that they refer to.

    Args:
        trace: The trace, which is being read.
        writer: Receives the records.
    """

    def __init__(self, trace: Trace, writer: TraceWriter) -> None:
        self._trace = trace
        self._writer = writer

    def add(self, record: TraceRecord) -> None:
        """Write a record and those of its payloads that are recorded.

        Raises:
            TraceError: A payload is missing or damaged.
            ContainerError: It cannot be written.
        """
        try:
            if not isinstance(record, OpaqueRecord):
                for key in record.payloads:
                    blob = None if key == NOT_RECORDED else self._trace.payloads.get(key)
                    if blob is not None:
                        self._writer.payloads.add(blob, Role.STATIC)
            self._writer.write(record)
        except OSError as error:
            raise unwritable(self._writer.folder, error) from error

    def add_payload(self, blob: Blob) -> str:
        """Write a payload that the trace does not have, and return its key.

        Raises:
            ContainerError: It cannot be written.
        """
        try:
            return self._writer.payloads.add(blob, Role.STATIC)
        except OSError as error:
            raise unwritable(self._writer.folder, error) from error


@contextmanager
def new_trace(folder: Path, header: Header) -> Iterator[TraceWriter]:
    """Write a trace that appears in a folder only when it is complete.

    Args:
        folder: A folder that does not exist, or is empty.
        header: The header.

    Raises:
        ConfigError: The folder is in use.
        ContainerError: It cannot be written.
    """
    require_new(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise unwritable(folder, error) from error
    try:
        with TraceWriter(temporary / "trace", header) as writer:
            yield writer
        if folder.exists():
            folder.rmdir()  # empty; some systems do not replace it
        os.replace(temporary / "trace", folder)
    except OSError as error:
        raise unwritable(folder, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def rewrite(
    trace: Trace,
    folder: Path,
    change: Callable[[Entry, TraceCopier], TraceRecord | None],
    header: Header | None = None,
) -> int:
    """Write a trace with changed records and return the number of its calls.

    Args:
        trace: The trace.
        folder: A folder that does not exist, or is empty.
        change: Returns the record to write for one of the trace; None to leave it out.
        header: The header; by default that of the trace.

    Raises:
        TraceError: The trace is invalid.
        ConfigError: The folder is in use.
        ContainerError: It cannot be written.
    """
    with new_trace(folder, header or trace.header) as writer:
        copier = TraceCopier(trace, writer)
        for entry in trace:
            record = change(entry, copier)
            if record is not None:
                copier.add(record)
        return writer.calls
