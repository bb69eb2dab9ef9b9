"""Lines of `calls.jsonl`: records of calls, entries of payloads, and marks."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from dovetail.runtime.calls import CallRecord, CompletionRecord
from dovetail.runtime.calls.record import decode_with

_Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Sha256 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class _Line(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="record"
):
    """Base of the lines that are no records of core."""


class PayloadLine(_Line, frozen=True, tag="payload"):
    """The position of a payload in `params.bin`; it precedes the records that refer to it.

    Attributes:
        key: Its content hash, SHA-256 in hex.
        offset: Its first byte, a multiple of 64.
        size: Number of bytes.
    """

    key: _Sha256
    offset: Annotated[int, Meta(ge=0, le=2**63 - 1, multiple_of=64)]
    size: _Number


class OpaqueRecord(_Line, frozen=True, tag="opaque", kw_only=True):
    """A call that the API table does not have, such as one of another version or another API.

    Attributes:
        number: Number of the call.
        thread: Number of the thread.
        name: Its name.
        text: What is known about it, for readers.
    """

    number: _Number
    thread: _Number = 0
    name: str
    text: str = ""


class Mark(_Line, frozen=True, tag="end"):
    """The last line of a trace that was closed.

    Attributes:
        reason: Why recording ended before the program; empty if it did not.
        calls: Number of calls.
    """

    reason: str = ""
    calls: _Number = 0


Line = CallRecord | CompletionRecord | OpaqueRecord | PayloadLine | Mark


class Entry(msgspec.Struct, frozen=True, eq=False):
    """A record of a trace.

    Attributes:
        index: Number of the call in its trace, from 0; a completion has that of its call.
        record: The record.
        source: Its file, or another name of it.
        line: Its line in the file, from 1; 0 without a file.
    """

    index: int
    record: CallRecord | CompletionRecord | OpaqueRecord
    source: str
    line: int = 0

    @property
    def where(self) -> str:
        """Its file and line, for errors."""
        return f"{self.source}:{self.line}" if self.line else self.source


_DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
_ENCODER = msgspec.json.Encoder()


def encode_line(line: Line) -> bytes:
    """Return a line of JSON, without its end."""
    return _ENCODER.encode(line)


def decode_line(data: bytes, where: str) -> Line:
    """Return the content of a line.

    Raises:
        TraceError: It is not a line of a trace.
    """
    return decode_with(_DECODER, data, where)
