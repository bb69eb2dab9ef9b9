"""Types of values in records, and the types of a call's arguments built from the API table."""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from dovetail.container.entries import Dims, EncodingEntry, Index, ParamEntry, TensorEntry
from dovetail.errors import TraceError
from dovetail.runtime.api_table import API, REQUIRED, ArgKind, Value
from dovetail.runtime.calls.record import CallRecord, Number, Record
from dovetail.runtime.calls.references import BackendReference, OpsReference, PackageReference
from dovetail.runtime.measurements import EventUnit

DTYPE = r"\A([|<>=]?(b1|[iu][1248]|f[248]|c(8|16)))\Z"  # NumPy's names of plain types


class _Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of all of them."""


class ArrayValue(_Struct, frozen=True, tag_field="is", tag="array"):
    """A NumPy array.

    Attributes:
        dtype: NumPy's name of its type.
        shape: Its shape.
        payload: Index of its elements in C order; None if they do not matter.
        writeable: Whether it can be written.
        contiguous: Whether it is C-contiguous.
    """

    dtype: Annotated[str, Meta(pattern=DTYPE)]
    shape: Dims
    payload: Index | None = None
    writeable: bool = True
    contiguous: bool = True


class MemoryValue(_Struct, frozen=True, tag_field="is", tag="memory"):
    """Registered memory.

    Attributes:
        handle: The memory handle.
        payload: Index of its content at the call; None if it does not matter.
    """

    handle: Number
    payload: Index | None = None


class BlobValue(_Struct, frozen=True, tag_field="is", tag="blob"):
    """A blob."""

    payload: Index


class UnrecordedValue(_Struct, frozen=True, tag_field="is", tag="unrecorded"):
    """An object that a buffer cannot be; `type` is the name of its type."""

    type: str


Buffer = ArrayValue | MemoryValue | UnrecordedValue


class NodeValue(_Struct, frozen=True):
    """A node with its tensors, outside a graph."""

    name: str
    package: str
    op_type: str
    inputs: tuple[TensorEntry | None, ...]
    outputs: tuple[TensorEntry, ...]
    params: tuple[ParamEntry, ...] = ()
    sources: tuple[str, ...] = ()


class ObservedValue(_Struct, frozen=True):
    """Observed tensors."""

    names: tuple[str, ...] = ()
    everything: bool = False


class EventValue(msgspec.Struct, frozen=True):
    """A measurement; other fields of its record are ignored."""

    type: int
    identifier: str
    value: float
    unit: int = EventUnit.MICROSEC
    children: tuple[EventValue, ...] = ()


_RESULTS = Value(ArgKind.RESULTS)
_Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_TYPES: Mapping[ArgKind, Any] = {
    ArgKind.HANDLE: Number,
    ArgKind.NAME: str,
    ArgKind.INTEGER: _Integer,
    ArgKind.TRUTH: bool,
    ArgKind.ENCODING: EncodingEntry,
    ArgKind.DATA: ArrayValue | BlobValue,
    ArgKind.ARRAY: ArrayValue,
    ArgKind.INPUTS: dict[str, Buffer],
    ArgKind.OUTPUTS: dict[str, Buffer],
    ArgKind.RESULTS: dict[str, ArrayValue],
    ArgKind.CONFIG: dict[str, Any],
    ArgKind.PARAMS: tuple[ParamEntry, ...],
    ArgKind.NODE: NodeValue,
    ArgKind.BACKEND: BackendReference,
    ArgKind.OP_PACKAGE: PackageReference,
    ArgKind.OPS: OpsReference,
    ArgKind.OBSERVED: ObservedValue,
    ArgKind.CALLBACK: bool,
    ArgKind.EXECUTION: bool,
    ArgKind.FACTS: Any,
    ArgKind.EVENT: EventValue,
    ArgKind.BINARY: BlobValue,
    ArgKind.BUFFER: Annotated[int, Meta(ge=0, le=2**63 - 1)],
    ArgKind.ENCODINGS: dict[str, dict[str, EncodingEntry]],
}


def type_of(value: Value) -> Any:
    """Return the type that a value of the API table has in records."""
    found: Any = value.of if value.kind is ArgKind.ENUM else _TYPES[value.kind]
    if value.many:
        item = found | None if value.kind is ArgKind.HANDLE else found
        found = types.GenericAlias(tuple, (item, ...))
    return found | None if value.nullable else found


@functools.cache
def arguments_type(function: str) -> type[msgspec.Struct]:
    """Return the Struct of a call's arguments, which may be UNSET."""
    fields = [
        (name, type_of(value) | UnsetType, _default(value))
        for name, value in API[function].args.items()
    ]
    return msgspec.defstruct(
        function, fields, frozen=True, forbid_unknown_fields=True, kw_only=True
    )


def _default(value: Value) -> Any:
    """Return the value of an argument that a record lacks; UNSET if it has to be there."""
    if value.nullable:
        return None
    return UNSET if value.default is REQUIRED else value.default


@functools.cache
def arguments_decoder(function: str) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a call's arguments."""
    return msgspec.json.Decoder(arguments_type(function))


def typed_arguments(record: CallRecord, where: str) -> Any:
    """Return the arguments of a call as a Struct.

    Arguments that a record lacks have the defaults of the call: older records do not have those
    that were added later. Arguments that could not be recorded are UNSET.

    Raises:
        TraceError: They are not those of the call.
    """
    try:
        found = arguments_decoder(record.function).decode(record.arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise TraceError(f"wrong arguments: {error}", where=where) from error
    args, unrecorded = API[record.function].args, record.unrecorded
    if odd := unrecorded.keys() - args.keys():
        raise TraceError(f"'{record.function}' has no argument '{min(odd)}'", where=where)
    for name, value in args.items():
        given = getattr(found, name)
        if name in unrecorded and given != _default(value):
            raise TraceError(f"argument '{name}' is given twice", where=where)
        if name not in unrecorded and given is UNSET:
            raise TraceError(f"argument '{name}' is missing", where=where)
    return msgspec.structs.replace(found, **dict.fromkeys(unrecorded, UNSET))


def result_value(record: Record) -> Value | None:
    """Return the type of a record's result."""
    return API[record.function].result if isinstance(record, CallRecord) else _RESULTS


def recorded_result(record: Record, where: str) -> Any:
    """Return the result in a record; None if there is none.

    Raises:
        TraceError: It is not what the call returns, or refers to a payload that does not exist.
    """
    try:
        found = _result_decoder(result_value(record)).decode(record.result)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise TraceError(f"wrong result: {error}", where=where) from error
    if isinstance(found, dict):
        count = len(record.payloads)
        used = (v.payload for v in found.values() if isinstance(v, ArrayValue))
        if any(index is not None and index >= count for index in used):
            raise TraceError("the result refers to a payload that does not exist", where=where)
    return found


@functools.cache
def _result_decoder(value: Value | None) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(None if value is None else type_of(value) | None)
