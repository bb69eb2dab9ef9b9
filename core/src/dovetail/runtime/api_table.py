"""The API table: every call of the runtime API, with the kind of each argument and of its result.

Handles are built on it (`api_call` looks a call up), and records of calls are encoded and decoded
by it (`dovetail.runtime.calls`): a record of a call's arguments suffices to make the call again.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from dovetail.ir import DataFormat, DType, MemoryType, TensorKind
from dovetail.runtime.enums import LogLevel, SignalKind


class ArgKind(enum.Enum):
    """Kind of an argument or a result."""

    HANDLE = enum.auto()
    NAME = enum.auto()
    INTEGER = enum.auto()
    TRUTH = enum.auto()  # True or False
    ENUM = enum.auto()
    ENCODING = enum.auto()
    DATA = enum.auto()  # payload: a blob of stored bytes, or an array of logical values
    ARRAY = enum.auto()  # payload: memory of the application
    INPUTS = enum.auto()  # payload: arrays or registered memory by tensor name
    OUTPUTS = enum.auto()  # arrays or registered memory that the call writes
    RESULTS = enum.auto()  # payload: arrays by tensor name
    CONFIG = enum.auto()  # a Struct, or plain data that becomes one
    PARAMS = enum.auto()  # scalars and tensors by name
    NODE = enum.auto()  # a node with its tensors, outside a graph
    BACKEND = enum.auto()  # reference by name and version
    OP_PACKAGE = enum.auto()  # reference by name and version
    OPS = enum.auto()  # a registry: references to its op packages
    CALLBACK = enum.auto()  # a function or a watch of this process
    OBSERVED = enum.auto()  # names of tensors, or all
    EXECUTION = enum.auto()  # the future of a call that ends later
    FACTS = enum.auto()  # a dataclass of plain data
    EVENT = enum.auto()  # a measurement of a profile
    BINARY = enum.auto()  # payload: bytes, or the path of a file with them
    BUFFER = enum.auto()  # memory that the call writes: bytes
    ENCODINGS = enum.auto()  # encodings by graph and tensor


REQUIRED = object()  # in the position of a default: there is none


class Value(msgspec.Struct, frozen=True):
    """Type of an argument or a result.

    Attributes:
        kind: Its kind.
        of: Kind of the handle, or class of the enum.
        nullable: Whether it may be None, which is its default.
        many: Whether it is a sequence; that of a handle may contain None.
        default: Another default of the call, in the form of records. Records may lack an argument
            with a default: those that were written before the call had it do.
    """

    kind: ArgKind
    of: str | type[enum.IntEnum] = ""
    nullable: bool = False
    many: bool = False
    default: object = REQUIRED


class ApiFunction(msgspec.Struct, frozen=True):
    """A call of the API.

    Attributes:
        name: `class_method` in our API, of the object that it is about.
        qnn: The corresponding call of QNN's API; empty if there is none.
        owner: Kind of the handle that has the method; empty for a class method that creates one.
        method: Name of the method.
        args: Types of the arguments by name, in order.
        result: Type of the result; None if it returns nothing.
        ends_later: Whether the call returns before what it starts has ended.
    """

    name: str
    qnn: str
    owner: str
    method: str
    args: Mapping[str, Value] = msgspec.field(default_factory=dict)
    result: Value | None = None
    ends_later: bool = False


def _handle(kind: str, *, nullable: bool = False, many: bool = False) -> Value:
    return Value(ArgKind.HANDLE, kind, nullable, many)


def _enum(of: type[enum.IntEnum], default: object = REQUIRED) -> Value:
    return Value(ArgKind.ENUM, of, default=default)


_NAME = Value(ArgKind.NAME)
_NAMES = Value(ArgKind.NAME, nullable=True, many=True)
_INTEGER = Value(ArgKind.INTEGER)
_SHAPE = Value(ArgKind.INTEGER, many=True)
_OPTIONAL_SHAPE = Value(ArgKind.INTEGER, nullable=True, many=True)
_CONFIG = Value(ArgKind.CONFIG)
_OPTIONAL_CONFIG = Value(ArgKind.CONFIG, nullable=True)
_BUFFER = Value(ArgKind.BUFFER, nullable=True)
_EVENT = Value(ArgKind.EVENT)
_EVENTS = Value(ArgKind.EVENT, many=True)
_CALLBACK = Value(ArgKind.CALLBACK, nullable=True)
_DEVICE = _handle("device", nullable=True)
_PROFILE = _handle("profile", nullable=True)
_SIGNAL = _handle("signal", nullable=True)

_BACKEND = (
    ApiFunction(
        "backend_create",
        "backendCreate",
        "",
        "create",
        {
            "name": Value(ArgKind.BACKEND),
            "config": _OPTIONAL_CONFIG,
            "ops": Value(ArgKind.OPS, nullable=True),
        },
        _handle("backend"),
    ),
    ApiFunction("backend_free", "backendFree", "backend", "free"),
    ApiFunction(
        "backend_register_op_package",
        "backendRegisterOpPackage",
        "backend",
        "register_op_package",
        {"package": Value(ArgKind.OP_PACKAGE)},
    ),
    ApiFunction(
        "backend_has_capability",
        "propertyHasCapability",
        "backend",
        "has_capability",
        {"key": _INTEGER},
        Value(ArgKind.TRUTH),
    ),
    ApiFunction(
        "backend_validate_op",
        "backendValidateOpConfig",
        "backend",
        "validate_op",
        {"node": Value(ArgKind.NODE), "device": _DEVICE, "config": _OPTIONAL_CONFIG},
        Value(ArgKind.FACTS),
    ),
)

_DEVICES = (
    ApiFunction(
        "device_create",
        "deviceCreate",
        "backend",
        "create_device",
        {"config": _OPTIONAL_CONFIG},
        _handle("device"),
    ),
    ApiFunction(
        "device_get_platform_info",
        "deviceGetPlatformInfo",
        "backend",
        "get_platform_info",
        {},
        Value(ArgKind.FACTS),
    ),
    ApiFunction("device_get_info", "deviceGetInfo", "device", "get_info", {}, Value(ArgKind.FACTS)),
    ApiFunction("device_free", "deviceFree", "device", "free"),
)

_SHARED_TENSOR = {
    "name": _NAME,
    "dtype": _enum(DType),
    "shape": _SHAPE,
    "kind": _enum(TensorKind),
    "encoding": Value(ArgKind.ENCODING, nullable=True),
    "data": Value(ArgKind.DATA, nullable=True),
    "source": Value(ArgKind.NAME, nullable=True),
}
_TENSOR = {
    **_SHARED_TENSOR,
    "source_perm": _OPTIONAL_SHAPE,
    "dynamic": Value(ArgKind.TRUTH, many=True, default=()),
    "memory_type": _enum(MemoryType, MemoryType.RAW),
    "data_format": _enum(DataFormat, DataFormat.DENSE),
}
_UPDATE = {
    "tensor": _handle("tensor"),
    "data": Value(ArgKind.DATA, nullable=True),
    "encoding": Value(ArgKind.ENCODING, nullable=True),
}

_CONTEXT = (
    ApiFunction(
        "context_create",
        "contextCreate",
        "backend",
        "create_context",
        {"device": _DEVICE, "config": _OPTIONAL_CONFIG},
        _handle("context"),
    ),
    ApiFunction("context_free", "contextFree", "context", "free"),
    ApiFunction(
        "context_create_tensor",
        "tensorCreateContextTensor",
        "context",
        "create_tensor",
        _SHARED_TENSOR,
        _handle("tensor"),
    ),
    ApiFunction(
        "context_update_tensor",
        "tensorUpdateContextTensors",
        "context",
        "update_tensor",
        _UPDATE,
    ),
    ApiFunction(
        "context_retrieve_tensor",
        "",
        "context",
        "retrieve_tensor",
        {"name": _NAME},
        _handle("tensor"),
    ),
    ApiFunction(
        "context_create_from_binary",
        "contextCreateFromBinary",
        "backend",
        "create_context_from_binary",
        {
            "binary": Value(ArgKind.BINARY),
            "device": _DEVICE,
            "config": _OPTIONAL_CONFIG,
            "profile": _PROFILE,
            "signal": _SIGNAL,
        },
        _handle("context"),
    ),
    ApiFunction(
        "context_validate_binary",
        "contextValidateBinary",
        "backend",
        "validate_binary",
        {"binary": Value(ArgKind.BINARY), "device": _DEVICE},
        Value(ArgKind.FACTS),
    ),
    ApiFunction(
        "context_get_binary_info",
        "systemContextGetBinaryInfo",
        "backend",
        "get_binary_info",
        {"binary": Value(ArgKind.BINARY)},
        Value(ArgKind.FACTS),
    ),
    ApiFunction(
        "context_get_binary_size",
        "contextGetBinarySize",
        "context",
        "get_binary_size",
        {"embed_model": Value(ArgKind.TRUTH)},
        _INTEGER,
    ),
    ApiFunction(
        "context_get_binary",
        "contextGetBinary",
        "context",
        "get_binary",
        {"buffer": _BUFFER, "embed_model": Value(ArgKind.TRUTH)},
        Value(ArgKind.BINARY),
    ),
    ApiFunction(
        "context_get_binary_section_size",
        "contextGetBinarySectionSize",
        "context",
        "get_binary_section_size",
        {"graph": _handle("graph", nullable=True)},
        _INTEGER,
    ),
    ApiFunction(
        "context_get_binary_section",
        "contextGetBinarySection",
        "context",
        "get_binary_section",
        {"graph": _handle("graph", nullable=True), "buffer": _BUFFER},
        Value(ArgKind.BINARY),
    ),
    ApiFunction(
        "context_apply_binary_section",
        "contextApplyBinarySection",
        "context",
        "apply_binary_section",
        {
            "section": Value(ArgKind.BINARY),
            "graph": _handle("graph", nullable=True),
            "signal": _SIGNAL,
        },
        Value(ArgKind.ENCODINGS),
    ),
    ApiFunction(
        "memory_register",
        "memRegister",
        "context",
        "register_memory",
        {
            "array": Value(ArgKind.ARRAY, nullable=True),
            "dtype": _enum(DType),
            "shape": _OPTIONAL_SHAPE,
            "custom": _OPTIONAL_CONFIG,
        },
        _handle("memory handle"),
    ),
    ApiFunction("memory_deregister", "memDeRegister", "memory handle", "deregister"),
)

_RUN = {
    "inputs": Value(ArgKind.INPUTS),
    "outputs": Value(ArgKind.OUTPUTS, nullable=True),
    "profile": _PROFILE,
    "signal": _SIGNAL,
}

_GRAPH = (
    ApiFunction(
        "graph_create",
        "graphCreate",
        "context",
        "create_graph",
        {"name": _NAME, "config": _OPTIONAL_CONFIG},
        _handle("graph"),
    ),
    ApiFunction(
        "graph_retrieve",
        "graphRetrieve",
        "context",
        "retrieve_graph",
        {"name": _NAME},
        _handle("graph"),
    ),
    ApiFunction(
        "graph_create_tensor",
        "tensorCreateGraphTensor",
        "graph",
        "create_tensor",
        _TENSOR,
        _handle("tensor"),
    ),
    ApiFunction(
        "graph_add_node",
        "graphAddNode",
        "graph",
        "add_node",
        {
            "name": _NAME,
            "package": _NAME,
            "op_type": _NAME,
            "inputs": _handle("tensor", many=True),
            "outputs": _handle("tensor", many=True),
            "params": Value(ArgKind.PARAMS, nullable=True),
            "sources": _NAMES,
        },
    ),
    ApiFunction(
        "graph_retrieve_tensor",
        "",
        "graph",
        "retrieve_tensor",
        {"name": _NAME},
        _handle("tensor"),
    ),
    ApiFunction(
        "graph_update_tensor", "tensorUpdateGraphTensors", "graph", "update_tensor", _UPDATE
    ),
    ApiFunction("graph_set_config", "graphSetConfig", "graph", "set_config", {"config": _CONFIG}),
    ApiFunction(
        "graph_finalize",
        "graphFinalize",
        "graph",
        "finalize",
        {
            "profile": _PROFILE,
            "signal": _SIGNAL,
            "observed": Value(ArgKind.OBSERVED),
            "outputs": Value(ArgKind.NAME, many=True, default=()),
        },
    ),
    ApiFunction(
        "graph_execute",
        "graphExecute",
        "graph",
        "execute",
        {**_RUN, "watch": _CALLBACK},
        Value(ArgKind.RESULTS),
    ),
    ApiFunction(
        "graph_execute_async",
        "graphExecuteAsync",
        "graph",
        "execute_async",
        {**_RUN, "notify": _CALLBACK},
        Value(ArgKind.EXECUTION),
        ends_later=True,
    ),
)

_PROFILING = (
    ApiFunction(
        "profile_create",
        "profileCreate",
        "backend",
        "create_profile",
        {"level": _INTEGER},
        _handle("profile"),
    ),
    ApiFunction("profile_get_events", "profileGetEvents", "profile", "get_events", {}, _EVENTS),
    ApiFunction(
        "profile_get_sub_events",
        "profileGetSubEvents",
        "profile",
        "get_sub_events",
        {"path": _SHAPE},
        _EVENTS,
    ),
    ApiFunction(
        "profile_get_event_data",
        "profileGetEventData",
        "profile",
        "get_event_data",
        {"path": _SHAPE},
        _EVENT,
    ),
    ApiFunction(
        "profile_get_extended_event_data",
        "profileGetExtendedEventData",
        "profile",
        "get_extended_event_data",
        {"path": _SHAPE},
        _EVENT,
    ),
    ApiFunction(
        "profile_stream_to",
        "",
        "profile",
        "stream_to",
        {"sink": _CALLBACK},
    ),
    ApiFunction("profile_clear", "", "profile", "clear"),
    ApiFunction("profile_free", "profileFree", "profile", "free"),
)

_SIGNALS = (
    ApiFunction(
        "signal_create",
        "signalCreate",
        "backend",
        "create_signal",
        {"kind": _enum(SignalKind), "timeout_us": Value(ArgKind.INTEGER, nullable=True)},
        _handle("signal"),
    ),
    ApiFunction("signal_trigger", "signalTrigger", "signal", "trigger"),
    ApiFunction("signal_free", "signalFree", "signal", "free"),
)

_LOGGING = (
    ApiFunction(
        "log_create", "logCreate", "", "create", {"level": _enum(LogLevel)}, _handle("log")
    ),
    ApiFunction("log_set_level", "logSetLogLevel", "log", "set_level", {"level": _enum(LogLevel)}),
    ApiFunction("log_free", "logFree", "log", "free"),
)

API: dict[str, ApiFunction] = {
    function.name: function
    for functions in (_BACKEND, _DEVICES, _CONTEXT, _GRAPH, _PROFILING, _SIGNALS, _LOGGING)
    for function in functions
}
