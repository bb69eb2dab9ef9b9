"""Decoding of arguments as the API table says, into objects that the calls accept."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from dovetail.container.entries import ArrayReader, load_encoding, load_param, load_tensor
from dovetail.errors import DovetailError, TraceError
from dovetail.ir import Array, Blob, Node, Param
from dovetail.ops import Observed
from dovetail.runtime.api_table import API, ArgKind, Value
from dovetail.runtime.calls.payloads import RecordedBlobs
from dovetail.runtime.calls.record import CallRecord
from dovetail.runtime.calls.resolver import Resolver
from dovetail.runtime.calls.values import (
    ArrayValue,
    BlobValue,
    Buffer,
    MemoryValue,
    NodeValue,
    UnrecordedValue,
    typed_arguments,
)
from dovetail.runtime.handle import Handle
from dovetail.runtime.memory import Memory


class Unrecorded:
    """A replacement for an argument of a type that the table does not expect."""

    def __repr__(self) -> str:
        return "an argument that was not recorded"


class Ignored:
    """A callback and a watch that do nothing."""

    def __call__(self, *_: object) -> None:
        """Do nothing."""

    def step_finished(self, *_: object) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The objects that the arguments of a record refer to.

    Attributes:
        handles: Handles by their recorded numbers.
        blobs: Payloads of the record.
        resolver: Finds backends and op packages.
        limit_bytes: Maximum size of an array.
        where: The record, for errors.
    """

    handles: Mapping[int, Handle]
    blobs: RecordedBlobs
    resolver: Resolver
    limit_bytes: int
    where: str

    def handle(self, number: int) -> Handle:
        """Return a handle.

        Raises:
            TraceError: No record has created it.
        """
        if number not in self.handles:
            raise self.error(f"no call has returned the handle {number}")
        return self.handles[number]

    def limited(self, nbytes: int) -> int:
        """Return a size after checking it.

        Raises:
            TraceError: It exceeds the limit.
        """
        if nbytes > self.limit_bytes:
            raise self.error(f"a buffer of {nbytes} bytes exceeds the limit")
        return nbytes

    def error(self, message: str) -> TraceError:
        """Return an error of the record."""
        return TraceError(message, where=self.where)


def decode_arguments(record: CallRecord, scene: Scene) -> dict[str, Any]:
    """Return the arguments of a call.

    Raises:
        TraceError: They are not those of the call, or refer to what does not exist.
    """
    found = typed_arguments(record, scene.where)
    arguments: dict[str, Any] = {}
    for name, value in API[record.function].args.items():
        given = getattr(found, name)
        arguments[name] = Unrecorded() if given is msgspec.UNSET else _decoded(value, given, scene)
    return arguments


def _decoded(value: Value, given: Any, scene: Scene) -> Any:
    if given is None:
        return None
    decode = _DECODERS.get(value.kind)
    if decode is None:
        return given
    try:
        if value.many:
            return tuple(None if each is None else decode(each, scene) for each in given)
        return decode(given, scene)
    except TraceError:
        raise
    except (DovetailError, ValueError, TypeError, OverflowError, MemoryError) as error:
        raise scene.error(f"an argument cannot be read: {error}") from error


def _data(given: ArrayValue | BlobValue, scene: Scene) -> Array | Blob:
    return scene.blobs[given.payload] if isinstance(given, BlobValue) else _array(given, scene)


def _array(given: ArrayValue, scene: Scene) -> Array:
    """Return an array like the recorded one, zeros if its content was not recorded."""
    dtype = np.dtype(given.dtype)
    count = math.prod(given.shape)
    if max(count, math.prod(size for size in given.shape if size)) > scene.limit_bytes:
        raise scene.error(f"an array of shape {given.shape} exceeds the limit")
    if count * dtype.itemsize > scene.limit_bytes:
        raise scene.error(f"an array of {count * dtype.itemsize} bytes exceeds the limit")
    blob = None if given.payload is None else scene.blobs.find(given.payload)
    if blob is None:
        array = np.zeros(given.shape, dtype)
    elif blob.nbytes != count * dtype.itemsize:
        raise scene.error(f"a payload of {blob.nbytes} bytes is no {given.dtype} {given.shape}")
    else:
        array = np.array(blob.bytes).view(dtype).reshape(given.shape)
    if not given.contiguous:
        array = _strided(array)
    array.flags.writeable = given.writeable
    return array


def _strided(array: Array) -> Array:
    """Return the same elements in memory with gaps between them."""
    wide = np.zeros((*array.shape, 2), array.dtype)
    wide[..., 0] = array
    return wide[..., 0]


def _buffers(given: Mapping[str, Buffer], scene: Scene) -> dict[str, Any]:
    return {name: _buffer(each, scene) for name, each in given.items()}


def _buffer(given: Buffer, scene: Scene) -> Any:
    if isinstance(given, UnrecordedValue):
        return Unrecorded()
    if isinstance(given, ArrayValue):
        return _array(given, scene)
    memory = scene.handle(given.handle)
    if isinstance(memory, Memory) and given.payload is not None:
        _fill(memory, scene.blobs.find(given.payload), given, scene)
    return memory


def _fill(memory: Memory, blob: Blob | None, given: MemoryValue, scene: Scene) -> None:
    """Write the recorded content into registered memory."""
    array = memory.descriptor.array
    if blob is None or array is None or not array.flags.writeable:
        return
    if blob.nbytes != array.nbytes:
        raise scene.error(f"the content of memory handle {given.handle} has another size")
    array[...] = blob.bytes.view(array.dtype).reshape(array.shape)


def _params(given: Any, scene: Scene) -> dict[str, Param]:
    return {each.name: load_param(each, scene.blobs, scene.where) for each in given}


def _node(given: NodeValue, scene: Scene) -> Node:
    def tensor(entry: Any) -> Any:
        return load_tensor(entry, scene.blobs, scene.where)

    return Node(
        given.name,
        given.package,
        given.op_type,
        [None if each is None else tensor(each) for each in given.inputs],
        [tensor(each) for each in given.outputs],
        _params(given.params, scene),
        sources=given.sources,
    )


# Kinds that are not listed are passed as they are in the record.
_DECODERS: Mapping[ArgKind, Callable[[Any, Scene], Any]] = {
    ArgKind.HANDLE: lambda given, scene: scene.handle(given),
    ArgKind.ENCODING: lambda given, scene: load_encoding(
        given, ArrayReader(scene.blobs, scene.where)
    ),
    ArgKind.DATA: _data,
    ArgKind.ARRAY: _array,
    ArgKind.INPUTS: _buffers,
    ArgKind.OUTPUTS: _buffers,
    ArgKind.PARAMS: _params,
    ArgKind.NODE: _node,
    ArgKind.OP_PACKAGE: lambda given, scene: scene.resolver.op_package(given),
    ArgKind.OPS: lambda given, scene: scene.resolver.ops(given),
    ArgKind.OBSERVED: lambda given, _: Observed(frozenset(given.names), given.everything),
    ArgKind.CALLBACK: lambda given, _: Ignored() if given else None,
    ArgKind.BINARY: lambda given, scene: scene.blobs[given.payload].bytes,
    ArgKind.BUFFER: lambda given, scene: np.empty(scene.limited(given), np.uint8),
}
