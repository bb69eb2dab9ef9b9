"""The handle-level API, which mirrors QNN's, for integrators and recorders.

`Backend` here is the handle; backend plugins implement `dovetail.runtime.contract`. What only
commands and tools use is imported on first use.
"""

from typing import TYPE_CHECKING

from dovetail.lazy import lazy_names
from dovetail.runtime.api_table import API, ApiFunction, ArgKind, Value
from dovetail.runtime.backend import Backend
from dovetail.runtime.chrome_trace import chrome_trace
from dovetail.runtime.compatibility import Compatibility, Reason, Verdict
from dovetail.runtime.config import ContextConfig, DeviceConfig, GraphConfig, Priority
from dovetail.runtime.context import Context
from dovetail.runtime.context_binaries import Binary
from dovetail.runtime.device import Device
from dovetail.runtime.enums import LogLevel, ProfiledCall, ProfileLevel, SignalKind
from dovetail.runtime.graph import Graph
from dovetail.runtime.measurements import Counter, EventType, EventUnit, ProfileEvent, Recorder
from dovetail.runtime.memory import Memory
from dovetail.runtime.names import backend_name
from dovetail.runtime.profile import EventData, ExtendedEventData, Profile
from dovetail.runtime.profile_log import LogHeader, LogRecord, LogSection, ProfileLog
from dovetail.runtime.profiling_window import ProfilingWindow
from dovetail.runtime.queue import Execution
from dovetail.runtime.signal import Signal
from dovetail.runtime.tensor import Tensor

if TYPE_CHECKING:
    from dovetail.runtime.log import Log
    from dovetail.runtime.profile_log_reader import read_profile_log
    from dovetail.runtime.shared_buffers import SharedBuffers, set_io_memory_type
    from dovetail.runtime.sharing import GraphShare, SharingReport, Unshared, sharing_report
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "dovetail.runtime.log": ["Log"],
            "dovetail.runtime.profile_log_reader": ["read_profile_log"],
            "dovetail.runtime.shared_buffers": ["SharedBuffers", "set_io_memory_type"],
            "dovetail.runtime.sharing": [
                "GraphShare",
                "SharingReport",
                "Unshared",
                "sharing_report",
            ],
        },
    )

__all__ = [
    "API",
    "ApiFunction",
    "ArgKind",
    "Backend",
    "Binary",
    "Compatibility",
    "Context",
    "ContextConfig",
    "Counter",
    "Device",
    "DeviceConfig",
    "EventData",
    "EventType",
    "EventUnit",
    "Execution",
    "ExtendedEventData",
    "Graph",
    "GraphConfig",
    "GraphShare",
    "Log",
    "LogHeader",
    "LogLevel",
    "LogRecord",
    "LogSection",
    "Memory",
    "Priority",
    "Profile",
    "ProfileEvent",
    "ProfileLevel",
    "ProfileLog",
    "ProfiledCall",
    "ProfilingWindow",
    "Reason",
    "Recorder",
    "SharedBuffers",
    "SharingReport",
    "Signal",
    "SignalKind",
    "Tensor",
    "Unshared",
    "Value",
    "Verdict",
    "backend_name",
    "chrome_trace",
    "read_profile_log",
    "set_io_memory_type",
    "sharing_report",
]
