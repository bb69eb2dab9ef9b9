"""Records: one line of JSON for each call, and one for each asynchronous end."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Raw

from dovetail.errors import DovetailError, TraceError
from dovetail.runtime.api_table import API

MAX_LINE = 1 << 28  # bytes

Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
# A content hash, or `NOT_RECORDED`. Keys are only looked up, so that a wrong one finds nothing; a
# pattern would take more time than all the rest of a record.
Key = Annotated[str, Meta(max_length=64)]
NULL = Raw(b"null")


class ErrorRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The error of a call.

    Attributes:
        type: Name of its class.
        code: Its code; empty if it is not one of dovetail's errors.
        message: Its message.
        where: The object that it names.
    """

    type: str
    code: str = ""
    message: str = ""
    where: str = ""

    @classmethod
    def of(cls, error: BaseException) -> ErrorRecord:
        """Return the record of an error."""
        name = type(error).__name__
        if isinstance(error, DovetailError):
            return cls(name, error.code, _text(error.message), _text(error.where))
        return cls(name, message=_text(str(error)))


class _Record(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="record",
    kw_only=True,
):
    """Base of the records.

    Attributes:
        number: Number of the call in its process.
        thread: Number of the thread, in order of first use.
        payloads: Keys of the payloads that it refers to by index.
        result: The result as the API table says; null after an error.
        error: The error that was raised instead.
    """

    number: Number
    thread: Number = 0
    payloads: tuple[Key, ...] = ()
    result: Raw = NULL
    error: ErrorRecord | None = None


class CallRecord(_Record, frozen=True, tag="call", kw_only=True):
    """A call that has returned.

    Attributes:
        function: Its name in the API table.
        owner: The handle that it was called on.
        arguments: An object with all arguments, as the API table says.
        unrecorded: Names of the types of arguments that the table does not expect, by argument;
            they are not among the arguments.
        start_ns, duration_ns: Its times; the clock's zero is arbitrary.
    """

    function: str
    owner: Number | None = None
    arguments: Raw = Raw(b"{}")
    unrecorded: dict[str, str] = {}  # copied for each record by msgspec
    start_ns: int = 0
    duration_ns: int = 0


class CompletionRecord(_Record, frozen=True, tag="completion", kw_only=True):
    """The end of an asynchronous execution; `number` is that of the call."""


Record = CallRecord | CompletionRecord
Line = TypeVar("Line")

_DECODER: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)
_ENCODER = msgspec.json.Encoder()


def encode_record(record: Record) -> bytes:
    """Return a record as a line of JSON, without the end of the line."""
    return _ENCODER.encode(record)


def decode_record(line: bytes | memoryview, where: str = "") -> Record:
    """Return the record of a line.

    Args:
        line: The line.
        where: Its file and number, for errors.

    Raises:
        TraceError: The line is not a record of a call of the API table.
    """
    return decode_with(_DECODER, line, where)


def decode_with(decoder: msgspec.json.Decoder[Line], line: bytes | memoryview, where: str) -> Line:
    """Return the content of a line, which may be a record.

    Args:
        decoder: Decodes it.
        line: The line.
        where: Its file and number, for errors.

    Raises:
        TraceError: The decoder rejects the line, or it is a record of a call that does not exist.
    """
    if len(line) > MAX_LINE:
        raise TraceError(f"a record of {len(line)} bytes exceeds {MAX_LINE}", where=where)
    try:
        found = decoder.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise TraceError(f"not a record of a call: {error}", where=where) from error
    if isinstance(found, CallRecord) and found.function not in API:
        raise TraceError(f"unknown call '{found.function}'", where=where)
    return found


def _text(text: str) -> str:
    """Return a text that UTF-8 can express."""
    return text.encode(errors="replace").decode()
