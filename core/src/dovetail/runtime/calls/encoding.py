"""Encoding of arguments and results as the API table says."""

from __future__ import annotations

import functools
import numbers
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw

from dovetail.container.entries import dump_encoding, dump_param, dump_tensor
from dovetail.errors import DovetailError
from dovetail.ir import Blob, Node, Tensor
from dovetail.ops import Observed, OpPackage, OpRegistry
from dovetail.runtime.api_table import API, ArgKind, Value
from dovetail.runtime.calls.payloads import CallPayloads, Role
from dovetail.runtime.calls.references import BackendReference, OpsReference, PackageReference
from dovetail.runtime.calls.values import (
    DTYPE,
    ArrayValue,
    BlobValue,
    Buffer,
    MemoryValue,
    NodeValue,
    ObservedValue,
    UnrecordedValue,
    arguments_type,
)
from dovetail.runtime.handle import Handle
from dovetail.runtime.memory import Memory

_PLAIN = re.compile(DTYPE)
_ENCODER = msgspec.json.Encoder()


class UnrecordedError(Exception):
    """A value is not what the table expects, so that a record cannot hold it."""


# Raised for values that a record cannot hold.
_UNFIT = (UnrecordedError, DovetailError, TypeError, ValueError, OverflowError)


def encode_arguments(
    function: str, given: Mapping[str, object], payloads: CallPayloads
) -> tuple[Raw, dict[str, str]]:
    """Return the arguments of a call, and the types of those that are not recorded.

    Args:
        function: Name of the call.
        given: The arguments by name.
        payloads: Receives their payloads.
    """
    found: dict[str, Any] = {}
    unrecorded: dict[str, str] = {}
    for name, value in API[function].args.items():
        if given[name] is None and value.nullable:  # most arguments of most calls
            found[name] = None
            continue
        try:
            found[name] = encode_value(value, given[name], payloads)
        except _UNFIT:
            unrecorded[name] = type(given[name]).__name__
    make = arguments_type(function)
    try:
        return Raw(_ENCODER.encode(make(**found))), unrecorded
    except _UNFIT:  # text or a number that JSON cannot express
        for name in [name for name in found if not _is_json(found[name])]:
            unrecorded[name] = type(given[name]).__name__
            del found[name]
        return Raw(_ENCODER.encode(make(**found))), unrecorded


def _is_json(value: object) -> bool:
    try:
        _ENCODER.encode(value)
    except _UNFIT:
        return False
    return True


def encode_result(value: Value | None, result: object, payloads: CallPayloads) -> Raw:
    """Return a result; null for one that a record cannot hold."""
    if value is None or result is None:
        return Raw(b"null")
    try:
        return Raw(_ENCODER.encode(encode_value(value, result, payloads)))
    except _UNFIT:
        return Raw(b"null")


def encode_value(value: Value, given: Any, payloads: CallPayloads) -> Any:
    """Return a value in its form for records.

    Raises:
        UnrecordedError: It is not what the table expects.
    """
    if given is None:
        _require(value.nullable)
        return None
    encode = _ENCODERS[value.kind]
    if not value.many:
        return encode(value, given, payloads)
    _require(isinstance(given, Sequence) and not isinstance(given, str | bytes))
    if value.kind is ArgKind.HANDLE:
        return tuple(None if each is None else _handle(value, each, payloads) for each in given)
    return tuple(encode(value, each, payloads) for each in given)


def _require(condition: bool) -> None:
    if not condition:
        raise UnrecordedError


def _typed(
    kind: type | tuple[type, ...], convert: Callable[[Any], Any]
) -> Callable[[Value, Any, CallPayloads], Any]:
    """Return an encoder of values of a type."""

    def encode(value: Value, given: Any, payloads: CallPayloads) -> Any:
        _require(isinstance(given, kind))
        return convert(given)

    return encode


def _handle(value: Value, given: Any, _: CallPayloads) -> int:
    _require(isinstance(given, Handle) and given.kind == value.of)
    number: int = given.id
    return number


def _integer(_: Value, given: Any, __: CallPayloads) -> int:
    """Return an integer; one of more than 64 bits, which no call allows, as the nearest."""
    _require(isinstance(given, numbers.Integral) and not isinstance(given, bool))
    return min(max(int(given), -(2**63)), 2**63 - 1)


def _enum(value: Value, given: Any, _: CallPayloads) -> Any:
    _require(isinstance(value.of, type) and isinstance(given, value.of))
    return given


def _encoding(_: Value, given: Any, payloads: CallPayloads) -> Any:
    return dump_encoding(given, payloads, "")


def _data(value: Value, given: Any, payloads: CallPayloads) -> ArrayValue | BlobValue:
    if isinstance(given, Blob):
        return BlobValue(payloads.add(given))
    return _array(value, given, payloads)


def _array(_: Value, given: Any, payloads: CallPayloads) -> ArrayValue:
    return _array_value(given, payloads, Role.STATIC)


def _array_value(given: Any, payloads: CallPayloads | None, role: Role) -> ArrayValue:
    _require(isinstance(given, np.ndarray))
    name, flags = _plain_name(given.dtype), given.flags
    _require(bool(name))
    return ArrayValue(
        name,
        given.shape,
        None if payloads is None else payloads.add_array(given, role),
        flags.writeable,
        flags.c_contiguous,
    )


@functools.cache
def _plain_name(dtype: np.dtype[Any]) -> str:
    """Return NumPy's name of a plain type; empty for another one."""
    return dtype.str if _PLAIN.match(dtype.str) else ""


def _buffers(_: Value, given: Any, payloads: CallPayloads | None) -> dict[str, Buffer]:
    _require(isinstance(given, Mapping))
    _require(all(isinstance(name, str) for name in given))
    return {name: _buffer(each, payloads) for name, each in given.items()}


def _buffer(given: Any, payloads: CallPayloads | None) -> Buffer:
    """Return a buffer; without payloads, one whose content does not matter."""
    if isinstance(given, Memory):
        array = given.descriptor.array
        if payloads is None or array is None:
            return MemoryValue(given.id)
        return MemoryValue(given.id, payloads.add_array(array, Role.INPUT))
    try:
        return _array_value(given, payloads, Role.INPUT)
    except UnrecordedError:
        return UnrecordedValue(type(given).__name__)


def _results(_: Value, given: Any, payloads: CallPayloads) -> dict[str, ArrayValue]:
    return {name: _array_value(each, payloads, Role.OUTPUT) for name, each in given.items()}


def _config(_: Value, given: Any, __: CallPayloads) -> Any:
    _require(isinstance(given, msgspec.Struct | Mapping))
    plain = msgspec.to_builtins(dict(given) if isinstance(given, Mapping) else given)
    _require(all(isinstance(key, str) for key in plain))
    return plain


def _params(_: Value, given: Any, payloads: CallPayloads) -> Any:
    _require(isinstance(given, Mapping))
    return tuple(dump_param(name, each, payloads, "") for name, each in given.items())


def _node(value: Value, given: Any, payloads: CallPayloads) -> NodeValue:
    _require(isinstance(given, Node))

    def entry(tensor: Tensor) -> Any:
        return dump_tensor(tensor, payloads, "")

    return NodeValue(
        given.name,
        given.package,
        given.op_type,
        tuple(None if t is None else entry(t) for t in given.inputs),
        tuple(entry(t) for t in given.outputs),
        _params(value, given.params, payloads),
        given.sources,
    )


def _observed(_: Value, given: Any, __: CallPayloads) -> ObservedValue:
    _require(isinstance(given, Observed))
    return ObservedValue(tuple(sorted(given.names)), given.everything)


_ENCODERS: Mapping[ArgKind, Callable[[Value, Any, CallPayloads], Any]] = {
    ArgKind.HANDLE: _handle,
    ArgKind.NAME: _typed(str, str),
    ArgKind.INTEGER: _integer,
    ArgKind.TRUTH: _typed((bool, np.bool_), bool),
    ArgKind.ENUM: _enum,
    ArgKind.ENCODING: _encoding,
    ArgKind.DATA: _data,
    ArgKind.ARRAY: _array,
    ArgKind.INPUTS: _buffers,
    ArgKind.OUTPUTS: lambda value, given, _: _buffers(value, given, None),
    ArgKind.RESULTS: _results,
    ArgKind.CONFIG: _config,
    ArgKind.PARAMS: _params,
    ArgKind.NODE: _node,
    ArgKind.BACKEND: _typed((str, type), BackendReference.of),
    ArgKind.OP_PACKAGE: _typed(OpPackage, PackageReference.of),
    ArgKind.OPS: _typed(OpRegistry, OpsReference.of),
    ArgKind.OBSERVED: _observed,
    ArgKind.CALLBACK: _typed(object, lambda _: True),
    ArgKind.EXECUTION: _typed(object, lambda _: True),
    ArgKind.FACTS: _typed(object, msgspec.to_builtins),
    ArgKind.EVENT: _typed(object, msgspec.to_builtins),
}
