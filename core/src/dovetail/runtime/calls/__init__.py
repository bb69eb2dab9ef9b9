"""Records of API calls: written by a hook, read again, and played on any backend.

A record is a line of JSON and the payloads that it refers to by their content hash. Every argument
is written and read as the API table says. Whatever a record contains, reading it raises nothing but
a TraceError, and playing it makes no calls but those of the table.
"""

from dovetail.runtime.calls.comparison import differences
from dovetail.runtime.calls.payloads import MemoryPayloads, Payloads, Role
from dovetail.runtime.calls.player import Played, Player
from dovetail.runtime.calls.record import (
    CallRecord,
    CompletionRecord,
    ErrorRecord,
    Record,
    decode_record,
    encode_record,
)
from dovetail.runtime.calls.recorder import CallRecorder
from dovetail.runtime.calls.references import BackendReference, OpsReference, PackageReference
from dovetail.runtime.calls.resolver import InstalledResolver, Resolver

__all__ = [
    "BackendReference",
    "CallRecord",
    "CallRecorder",
    "CompletionRecord",
    "ErrorRecord",
    "InstalledResolver",
    "MemoryPayloads",
    "OpsReference",
    "PackageReference",
    "Payloads",
    "Played",
    "Player",
    "Record",
    "Resolver",
    "Role",
    "decode_record",
    "differences",
    "encode_record",
]
