"""The API table: every call of the runtime API, its QNN name, and the kind of each argument.

Handles are built on it (`api_call` looks a call up), and recorders and replayers read from it how
to write each argument.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class ArgKind(enum.Enum):
    """Kind of an argument or a result."""

    HANDLE = enum.auto()
    NAME = enum.auto()
    INTEGER = enum.auto()
    ENUM = enum.auto()
    SHAPE = enum.auto()
    ENCODING = enum.auto()
    DATA = enum.auto()  # bytes that belong to the graph
    CONFIG = enum.auto()  # a Struct, or plain data that becomes one
    HANDLES = enum.auto()  # a sequence, entries may be None
    PARAMS = enum.auto()  # scalars and tensors by name
    BUFFERS = enum.auto()  # arrays or registered memory by tensor name
    CALLBACK = enum.auto()
    OBJECT = enum.auto()  # lives in this process only: a class, a registry


@dataclass(frozen=True, slots=True)
class ApiFunction:
    """A call of the API.

    Attributes:
        name: `class_method` in our API.
        qnn: The corresponding call of QNN's API.
        args: Name and kind of each argument after the handle.
        result: Kind of its result; None if it returns nothing.
    """

    name: str
    qnn: str
    args: tuple[tuple[str, ArgKind], ...] = ()
    result: ArgKind | None = None


_HANDLE, _NAME, _CONFIG = ArgKind.HANDLE, ArgKind.NAME, ArgKind.CONFIG
_TENSOR = (
    ("name", _NAME),
    ("dtype", ArgKind.ENUM),
    ("shape", ArgKind.SHAPE),
    ("kind", ArgKind.ENUM),
    ("encoding", ArgKind.ENCODING),
    ("data", ArgKind.DATA),
    ("source", _NAME),
    ("source_perm", ArgKind.SHAPE),
)
_RUN = (
    ("inputs", ArgKind.BUFFERS),
    ("outputs", ArgKind.BUFFERS),
    ("profile", _HANDLE),
    ("signal", _HANDLE),
)

API: dict[str, ApiFunction] = {
    call.name: call
    for call in (
        ApiFunction(
            "backend_create",
            "backendCreate",
            (("name", _NAME), ("config", _CONFIG), ("ops", ArgKind.OBJECT)),
            _HANDLE,
        ),
        ApiFunction("backend_free", "backendFree"),
        ApiFunction(
            "backend_register_op_package",
            "backendRegisterOpPackage",
            (("package", ArgKind.OBJECT),),
        ),
        ApiFunction(
            "backend_has_capability",
            "propertyHasCapability",
            (("key", ArgKind.INTEGER),),
            ArgKind.INTEGER,
        ),
        ApiFunction(
            "backend_validate_op",
            "backendValidateOpConfig",
            (("node", ArgKind.OBJECT), ("device", _HANDLE), ("config", _CONFIG)),
            ArgKind.OBJECT,
        ),
        ApiFunction("device_create", "deviceCreate", (("config", _CONFIG),), _HANDLE),
        ApiFunction("device_free", "deviceFree"),
        ApiFunction(
            "context_create",
            "contextCreate",
            (("device", _HANDLE), ("config", _CONFIG)),
            _HANDLE,
        ),
        ApiFunction("context_free", "contextFree"),
        ApiFunction("graph_create", "graphCreate", (("name", _NAME), ("config", _CONFIG)), _HANDLE),
        ApiFunction("graph_retrieve", "graphRetrieve", (("name", _NAME),), _HANDLE),
        ApiFunction("graph_create_tensor", "tensorCreateGraphTensor", _TENSOR, _HANDLE),
        ApiFunction(
            "graph_add_node",
            "graphAddNode",
            (
                ("name", _NAME),
                ("package", _NAME),
                ("op_type", _NAME),
                ("inputs", ArgKind.HANDLES),
                ("outputs", ArgKind.HANDLES),
                ("params", ArgKind.PARAMS),
                ("sources", ArgKind.NAME),
            ),
        ),
        ApiFunction("graph_set_config", "graphSetConfig", (("config", _CONFIG),)),
        ApiFunction(
            "graph_finalize",
            "graphFinalize",
            (("profile", _HANDLE), ("signal", _HANDLE), ("observed", _CONFIG)),
        ),
        ApiFunction(
            "graph_execute",
            "graphExecute",
            (*_RUN, ("watch", ArgKind.OBJECT)),
            ArgKind.BUFFERS,
        ),
        ApiFunction(
            "graph_execute_async",
            "graphExecuteAsync",
            (*_RUN, ("notify", ArgKind.CALLBACK)),
            ArgKind.OBJECT,
        ),
        ApiFunction("profile_create", "profileCreate", (("level", ArgKind.ENUM),), _HANDLE),
        ApiFunction("profile_free", "profileFree"),
        ApiFunction(
            "signal_create",
            "signalCreate",
            (("kind", ArgKind.ENUM), ("timeout_us", ArgKind.INTEGER)),
            _HANDLE,
        ),
        ApiFunction("signal_trigger", "signalTrigger"),
        ApiFunction("signal_free", "signalFree"),
        ApiFunction(
            "memory_register",
            "memRegister",
            (
                ("array", ArgKind.DATA),
                ("dtype", ArgKind.ENUM),
                ("shape", ArgKind.SHAPE),
                ("custom", _CONFIG),
            ),
            _HANDLE,
        ),
        ApiFunction("memory_deregister", "memDeRegister"),
    )
}
