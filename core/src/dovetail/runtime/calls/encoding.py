"""Encoding of arguments and results as the API table says."""

from __future__ import annotations

import functools
import numbers
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw

from dovetail.container import MappedFile
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
    MemoryValue,
    NodeValue,
    ObservedValue,
    UnrecordedValue,
)
from dovetail.runtime.config import changed_settings
from dovetail.runtime.handle import Handle
from dovetail.runtime.host_memory import exported_array
from dovetail.runtime.memory import Memory

_PLAIN = re.compile(DTYPE)
_ENCODER = msgspec.json.Encoder()
_STATIC, _INPUT, _OUTPUT = Role
# The usual types first: a check against an abstract class takes 0.3 us.
_MAPPING, _SEQUENCE = (dict, Mapping), (tuple, list, Sequence)


class UnrecordedError(Exception):
    """A value is not what the table expects, so that a record cannot hold it."""


# Returns a value in its form for records; raises one of `UNFIT` if a record cannot hold it.
Encode = Callable[[Any, CallPayloads], Any]
UNFIT = (UnrecordedError, DovetailError, TypeError, ValueError, OverflowError)


def encode_arguments(
    function: str, given: Mapping[str, object], payloads: CallPayloads
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the arguments of a call in their form for records, and the types of the others.

    What is returned does not change when the arguments do.

    Args:
        function: Name of the call.
        given: The arguments by name.
        payloads: Receives their payloads.
    """
    encoders, nullable = _argument_encoders(function)
    found = dict(given)
    unrecorded: dict[str, str] = {}
    for name, value in given.items():
        if value is None and name in nullable:  # most arguments of most calls
            continue
        try:
            found[name] = encoders[name](value, payloads)
        except UNFIT:
            del found[name]
            unrecorded[name] = type(value).__name__
    return found, unrecorded


@functools.cache
def _argument_encoders(function: str) -> tuple[Mapping[str, Encode], frozenset[str]]:
    """Return the encoders of a call's arguments, and the names of those that may be None."""
    args = API[function].args
    nullable = frozenset(name for name, value in args.items() if value.nullable)
    return {name: _encoder(value) for name, value in args.items()}, nullable


def encode_result(function: str, result: object, payloads: CallPayloads) -> Any:
    """Return a result of a call in its form for records; None for one that a record cannot hold.

    Args:
        function: Name of the call; empty for the end of an asynchronous one.
        result: What it returned.
        payloads: Receives its payloads.
    """
    encode = _result_encoder(function)
    if encode is None or result is None:
        return None
    try:
        return encode(result, payloads)
    except UNFIT:
        return None


@functools.cache
def _result_encoder(function: str) -> Encode | None:
    """Return the encoder of a call's results; None if it has none."""
    value = API[function].result if function else Value(ArgKind.RESULTS)
    return None if value is None else _encoder(value)


def to_json(value: object) -> Raw | None:
    """Return a value in its form for records as JSON; None for one that JSON cannot express."""
    try:
        return Raw(_ENCODER.encode(value))
    except UNFIT:
        return None


def _encoder(value: Value) -> Encode:
    """Return the encoder of values as the table describes them, which are not None.

    It raises one of `UNFIT` for a value that is not what the table expects.
    """
    make = _ENCODERS[value.kind]
    encode = make(value)
    if not value.many:
        return encode
    may_have_none = value.kind is ArgKind.HANDLE

    def encode_all(given: Any, payloads: CallPayloads) -> Any:
        _require(isinstance(given, _SEQUENCE) and not isinstance(given, str | bytes))
        return tuple(
            None if each is None and may_have_none else encode(each, payloads) for each in given
        )

    return encode_all


def _require(condition: bool) -> None:
    if not condition:
        raise UnrecordedError


def _typed(
    kind: type | tuple[type, ...], convert: Callable[[Any], Any]
) -> Callable[[Value], Encode]:
    """Return the maker of an encoder of values of a type."""

    def encode(given: Any, _: CallPayloads) -> Any:
        if not isinstance(given, kind):
            raise UnrecordedError
        return convert(given)

    return lambda _: encode


def _handles(value: Value) -> Encode:
    kind = value.of

    def encode(given: Any, _: CallPayloads) -> int:
        if not isinstance(given, Handle) or given.kind != kind:
            raise UnrecordedError
        number: int = given.id
        return number

    return encode


def _enums(value: Value) -> Encode:
    kind = value.of

    def encode(given: Any, _: CallPayloads) -> Any:
        _require(isinstance(kind, type) and isinstance(given, kind))
        return given

    return encode


def _integer(given: Any, _: CallPayloads) -> int:
    """Return an integer; one of more than 64 bits, which no call allows, as the nearest."""
    if type(given) is int and -(2**63) <= given < 2**63:
        return given
    if type(given) is not int:
        _require(isinstance(given, numbers.Integral) and not isinstance(given, bool))
    return min(max(int(given), -(2**63)), 2**63 - 1)


def _encoding(given: Any, payloads: CallPayloads) -> Any:
    return dump_encoding(given, payloads, "")


def _data(given: Any, payloads: CallPayloads) -> BlobValue | Raw:
    if isinstance(given, Blob):
        return BlobValue(payloads.add(given))
    return _array(given, payloads)


def _array(given: Any, payloads: CallPayloads) -> Raw:
    return _array_value(given, payloads, _STATIC)


def _host_memory(given: Any, payloads: CallPayloads) -> Raw:
    """Return memory of the application as the array that a player registers instead."""
    return _array(exported_array(given), payloads)


def _array_value(given: Any, payloads: CallPayloads | None, role: Role) -> Raw:
    """Return an `ArrayValue` as JSON."""
    if not isinstance(given, np.ndarray):
        raise UnrecordedError
    index, flags = None if payloads is None else len(payloads.keys), given.flags
    value = _array_json(given.dtype, given.shape, index, flags.writeable, flags.c_contiguous)
    if payloads is not None:
        payloads.add_array(given, role)
    return value


@functools.lru_cache(maxsize=1 << 10)  # most calls have arrays like those of the calls before
def _array_json(dtype: np.dtype[Any], *rest: Any) -> Raw:
    if not _PLAIN.match(dtype.str):
        raise UnrecordedError
    return Raw(_ENCODER.encode(ArrayValue(dtype.str, *rest)))


def _buffers(given: Any, payloads: CallPayloads | None) -> dict[str, Any]:
    """Return arrays and memory; without payloads, their content does not matter."""
    if not isinstance(given, _MAPPING):
        raise UnrecordedError
    found: dict[str, Any] = {}
    for name, each in given.items():
        if not isinstance(name, str):
            raise UnrecordedError
        try:
            if isinstance(each, Memory):
                found[name] = _memory(each, payloads)
            else:
                found[name] = _array_value(each, payloads, _INPUT)
        except UnrecordedError:
            found[name] = UnrecordedValue(type(each).__name__)
    return found


def _memory(given: Memory, payloads: CallPayloads | None) -> MemoryValue:
    array = given.descriptor.array
    if payloads is None or array is None:
        return MemoryValue(given.id)
    return MemoryValue(given.id, payloads.add_array(array, _INPUT))


def _results(given: Any, payloads: CallPayloads) -> dict[str, Raw]:
    return {name: _array_value(each, payloads, _OUTPUT) for name, each in given.items()}


def _config(given: Any, _: CallPayloads) -> Any:
    """Return settings as plain data; of a Struct those that differ from its defaults."""
    _require(isinstance(given, msgspec.Struct | Mapping))
    if isinstance(given, msgspec.Struct):
        return changed_settings(given)
    plain = msgspec.to_builtins(dict(given))
    _require(all(isinstance(key, str) for key in plain))
    return plain


def _binary(given: Any, payloads: CallPayloads) -> BlobValue:
    """Return the bytes of a context binary or section, or of the file with them."""
    if isinstance(given, str | os.PathLike):
        return BlobValue(payloads.add(Blob(MappedFile(os.fspath(given)).data)))
    return BlobValue(payloads.add(Blob(np.frombuffer(given, np.uint8))))


def _encodings(given: Any, payloads: CallPayloads) -> Any:
    return {
        graph: {name: dump_encoding(each, payloads, "") for name, each in encodings.items()}
        for graph, encodings in given.items()
    }


def _params(given: Any, payloads: CallPayloads) -> Any:
    _require(isinstance(given, _MAPPING))
    return tuple(dump_param(name, each, payloads, "") for name, each in given.items())


def _node(given: Any, payloads: CallPayloads) -> NodeValue:
    _require(isinstance(given, Node))

    def entry(tensor: Tensor) -> Any:
        return dump_tensor(tensor, payloads, "")

    return NodeValue(
        given.name,
        given.package,
        given.op_type,
        tuple(None if t is None else entry(t) for t in given.inputs),
        tuple(entry(t) for t in given.outputs),
        _params(given.params, payloads),
        given.sources,
    )


def _observed(given: Any, _: CallPayloads) -> ObservedValue:
    _require(isinstance(given, Observed))
    return ObservedValue(tuple(sorted(given.names)), given.everything)


def _plain(encode: Encode) -> Callable[[Value], Encode]:
    """Return the maker of an encoder that is the same for all values of a kind."""
    return lambda _: encode


_ENCODERS: Mapping[ArgKind, Callable[[Value], Encode]] = {
    ArgKind.HANDLE: _handles,
    ArgKind.NAME: _typed(str, str),
    ArgKind.INTEGER: _plain(_integer),
    ArgKind.TRUTH: _typed((bool, np.bool_), bool),
    ArgKind.ENUM: _enums,
    ArgKind.ENCODING: _plain(_encoding),
    ArgKind.DATA: _plain(_data),
    ArgKind.ARRAY: _plain(_host_memory),
    ArgKind.INPUTS: _plain(_buffers),
    ArgKind.OUTPUTS: _plain(lambda given, _: _buffers(given, None)),
    ArgKind.RESULTS: _plain(_results),
    ArgKind.CONFIG: _plain(_config),
    ArgKind.PARAMS: _plain(_params),
    ArgKind.NODE: _plain(_node),
    ArgKind.BACKEND: _typed((str, type), BackendReference.of),
    ArgKind.OP_PACKAGE: _typed(OpPackage, PackageReference.of),
    ArgKind.OPS: _typed(OpRegistry, OpsReference.of),
    ArgKind.OBSERVED: _plain(_observed),
    ArgKind.CALLBACK: _plain(lambda _, __: True),
    ArgKind.EXECUTION: _plain(lambda _, __: True),
    ArgKind.FACTS: _plain(lambda given, _: msgspec.to_builtins(given)),
    ArgKind.EVENT: _plain(lambda given, _: msgspec.to_builtins(given)),
    ArgKind.BINARY: _plain(_binary),
    ArgKind.BUFFER: _typed(np.ndarray, lambda given: int(given.nbytes)),
    ArgKind.ENCODINGS: _plain(_encodings),
}
