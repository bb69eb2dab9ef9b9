"""Arguments of the calls in Saver programs, in their form for records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dovetail.csource.structs import OP_CONFIG, PARAM, TENSOR
from dovetail.errors import DovetailError, TraceError
from dovetail.ir.storage import unpack_stored
from dovetail.runtime.api_table import API, ArgKind, Value
from dovetail.runtime.calls import Payloads, Role
from dovetail.runtime.calls.payloads import CallPayloads
from dovetail.runtime.calls.values import ArrayValue, BlobValue, ObservedValue
from dovetail_saver.vendor.configs import CONFIG_OF, read_configs, read_signal
from dovetail_saver.vendor.forms import FORMS, Part, Slot
from dovetail_saver.vendor.scope import At, Scope, UnsupportedError
from dovetail_saver.vendor.tensors import (
    CreatedTensors,
    ProgramTensor,
    read_param,
    read_tensor,
)


@dataclass(slots=True)
class Arguments:
    """The arguments of a call.

    Attributes:
        function: Our name of the call.
        scope: The variables of the program.
        given: The arguments as they are in the program.
        payloads: The payloads of the record.
        tensors: The tensors that calls have created.
        values: Our arguments by name.
        owner: The handle that it is called on, where the program gives one.
        created: The variable that receives a handle.
        tensor: The tensor that the call creates.
        result: The result; None for a handle.
        notes: What our API does not have.
    """

    function: str
    scope: Scope
    given: list[At]
    payloads: CallPayloads
    tensors: CreatedTensors
    values: dict[str, Any]
    owner: int | None = None
    created: At | None = None
    tensor: ProgramTensor | None = None
    result: Any = None
    notes: list[str] = field(default_factory=list)


def read_arguments(
    function: str, scope: Scope, given: list[At], payloads: Payloads, tensors: CreatedTensors
) -> Arguments:
    """Return the arguments of a call.

    Args:
        function: Our name of the call.
        scope: The variables of the program.
        given: As many arguments as the form of the call has.
        payloads: Receives their payloads.
        tensors: The tensors that calls have created.

    Raises:
        TraceError: They are not well formed.
        UnsupportedError: They are what our call does not have.
    """
    values = dict(_DEFAULTS[function])
    found = Arguments(function, scope, given, CallPayloads(payloads), tensors, values)
    for index, part in enumerate(FORMS[function]):
        read = _READERS.get(part.slot)
        if read is not None:
            read(found, part, index)
    return found


def _owner(found: Arguments, _: Part, index: int) -> None:
    found.owner = found.scope.handle(found.given[index], API[found.function].owner)


def _handle(found: Arguments, part: Part, index: int) -> None:
    kind = str(API[found.function].args[part.name].of)
    found.values[part.name] = found.scope.handle(found.given[index], kind)


def _created(found: Arguments, _: Part, index: int) -> None:
    found.created = found.given[index]


def _configs(found: Arguments, _: Part, index: int) -> None:
    kind = CONFIG_OF[found.function]
    found.values["config"] = read_configs(found.scope, found.given[index], kind, found.notes.append)


def _signal(found: Arguments, _: Part, index: int) -> None:
    values = read_signal(found.scope, found.given[index])
    found.values["kind"], found.values["timeout_us"] = values


def _text(found: Arguments, part: Part, index: int) -> None:
    found.values[part.name] = found.scope.text(found.given[index])


def _number(found: Arguments, part: Part, index: int) -> None:
    found.values[part.name] = found.scope.integer(found.given[index])


def _new_tensor(found: Arguments, _: Part, index: int) -> None:
    scope, values = found.scope, found.values
    found.created = found.given[index]
    tensor = found.tensor = read_tensor(scope, found.given[index])
    if tensor.is_sparse:
        found.notes.append(f"tensor '{tensor.name}': the params of its sparsity")
    try:
        entry = tensor.entry(found.payloads)
    except DovetailError as error:
        raise scope.error(f"tensor '{tensor.name}': {error}", tensor.offset) from error
    names = ("name", "dtype", "shape", "kind", "encoding", "dynamic", "memory_type", "data_format")
    values.update((name, getattr(entry, name)) for name in names if name in values)
    if entry.data is not None:
        values["data"] = BlobValue(entry.data)
    elif tensor.has_buffer:
        values["data"] = ArrayValue(tensor.dtype.storage.str, tensor.shape)


def _node(found: Arguments, _: Part, index: int) -> None:
    scope, values = found.scope, found.values
    version, config = scope.struct(found.given[index], OP_CONFIG)
    if scope.integer(version) != 1:
        raise UnsupportedError(f"version {version.value} of op configs")
    fields = scope.struct(config, b"Qnn_OpConfigV1_t")
    names = (values["name"], values["package"], values["op_type"]) = [
        scope.text(each) for each in fields[:3]
    ]
    param_count, params, in_count, ins, out_count, outs = fields[3:]
    values["inputs"] = _uses(found, ins, in_count)
    values["outputs"] = _uses(found, outs, out_count)
    given = scope.array(params, PARAM, scope.integer(param_count))
    try:
        read = tuple(read_param(scope, each, found.payloads, found.tensors) for each in given)
    except TraceError:
        raise
    except DovetailError as error:
        raise scope.error(f"node '{names[0]}': {error}", fields[0].offset) from error
    values["params"] = read or None


def _uses(found: Arguments, at: At, count: At) -> tuple[int | None, ...]:
    """Return the handles of a node's tensors."""
    array = found.scope.array(at, TENSOR, found.scope.integer(count))
    used = (found.tensors.used(each) for each in array)
    return tuple(None if each is None else each.number for each in used)


def _buffers(found: Arguments, part: Part, index: int) -> None:
    """Read the buffers of an execution; the contents of outputs do not matter."""
    scope = found.scope
    count = scope.integer(found.given[index + 1])
    array = scope.array(found.given[index], TENSOR, count)
    tensors = [found.tensors.buffer(each, found.owner) for each in array]
    is_input = part.name == "inputs"
    values = {each.name: _buffer(each, found.payloads, is_input) for each in tensors}
    found.values[part.name] = values
    if not is_input and not API[found.function].ends_later:
        found.result = values  # types and shapes of what the call returns


def _buffer(tensor: ProgramTensor, payloads: CallPayloads, is_input: bool) -> ArrayValue:
    dtype, data = tensor.dtype, tensor.data
    index = None
    if data is not None and is_input:
        wanted = dtype.nbytes(tensor.shape)
        if data.nbytes != wanted:
            raise UnsupportedError(f"'{tensor.name}' has {data.nbytes} bytes, but takes {wanted}")
        if dtype.is_packed:
            index = payloads.add_array(unpack_stored(data, dtype, tensor.shape), Role.INPUT)
        else:
            index = payloads.add(data, Role.INPUT)
    return ArrayValue(dtype.storage.str, tensor.shape, index)


_READERS: Mapping[Slot, Callable[[Arguments, Part, int], None]] = {
    Slot.OWNER: _owner,
    Slot.HANDLE: _handle,
    Slot.CREATED: _created,
    Slot.CONFIGS: _configs,
    Slot.SIGNAL: _signal,
    Slot.TEXT: _text,
    Slot.NUMBER: _number,
    Slot.NEW_TENSOR: _new_tensor,
    Slot.NODE: _node,
    Slot.BUFFERS: _buffers,
}


def _default(value: Value) -> Any:
    if value.kind is ArgKind.OBSERVED:
        return ObservedValue()
    return None if value.nullable else () if value.many else msgspec.UNSET


# Arguments that a program does not give.
_DEFAULTS: Mapping[str, dict[str, Any]] = {
    name: {arg: _default(value) for arg, value in API[name].args.items()} for name in FORMS
}
