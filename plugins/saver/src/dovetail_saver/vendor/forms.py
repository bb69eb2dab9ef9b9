"""The forms of the API's calls in C: what each argument is, for reading and for writing."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from dovetail.runtime.api_table import API


class Slot(enum.Enum):
    """Kind of an argument of a call in C."""

    OWNER = enum.auto()  # the handle that our method belongs to
    HANDLE = enum.auto()
    CREATED = enum.auto()  # `&x`: receives the handle
    CONFIGS = enum.auto()  # an array of pointers to configs, ending with NULL
    SIGNAL = enum.auto()  # the configs of a signal, which say its kind
    TEXT = enum.auto()
    NUMBER = enum.auto()
    NEW_TENSOR = enum.auto()  # `&x`: a tensor, which receives its id
    NODE = enum.auto()
    BUFFERS = enum.auto()  # an array of tensors; its length follows
    COUNT = enum.auto()
    LOG = enum.auto()  # a log handle, which our calls do not take
    NULL = enum.auto()  # what only one application has, such as a callback
    RESULT = enum.auto()  # `&x`: a result of no importance


class Part(NamedTuple):
    """An argument.

    Attributes:
        slot: Its kind.
        name: Name of our argument; of its type in C for what is declared for it.
    """

    slot: Slot
    name: str = ""


_OWNER = Part(Slot.OWNER)
_CREATED = Part(Slot.CREATED)
_LOG = Part(Slot.LOG)
_CONFIG = Part(Slot.CONFIGS, "config")
_PROFILE = Part(Slot.HANDLE, "profile")
_SIGNAL = Part(Slot.HANDLE, "signal")
_COUNT = Part(Slot.COUNT)
_RUN = (
    _OWNER,
    Part(Slot.BUFFERS, "inputs"),
    _COUNT,
    Part(Slot.BUFFERS, "outputs"),
    _COUNT,
    _PROFILE,
    _SIGNAL,
)

# By our name. Calls without a form are opaque.
FORMS: Mapping[str, tuple[Part, ...]] = {
    "backend_create": (_LOG, _CONFIG, _CREATED),
    "backend_free": (_OWNER,),
    "backend_has_capability": (Part(Slot.NUMBER, "key"),),
    "device_create": (_LOG, _CONFIG, _CREATED),
    "device_get_platform_info": (_LOG, Part(Slot.RESULT, "const QnnDevice_PlatformInfo_t*")),
    "device_free": (_OWNER,),
    "context_create": (_OWNER, Part(Slot.HANDLE, "device"), _CONFIG, _CREATED),
    "context_free": (_OWNER, Part(Slot.NULL)),
    "context_create_tensor": (_OWNER, Part(Slot.NEW_TENSOR)),
    "graph_create": (_OWNER, Part(Slot.TEXT, "name"), _CONFIG, _CREATED),
    "graph_retrieve": (_OWNER, Part(Slot.TEXT, "name"), _CREATED),
    "graph_create_tensor": (_OWNER, Part(Slot.NEW_TENSOR)),
    "graph_add_node": (_OWNER, Part(Slot.NODE)),
    "graph_set_config": (_OWNER, _CONFIG),
    "graph_finalize": (_OWNER, _PROFILE, _SIGNAL),
    "graph_execute": _RUN,
    "graph_execute_async": (*_RUN, Part(Slot.NULL), Part(Slot.NULL)),
    "profile_create": (_OWNER, Part(Slot.NUMBER, "level"), _CREATED),
    "profile_get_events": (
        _OWNER,
        Part(Slot.RESULT, "const QnnProfile_EventId_t*"),
        Part(Slot.RESULT, "uint32_t"),
    ),
    "profile_free": (_OWNER,),
    "signal_create": (_OWNER, Part(Slot.SIGNAL, "kind"), _CREATED),
    "signal_trigger": (_OWNER,),
    "signal_free": (_OWNER,),
    "log_create": (Part(Slot.NULL), Part(Slot.NUMBER, "level"), _CREATED),
    "log_set_level": (_OWNER, Part(Slot.NUMBER, "level")),
    "log_free": (_OWNER,),
}

# By QNN's name, those that have a form.
FUNCTIONS: Mapping[str, str] = {API[name].qnn: name for name in FORMS}

# Calls of the interface itself, which no session needs.
IGNORED = frozenset({"QnnInterface_getProviders"})
