"""Tensors and params of Saver programs."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from dovetail.container.entries import ParamEntry, ScalarEntry, TensorEntry, dump_encoding
from dovetail.csource.structs import CLIENT_BUFFER, PARAM, SCALAR, SPARSE, TENSOR, UINT
from dovetail.ir import Blob, DataFormat, DType, Encoding, MemoryType, Shape, TensorKind
from dovetail.ir.storage import bfloat16_to_float32
from dovetail.runtime.calls.payloads import CallPayloads
from dovetail_saver.vendor.encodings import read_encoding
from dovetail_saver.vendor.scope import At, Scope, UnsupportedError

MAX_RANK = 64

_VERSIONS: Mapping[int, bytes] = {1: b"Qnn_TensorV1_t", 2: b"Qnn_TensorV2_t"}
_ID = (b".v1.id", b".v2.id")
_UNDEFINED = 0x7FFFFFFF

# Scalars that C gives as their bits.
_BITS: Mapping[DType, Callable[[int], float]] = {
    DType.FLOAT_16: lambda bits: float(np.uint16(bits).view(np.float16)),
    DType.BFLOAT_16: lambda bits: float(bfloat16_to_float32(np.array(bits, np.uint16))),
}

E = TypeVar("E", bound=enum.IntEnum)


@dataclass(frozen=True, slots=True)
class ProgramTensor:
    """A tensor of a program.

    Attributes:
        name, dtype, shape, kind, encoding, memory_type, data_format, dynamic: As in
            `dovetail.ir.Tensor`.
        data: Its bytes; None if it has no buffer, or one that the program does not read.
        has_buffer: Whether it has a buffer.
        is_sparse: Whether it has params of sparsity, which our tensors do not have.
        offset: Its position in the program.
    """

    name: str
    dtype: DType
    shape: Shape
    kind: TensorKind
    encoding: Encoding | None
    memory_type: MemoryType
    data_format: DataFormat
    dynamic: tuple[bool, ...]
    data: Blob | None
    has_buffer: bool
    is_sparse: bool
    offset: int

    def entry(self, payloads: CallPayloads) -> TensorEntry:
        """Return its form in records."""
        return TensorEntry(
            self.name,
            self.dtype,
            self.shape,
            self.kind,
            None if self.encoding is None else dump_encoding(self.encoding, payloads, self.name),
            None if self.data is None else payloads.add(self.data),
            dynamic=self.dynamic,
            memory_type=self.memory_type,
            data_format=self.data_format,
        )


@dataclass(frozen=True, slots=True)
class CreatedTensor:
    """A tensor that a call has created.

    Attributes:
        number: Its handle.
        owner: The handle of its graph or context.
        tensor: The tensor at the time of the call.
    """

    number: int
    owner: int | None
    tensor: ProgramTensor


class CreatedTensors:
    """The tensors that calls have created.

    Args:
        scope: The variables of the program.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._found: dict[int, CreatedTensor] = {}
        self._names: dict[tuple[int | None, str], CreatedTensor] = {}

    def add(self, number: int, owner: int | None, tensor: ProgramTensor) -> None:
        """Remember a tensor."""
        made = CreatedTensor(number, owner, tensor)
        self._found[number] = made
        self._names.setdefault((owner, tensor.name), made)

    def used(self, at: At) -> CreatedTensor | None:
        """Return the tensor that a use refers to; None for an omitted input.

        Raises:
            TraceError: No call has created it.
            UnsupportedError: Its creation was not imported.
        """
        variable = _created_variable(self._scope, at)
        number = None if variable is None else self._scope.handle(variable, "tensor")
        return None if number is None else self._found[number]

    def buffer(self, at: At, graph: int | None) -> ProgramTensor:
        """Return a tensor with the buffer of an execution.

        Raises:
            TraceError: No call has created it.
            UnsupportedError: It does not match the tensor of its graph, or has no buffer.
        """
        found = read_tensor(self._scope, at)
        used = self.used(at)
        if used is None or self._names.get((graph, found.name)) is not used:
            raise UnsupportedError(f"tensor '{found.name}' is not the one of its graph")
        wanted = used.tensor
        fits = found.shape == wanted.shape or (
            bool(wanted.dynamic) and len(found.shape) == len(wanted.shape)
        )
        if found.dtype is not wanted.dtype or not fits:
            raise UnsupportedError(f"the buffer of '{found.name}' does not match the tensor")
        if not found.has_buffer:
            raise UnsupportedError(f"tensor '{found.name}' has no buffer in the program")
        return found


def _created_variable(scope: Scope, at: At) -> At | None:
    """Return the variable of the tensor that a use refers to; None for an omitted input.

    A use is the variable itself, or another tensor with its id.

    Raises:
        TraceError: It refers to no variable.
    """
    if scope.is_created(at):
        return at
    _, fields = _fields(scope, at)
    identity = fields[0]
    if isinstance(identity.value, bytes) and identity.value.endswith(_ID):
        return At(identity.value[:-6], identity.offset)
    if fields[2].value == TensorKind.NULL:
        return None
    raise scope.error("the tensor has no id of a tensor that was created", identity.offset)


def read_tensor(scope: Scope, at: At) -> ProgramTensor:
    """Return a tensor.

    Raises:
        TraceError: It is not well formed.
        UnsupportedError: It has what our tensors do not have.
    """
    version, fields = _fields(scope, at)
    _, name, kind, data_format, dtype, quantization, rank, dimensions, memory, buffer = fields[:10]
    shape = _shape(scope, rank, dimensions)
    found = _enum(scope, dtype, DType)
    is_sparse = False
    dynamic: tuple[bool, ...] = ()
    if version == 2:
        if fields[10].value is not None:
            dynamic = tuple(n != 0 for n in scope.numbers(fields[10], (b"uint8_t",), len(shape)))
            dynamic = dynamic if any(dynamic) else ()
        if fields[11].value is not None and scope.integer(data_format) == DataFormat.SPARSE:
            is_sparse = scope.integer(scope.struct(fields[11], SPARSE)[0]) != _UNDEFINED
    memory_type = _enum(scope, memory, MemoryType)
    data, has_buffer = None, False
    if memory_type is MemoryType.RAW and buffer.value is not None:
        pointer, size = scope.struct(buffer, CLIENT_BUFFER)
        if pointer.value is not None:
            has_buffer = True
            data = scope.payload(pointer, scope.integer(size))
    encoding = read_encoding(scope, quantization, shape)
    if data is not None and encoding is not None and encoding.bitwidth is not None:
        data = _sign_extended(data, found, encoding.bitwidth)
    return ProgramTensor(
        scope.text(name),
        found,
        shape,
        _enum(scope, kind, TensorKind),
        encoding,
        memory_type,
        _enum(scope, data_format, DataFormat),
        dynamic,
        data,
        has_buffer,
        is_sparse,
        name.offset,
    )


def read_param(scope: Scope, at: At, payloads: CallPayloads, created: CreatedTensors) -> ParamEntry:
    """Return a param in its form for records.

    Raises:
        TraceError: It is not well formed.
        UnsupportedError: It has what our params do not have.
    """
    kind, name, value = scope.struct(at, PARAM)
    if scope.integer(kind) == 0:
        return ParamEntry(scope.text(name), scalar=_scalar(scope, value))
    if scope.integer(kind) == 1:
        used = created.used(value)
        if used is None:
            raise UnsupportedError(f"param '{name.value}' without a tensor")
        return ParamEntry(scope.text(name), tensor=used.tensor.entry(payloads))
    raise UnsupportedError(f"type {kind.value} of param '{name.value}'")


def _scalar(scope: Scope, at: At) -> ScalarEntry:
    dtype, value = scope.struct(at, SCALAR)
    kind = _enum(scope, dtype, DType)
    if kind is DType.STRING:
        return ScalarEntry(kind, scope.text(value))
    if kind is DType.BOOL_8:
        return ScalarEntry(kind, scope.integer(value) != 0)
    if not kind.is_float:
        low, high = kind.stored_range() if kind.bits else (0, -1)
        number = scope.integer(value)
        if not low <= number <= high:
            raise scope.error(f"{number} is no {kind.name}", at.offset)
        return ScalarEntry(kind, number)
    real = scope.number(value)
    if kind in _BITS and isinstance(real, int):
        real = _BITS[kind](scope.integer(value) & 0xFFFF)
    if kind is DType.FLOAT_32:
        with np.errstate(over="ignore"):
            real = float(np.float32(real))
    return ScalarEntry(kind, real if np.isfinite(real) else str(real))


def _sign_extended(data: Blob, dtype: DType, bitwidth: int) -> Blob:
    """Return narrow signed integers as our tensors store them.

    Programs have them with high bits of zero: -1 in 4 bits as 15.
    """
    storage = dtype.storage
    gap = dtype.bits - bitwidth
    if dtype.is_packed or storage.kind != "i" or gap <= 0 or data.nbytes % storage.itemsize:
        return data
    values = data.bytes.view(storage)
    extended = values << gap >> gap
    return data if np.array_equal(values, extended) else Blob(extended)


def _fields(scope: Scope, at: At) -> tuple[int, list[At]]:
    """Return the version of a tensor, and the fields of its inner struct."""
    version, inner = scope.struct(at, TENSOR)
    number = scope.integer(version)
    if number not in _VERSIONS:
        raise UnsupportedError(f"version {number} of tensors")
    return number, scope.struct(inner, _VERSIONS[number])


def _shape(scope: Scope, rank: At, dimensions: At) -> Shape:
    count = scope.integer(rank)
    if not 0 <= count <= MAX_RANK:
        raise scope.error(f"rank {count} exceeds the maximum of {MAX_RANK}", rank.offset)
    if not count:
        return ()
    found = scope.numbers(dimensions, (UINT,), count)
    if not all(0 <= size < 2**32 and size == int(size) for size in found):
        raise scope.error("a dimension is not a number of 32 bits", dimensions.offset)
    return tuple(int(size) for size in found)


def _enum(scope: Scope, at: At, kind: type[E]) -> E:
    number = scope.integer(at)
    try:
        return kind(number)
    except ValueError:
        raise UnsupportedError(f"{kind.__name__} {number}") from None
