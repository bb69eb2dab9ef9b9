"""The inspector of traces, for `dovetail inspect`."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from dovetail.api.inspection import FileSummary

# As in `trace.header` and `trace.packed`, which load the runtime.
_HEADER, _CALLS, _SUFFIX = "trace.json", "calls.jsonl", ".dvtrace"


class TraceInspector:
    """Summarizes traces: folders and packed files."""

    name: ClassVar[str] = "trace"

    def recognises(self, path: Path) -> bool:
        """Return whether a path is a folder with the files of a trace, or a packed trace."""
        if os.path.isdir(path):
            return (path / _HEADER).is_file() and (path / _CALLS).is_file()
        return os.path.isfile(path) and (path.suffix.lower() == _SUFFIX or _is_packed(path))

    def summary(self, path: Path) -> FileSummary:
        """Return who recorded a trace, and the number and times of its calls.

        Raises:
            TraceError: It is damaged.
        """
        # imported here: most inspected files are no traces
        from dovetail.api.inspection import FileSummary
        from dovetail_saver.overview import info_of, statistics_of
        from dovetail_saver.trace import Trace

        trace = Trace(path)
        info, statistics = info_of(trace), statistics_of(trace)
        return FileSummary(f"{info.text}\n\n{statistics.text}", {**statistics.data, **info.data})


def _is_packed(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            if file.read(4) != b"PK\3\4":
                return False
        with zipfile.ZipFile(path) as archive:
            return {_HEADER, _CALLS} <= set(archive.namelist())
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return False
