"""The records of a trace up to a certain one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.errors import TraceError
from dovetail.runtime.calls import Role
from dovetail_saver.trace.header import CALLS_NAME
from dovetail_saver.trace.lines import PayloadLine, decode_line
from dovetail_saver.trace.reader import Trace

if TYPE_CHECKING:
    from dovetail_saver.trace.writer import TraceWriter

_PAYLOAD = b'{"record":"payload"'


@dataclass(frozen=True, slots=True)
class TraceStart:
    """The first lines of a trace that may still grow.

    Attributes:
        folder: The folder of the trace.
        size: Number of bytes of the lines.
        backends: Names of the backends that they use.
    """

    folder: Path
    size: int
    backends: tuple[str, ...]

    def copy_to(self, writer: TraceWriter) -> None:
        """Write these records into another trace, with their payloads.

        Raises:
            TraceError: They cannot be read.
            OSError: They cannot be written.
            ContainerError: The header cannot be written.
        """
        trace, rest = Trace(self.folder), self.size
        lines = trace.lines() if rest else iter(())
        for number, data in lines:
            if data.startswith(_PAYLOAD):
                where = f"{self.folder / CALLS_NAME}:{number}"
                self._copy_payload(decode_line(data, where), trace, writer)
            else:
                writer.write_record(data[:-1])
            rest -= len(data)
            if rest <= 0:
                break
        if rest:
            raise TraceError(f"{rest} bytes of the lines are missing", where=str(self.folder))
        for name in self.backends:
            writer.add_backend(name)

    def _copy_payload(self, line: object, trace: Trace, writer: TraceWriter) -> None:
        if isinstance(line, PayloadLine):
            trace.payloads.add(line)
            blob = trace.payloads.get(line.key)
            if blob is not None:
                writer.payloads.add(blob, Role.STATIC)  # kept wherever payloads are
