"""Arguments of records, for the export."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from dovetail.container.entries import ArrayReader, load_encoding, load_param
from dovetail.errors import DovetailError, TraceError
from dovetail.ir import Param, Tensor
from dovetail.ir.storage import pack
from dovetail.runtime.api_table import API
from dovetail.runtime.calls import CallRecord
from dovetail.runtime.calls.payloads import RecordedBlobs
from dovetail.runtime.calls.values import (
    ArrayValue,
    BlobValue,
    ObservedValue,
    recorded_result,
    typed_arguments,
)
from dovetail_saver.vendor.forms import Part, Slot
from dovetail_saver.vendor.scope import UnsupportedError
from dovetail_saver.vendor.written_tensors import Buffer

# What the parts of these slots say.
_COVERED = {
    Slot.NEW_TENSOR: (
        "name",
        "dtype",
        "shape",
        "kind",
        "encoding",
        "data",
        "dynamic",
        "memory_type",
        "data_format",
    ),
    Slot.NODE: ("name", "package", "op_type", "inputs", "outputs", "params"),
    Slot.SIGNAL: ("kind", "timeout_us"),
    Slot.CREATED: ("name",),  # of a backend, which is the library that the program uses
}
_NOTHING = (None, (), False, ObservedValue())


@dataclass(slots=True)
class RecordedArguments:
    """The arguments of a recorded call.

    Attributes:
        function: Our name of the call.
        owner: The handle that it was called on.
        values: The arguments by name.
        blobs: The payloads.
        result: The handle that it returned, if it did.
        results: The arrays that it returned, if it did.
        where: The record, for errors.
        counts: Lengths of the arrays that were written.
    """

    function: str
    owner: int | None
    values: dict[str, Any]
    blobs: RecordedBlobs
    result: int | None
    results: dict[str, ArrayValue] | None
    where: str
    counts: list[int] = field(default_factory=list)

    def lost(self, parts: tuple[Part, ...]) -> Iterator[str]:
        """Yield the names of the arguments that a form has no room for."""
        covered = {part.name for part in parts}
        covered.update(name for part in parts for name in _COVERED.get(part.slot, ()))
        for name, value in self.values.items():
            if name not in covered and not any(value == nothing for nothing in _NOTHING):
                yield name

    def tensor(self) -> tuple[Tensor, Buffer | None]:
        """Return the tensor that the call creates, and its buffer.

        Raises:
            TraceError: Its payload or its encoding is damaged.
        """
        values = self.values
        encoding = values["encoding"]
        try:
            loaded = None
            if encoding is not None:
                loaded = load_encoding(encoding, ArrayReader(self.blobs, self.where))
            tensor = Tensor(
                values["name"],
                values["dtype"],
                values["shape"],
                values["kind"],
                encoding=loaded,
                dynamic=values.get("dynamic") or (),
                memory_type=values.get("memory_type", 0),
                data_format=values.get("data_format", 0),
            )
            buffer = self._data(tensor, values["data"])
        except TraceError:
            raise
        except (DovetailError, ValueError, TypeError) as error:
            raise UnsupportedError(f"the tensor cannot be read: {error}") from error
        return tensor, buffer

    def _data(self, tensor: Tensor, given: ArrayValue | BlobValue | None) -> Buffer | None:
        if given is None:
            return None
        index = given.payload
        blob = None if index is None else self.blobs.find(index)
        if blob is None:
            return Buffer(tensor.dtype.nbytes(tensor.shape), None)
        if isinstance(given, ArrayValue):
            array = np.array(blob.bytes).view(given.dtype).reshape(given.shape)
            blob = pack(array, tensor.dtype)
        tensor.data = blob
        return Buffer(blob.nbytes, blob)

    def params(self) -> list[tuple[str, Param]]:
        """Return the params of a node.

        Raises:
            UnsupportedError: One cannot be read.
        """
        try:
            return [
                (each.name, load_param(each, self.blobs, self.where))
                for each in self.values["params"] or ()
            ]
        except TraceError:
            raise
        except DovetailError as error:
            raise UnsupportedError(f"a param cannot be read: {error}") from error


def recorded_arguments(record: CallRecord, blobs: RecordedBlobs, where: str) -> RecordedArguments:
    """Return the arguments of a call.

    Raises:
        TraceError: They are not those of the call.
    """
    found = typed_arguments(record, where)
    values = {name: getattr(found, name) for name in API[record.function].args}
    if missing := [name for name, value in values.items() if value is msgspec.UNSET]:
        raise TraceError(f"argument '{missing[0]}' was not recorded", where=where)
    result = recorded_result(record, where)
    is_handle = isinstance(result, int) and not isinstance(result, bool)
    return RecordedArguments(
        record.function,
        record.owner,
        values,
        blobs,
        result if is_handle else None,
        result if isinstance(result, dict) else None,
        where,
    )
