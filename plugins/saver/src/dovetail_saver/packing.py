"""Packing: a trace as one file, which every command reads."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from dovetail.files import check_suffix
from dovetail_saver.trace import Trace
from dovetail_saver.trace.header import CALLS_NAME, HEADER_NAME, PAYLOADS_NAME
from dovetail_saver.trace.members import open_member
from dovetail_saver.trace.packed import SUFFIX, write_packed


def pack(path: Path, file: Path) -> int:
    """Write a trace as one file and return its size in bytes.

    Args:
        path: The trace.
        file: The packed trace, replaced if it exists.

    Raises:
        ConfigError: The file has another suffix than `.dvtrace`.
        TraceError: The trace cannot be read.
        ContainerError: The file cannot be written.
    """
    check_suffix(file, SUFFIX, "one file is written", "--out")
    trace = Trace(path)
    with ExitStack() as stack:
        names = {HEADER_NAME: True, CALLS_NAME: True, PAYLOADS_NAME: False}
        members = [
            (name, stack.enter_context(open_member(trace.folder, name)), is_compressed)
            for name, is_compressed in names.items()
        ]
        write_packed(file, members)
    return file.stat().st_size
