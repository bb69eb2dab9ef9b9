"""The reader of profile logs; see docs/profiling.md."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import IO

import msgspec

from dovetail.errors import ContainerError
from dovetail.files import unreadable
from dovetail.runtime.measurements import find_fault
from dovetail.runtime.profile_log import (
    PREFIX,
    VERSION,
    LogHeader,
    LogRecord,
    LogSection,
    not_a_log,
)

_MAX_LINE = 1 << 26  # bytes; the event of a graph of 100,000 nodes has some 20 MB
_HEADERS = msgspec.json.Decoder(LogHeader)
_RECORDS = msgspec.json.Decoder(LogRecord)


def read_profile_log(path: str | os.PathLike[str]) -> tuple[LogSection, ...]:
    """Return the content of a profile log, by process.

    The last line of a process may be incomplete. A log without a complete header is empty.

    Raises:
        FrontendError: The file cannot be read.
        ContainerError: The file is not a profile log, is of a newer version, or has an invalid
            line.
    """
    headers: list[LogHeader] = []
    records: list[list[LogRecord]] = []
    cut: set[int] = set()
    lines = chain(_lines(Path(path)), (b"",))
    for number, (line, following) in enumerate(pairwise(lines), 1):
        may_be_cut = following.startswith(PREFIX) if following else not line.endswith(b"\n")
        try:
            decoded = _decoded(line)
        except (ValueError, RecursionError) as error:
            if not may_be_cut:
                raise _invalid(error, f"{path}:{number}") from error
            cut.add(len(headers) - 1)
            continue
        if isinstance(decoded, LogHeader):
            _require_known(decoded, f"{path}:{number}")
            headers.append(decoded)
            records.append([])
        else:
            records[-1].append(decoded)
    return tuple(
        LogSection(header, tuple(found), i in cut)
        for i, (header, found) in enumerate(zip(headers, records, strict=True))
    )


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines, after a check of the first one."""
    try:
        with open(path, "rb") as file:
            yield from _bounded(file, path)
    except OSError as error:
        raise unreadable(path, error) from error


def _bounded(file: IO[bytes], path: Path) -> Iterator[bytes]:
    number = 0
    while line := file.readline(_MAX_LINE):
        number += 1
        start = line.rstrip(b"\n")[: len(PREFIX)]
        if number == 1 and not (start and PREFIX.startswith(start)):
            raise not_a_log(path)
        if len(line) == _MAX_LINE:
            error = ValueError(f"longer than {_MAX_LINE:,} bytes")
            raise _invalid(error, f"{path}:{number}")
        yield line


def _decoded(line: bytes) -> LogHeader | LogRecord:
    """Return the content of a line.

    Raises:
        ValueError, RecursionError: It is invalid or incomplete.
    """
    if line.startswith(PREFIX):
        return _HEADERS.decode(line)
    record = _RECORDS.decode(line)
    if fault := find_fault(record.event):
        raise ValueError(fault)
    return record


def _require_known(header: LogHeader, where: str) -> None:
    """Raise if a log is of a newer version.

    Raises:
        ContainerError: It is newer.
    """
    if header.version > VERSION:
        raise ContainerError(
            f"the profile log has version {header.version}; this version reads up to {VERSION}",
            code="PROFILE_LOG_VERSION",
            where=where,
            hint="upgrade dovetail-core",
        )


def _invalid(error: Exception, where: str) -> ContainerError:
    text = "nested too deeply" if isinstance(error, RecursionError) else str(error)
    return ContainerError(f"invalid line: {text}", code="PROFILE_LOG_INVALID", where=where)
