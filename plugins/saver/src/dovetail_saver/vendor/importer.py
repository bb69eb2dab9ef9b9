"""Import of Saver programs as traces: parsed as data, never compiled or run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from dovetail.files import staged_folder, unwritable
from dovetail.ir import Blob
from dovetail.runtime.api_table import API
from dovetail.runtime.calls import BackendReference, CallRecord, Role
from dovetail.runtime.calls.payloads import CallPayloads
from dovetail.runtime.calls.values import arguments_decoder, arguments_type
from dovetail_saver.choices import DEFAULT_BACKEND
from dovetail_saver.trace import Header, OpaqueRecord, TraceWriter, require_new
from dovetail_saver.vendor.arguments import Arguments, read_arguments
from dovetail_saver.vendor.forms import FORMS, FUNCTIONS, IGNORED, Slot
from dovetail_saver.vendor.scope import Handle, Scope, UnsupportedError
from dovetail_saver.vendor.source import (
    Call,
    Comment,
    Declared,
    Read,
    Source,
    Statement,
    map_file,
)
from dovetail_saver.vendor.summary import Summary
from dovetail_saver.vendor.tensors import CreatedTensors

MAX_TEXT = 1 << 12  # bytes of an opaque record's text

# Statements that are not about the session.
_HOUSEKEEPING = (b"return", b"error", b"fclose")

_ENCODER = msgspec.json.Encoder()
_OPAQUE = msgspec.json.Decoder(OpaqueRecord)


def import_program(
    program: str | os.PathLike[str],
    params: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    backend: str = DEFAULT_BACKEND,
) -> Summary:
    """Write the trace of a Saver program.

    Args:
        program: The C program, `saver_output.c`.
        params: Its payloads, `params.bin`.
        folder: A folder that does not exist, or is empty.
        backend: Name of the backend in the trace; the program does not say which was meant.

    Raises:
        TraceError: The program is not one of this form, or its payloads are incomplete. Nothing is
            written.
        ConfigError: The folder is in use.
        ContainerError: The trace cannot be written.
    """
    source = Source(Path(program))
    scope = Scope(source, map_file(Path(params)))
    target = Path(folder)
    require_new(target)
    name = Path(target.name)
    with staged_folder(target.parent) as staging:
        summary = _write(staging.new / name, source, scope, backend)
        staging.commit([name])
    return summary


def _write(folder: Path, source: Source, scope: Scope, backend: str) -> Summary:
    header = msgspec.structs.replace(Header.current(), backends=(backend,))
    try:
        with TraceWriter(folder, header) as writer:
            importer = _Importer(scope, writer, backend)
            for statement in source:
                importer.take(statement)
            importer.summary.unread_bytes = scope.unread
    except OSError as error:
        raise unwritable(folder, error) from error
    return importer.summary


class _Importer:
    """Writes the records of statements."""

    def __init__(self, scope: Scope, writer: TraceWriter, backend: str) -> None:
        self.summary = Summary()
        self._scope = scope
        self._tensors = CreatedTensors(scope)
        self._writer = writer
        self._backend_name = backend
        self._backend: int | None = None  # the last that was created
        self._calls = 0
        self._handles = 0

    def take(self, statement: Statement) -> None:
        """Write the record of a statement, or remember what it declares."""
        if isinstance(statement, Declared):
            self._scope.declare(statement.name, statement.declaration)
        elif isinstance(statement, Read):
            self._scope.read(statement)
        elif isinstance(statement, Call):
            self._call(statement)
        elif isinstance(statement, Comment):
            self._comment(statement)
        elif not statement.text.startswith(_HOUSEKEEPING):
            self._leave_out(statement.offset, _short(statement.text))

    def _call(self, call: Call) -> None:
        if call.name in IGNORED:
            return
        function = FUNCTIONS.get(call.name)
        given = self._scope.parse(call.arguments, call.offset)
        if function is None:
            self._opaque(call, "no such call in our API")
            return
        parts = FORMS[function]
        try:
            if len(given) != len(parts):
                raise UnsupportedError(f"expected {len(parts)} arguments, got {len(given)}")
            waiting = _Waiting()
            found = read_arguments(function, self._scope, given, waiting, self._tensors)
            for blob, role in waiting.blobs:
                self._writer.payloads.add(blob, role)
                blob.release()
            self._record(call, found)
        except UnsupportedError as reason:
            self._opaque(call, str(reason))
            for part, at in zip(parts, given, strict=False):
                if part.slot in (Slot.CREATED, Slot.NEW_TENSOR):
                    self._scope.assign(at, None)

    def _record(self, call: Call, found: Arguments) -> None:
        api, result = API[found.function], found.result
        owner = self._backend if found.owner is None and api.owner == "backend" else found.owner
        if api.owner and owner is None:
            raise self._scope.error(f"'{call.name}' has no {api.owner}", call.offset)
        if found.function == "backend_create":
            found.values["name"] = BackendReference.of(self._backend_name)
        for note in found.notes:
            self._opaque(call, note)
        if found.created is not None and api.result is not None:
            self._handles += 1
            result = self._handles
            self._scope.assign(found.created, Handle(str(api.result.of), result))
            if found.function == "backend_create":
                self._backend = result
            if found.tensor is not None:
                self._tensors.add(result, owner, found.tensor)
        self._write(found.function, call, owner, found.values, result, found.payloads)

    def _write(
        self,
        function: str,
        call: Call,
        owner: int | None,
        arguments: dict[str, Any],
        result: Any,
        payloads: CallPayloads,
    ) -> None:
        try:
            encoded = _ENCODER.encode(arguments_type(function)(**arguments))
            arguments_decoder(function).decode(encoded)
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
            raise self._scope.error(f"'{call.name}': {error}", call.offset) from error
        record = CallRecord(
            number=self._calls,
            function=function,
            owner=owner,
            arguments=Raw(encoded),
            result=Raw(_ENCODER.encode(result)),
            payloads=tuple(payloads.keys),
        )
        self._writer.write(record)
        self._calls += 1
        self.summary.calls[function] += 1

    # -- what our API does not have --------------------------------------------------------------

    def _opaque(self, call: Call, reason: str) -> None:
        text = f"{call.text[:MAX_TEXT].decode(errors='replace')}: {reason}"
        self._writer.write(OpaqueRecord(number=self._calls, name=call.name, text=text))
        self._calls += 1
        self._leave_out(call.offset, f"{call.name}: {reason}")

    def _comment(self, comment: Comment) -> None:
        try:
            found = _OPAQUE.decode(comment.text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise self._scope.error(f"not a record: {error}", comment.offset) from error
        self._writer.write(msgspec.structs.replace(found, number=self._calls, thread=0))
        self._calls += 1
        self._leave_out(comment.offset, found.name)

    def _leave_out(self, offset: int, what: str) -> None:
        self.summary.leave_out(lambda: self._scope.source.where(offset), what)


class _Waiting:
    """Payloads of a call that may still turn out to be unsupported.

    Attributes:
        blobs: The payloads with their roles.
        wanted: All.
    """

    wanted: Sequence[bool] = (True, True, True)

    def __init__(self) -> None:
        self.blobs: list[tuple[Blob, Role]] = []

    def add(self, blob: Blob, role: Role) -> str:
        """Remember a payload and return its key."""
        self.blobs.append((blob, role))
        return blob.hash


def _short(text: bytes) -> str:
    shown = text[:120].decode(errors="replace")
    return " ".join(shown.split())
