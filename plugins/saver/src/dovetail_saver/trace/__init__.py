"""The trace format: a folder of `trace.json`, `calls.jsonl` and `params.bin`.

See docs/trace_format.md. A trace is data only: reading it, whatever it contains, raises nothing but
a TraceError.
"""

from dovetail_saver.choices import PayloadPolicy
from dovetail_saver.trace.header import Header, Host
from dovetail_saver.trace.lines import Entry, Line, Mark, OpaqueRecord, PayloadLine
from dovetail_saver.trace.reader import Trace
from dovetail_saver.trace.writer import TraceWriter, require_new

__all__ = [
    "Entry",
    "Header",
    "Host",
    "Line",
    "Mark",
    "OpaqueRecord",
    "PayloadLine",
    "PayloadPolicy",
    "Trace",
    "TraceWriter",
    "require_new",
]
