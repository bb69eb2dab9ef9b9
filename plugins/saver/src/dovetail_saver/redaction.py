"""Redaction: payloads replaced by random data of the same statistics, so that a trace can be shown.

Values are drawn from a normal distribution with the mean, the deviation and the limits of the
recorded ones. Integer constants, which are indices and shapes, and params of nodes are kept: the
graph would be another one. Recorded outputs are left out, since they do not belong to the new data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dovetail.errors import TraceError
from dovetail.ir import Array, Blob, DType, pack, unpack
from dovetail.runtime.calls import CallRecord, CompletionRecord
from dovetail.runtime.calls.payloads import NOT_RECORDED
from dovetail.runtime.calls.values import (
    ArrayValue,
    BlobValue,
    MemoryValue,
    recorded_result,
    typed_arguments,
)
from dovetail_saver.choices import Redacted
from dovetail_saver.rewriting import TraceCopier, TraceRecord, rewrite
from dovetail_saver.trace import Entry, OpaqueRecord, Trace
from dovetail_saver.uses import returned_handle


def redact(path: Path, folder: Path, what: frozenset[Redacted], seed: int = 0) -> int:
    """Write a trace with random data and return the count of replaced payloads.

    Args:
        path: The trace.
        folder: Folder of the new trace, new or empty.
        what: What is replaced.
        seed: Seed of the random numbers; with the same one, the same trace is written.

    Raises:
        TraceError: The trace is invalid.
        ConfigError: The folder is in use.
        ContainerError: It cannot be written.
    """
    trace = Trace(path)
    redaction = _Redaction(trace, what, seed)
    rewrite(trace, folder, redaction.change)
    return redaction.count


class _Redaction:
    def __init__(self, trace: Trace, what: frozenset[Redacted], seed: int) -> None:
        self.count = 0
        self._trace = trace
        self._what = what
        self._seed = seed
        self._dtypes: dict[int, DType] = {}  # of tensors and memory, by handle
        self._keys: dict[tuple[str, str], str] = {}  # new keys by old ones and type

    def change(self, entry: Entry, copier: TraceCopier) -> TraceRecord:
        """Return a record with other payloads."""
        record = entry.record
        if isinstance(record, OpaqueRecord):
            return record
        keys = list(record.payloads)
        for index in _outputs(record, entry.where):
            keys[index] = NOT_RECORDED
        if isinstance(record, CallRecord):
            for index, dtype in self._replaced(record, entry.where):
                if index >= len(keys):
                    raise TraceError(f"the record has no payload {index}", where=entry.where)
                keys[index] = self._replacement(keys[index], dtype, copier, entry.where)
        return msgspec.structs.replace(record, payloads=tuple(keys))

    def _replaced(self, record: CallRecord, where: str) -> Iterator[tuple[int, DType | str]]:
        """Yield the payloads of a call that are replaced, each with the type of its elements."""
        arguments = typed_arguments(record, where)
        data = getattr(arguments, "data", None)
        dtype = getattr(arguments, "dtype", None)
        number = returned_handle(record, where)
        if number is not None and isinstance(dtype, DType):
            self._dtypes[number] = dtype
        if isinstance(data, ArrayValue | BlobValue) and Redacted.WEIGHTS in self._what:
            kind = dtype or self._dtypes.get(getattr(arguments, "tensor", -1))
            if isinstance(kind, DType) and _is_weight(kind) and data.payload is not None:
                yield data.payload, kind if isinstance(data, BlobValue) else data.dtype
        if Redacted.INPUTS in self._what:
            array = getattr(arguments, "array", None)
            if isinstance(array, ArrayValue) and array.payload is not None:
                yield array.payload, dtype if isinstance(dtype, DType) else array.dtype
            yield from self._inputs(getattr(arguments, "inputs", None))

    def _inputs(self, inputs: Any) -> Iterator[tuple[int, DType | str]]:
        for value in inputs.values() if isinstance(inputs, dict) else ():
            if isinstance(value, ArrayValue) and value.payload is not None:
                yield value.payload, value.dtype
            elif isinstance(value, MemoryValue) and value.payload is not None:
                dtype = self._dtypes.get(value.handle)
                if dtype is not None:
                    yield value.payload, dtype

    def _replacement(self, key: str, dtype: DType | str, copier: TraceCopier, where: str) -> str:
        blob = None if key == NOT_RECORDED else self._trace.payloads.get(key)
        if blob is None:
            return NOT_RECORDED if key == NOT_RECORDED else key
        known = self._keys.get((key, str(dtype)))
        if known is None:
            seed = hashlib.sha256(f"{self._seed} {key}".encode()).digest()
            generator = np.random.default_rng(np.frombuffer(seed, np.uint32))
            try:
                replaced = _replaced_blob(blob, dtype, generator)
            except (ValueError, UnicodeError) as error:
                raise TraceError(f"payload {key} is no array of {dtype}", where=where) from error
            known = self._keys[key, str(dtype)] = copier.add_payload(replaced)
            self.count += 1
        return known


def _replaced_blob(blob: Blob, dtype: DType | str, generator: np.random.Generator) -> Blob:
    """Return random data for a blob.

    Raises:
        ValueError: It has no whole number of elements.
    """
    if not isinstance(dtype, DType):
        return Blob(_random(blob.bytes.view(dtype), generator))
    if not dtype.bits:
        return blob
    return pack(_random(unpack(blob, dtype, (blob.nbytes * 8 // dtype.bits,)), generator), dtype)


def _is_weight(dtype: DType) -> bool:
    """Return whether constants of a type are weights, and no indices or shapes."""
    return dtype.is_fixed_point or dtype.is_float


def _outputs(record: CallRecord | CompletionRecord, where: str) -> Iterator[int]:
    """Yield the payloads of the outputs of a call."""
    result = recorded_result(record, where)
    if isinstance(result, dict):
        yield from (v.payload for v in result.values() if v.payload is not None)


def _random(stored: Array, generator: np.random.Generator) -> Array:
    """Return random values of the same type and statistics."""
    if not stored.size:
        return stored
    if stored.dtype.kind == "c":
        parts = [_random(part, generator) for part in (stored.real, stored.imag)]
        return (parts[0] + 1j * parts[1]).astype(stored.dtype)
    values = stored.astype(np.float64)
    values = values[np.isfinite(values)] if stored.dtype.kind == "f" else values
    if not values.size:
        return np.zeros_like(stored)
    low, high = values.min(), values.max()
    with np.errstate(over="ignore"):
        drawn = np.clip(generator.normal(values.mean(), values.std(), stored.shape), low, high)
    if stored.dtype.kind == "f":
        return drawn.astype(stored.dtype)
    if stored.dtype.kind == "b":
        drawn_bits: Array = generator.random(stored.shape) < values.mean()
        return drawn_bits
    limits = np.iinfo(stored.dtype)
    # the largest of 64 bits is no float: the nearest one is out of range
    top = float(limits.max) if stored.dtype.itemsize < 8 else np.nextafter(float(limits.max), 0)
    return np.clip(np.rint(drawn), float(limits.min), top).astype(stored.dtype)
