"""Names of the API's constants that programs may use instead of numbers."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping

from dovetail.ir import DataFormat, DType, EncodingKind, MemoryType, TensorKind
from dovetail.ir.encodings import EncodingMapping
from dovetail.runtime.config import Priority
from dovetail.runtime.enums import LogLevel

_ENUMS: Mapping[str, type[enum.IntEnum]] = {
    "QNN_DATATYPE_": DType,
    "QNN_TENSOR_TYPE_": TensorKind,
    "QNN_TENSOR_DATA_FORMAT_": DataFormat,
    "QNN_TENSORMEMTYPE_": MemoryType,
    "QNN_QUANTIZATION_ENCODING_": EncodingKind,
    "QNN_QUANTIZATION_ENCODING_MAPPING_": EncodingMapping,
    "QNN_PRIORITY_": Priority,
    "QNN_LOG_LEVEL_": LogLevel,
}
_OTHERS: Mapping[str, int] = {
    "QNN_PRIORITY_DEFAULT": 100,
    "QNN_TENSOR_DATA_FORMAT_FLAT_BUFFER": 0,
    "QNN_DEFINITION_IMPL_GENERATED": 0,
    "QNN_DEFINITION_DEFINED": 1,
    "QNN_DEFINITION_UNDEFINED": 0x7FFFFFFF,
    "QNN_QUANTIZATION_ENCODING_UNDEFINED": 0x7FFFFFFF,
    "QNN_PARAMTYPE_SCALAR": 0,
    "QNN_PARAMTYPE_TENSOR": 1,
    "QNN_TENSOR_VERSION_1": 1,
    "QNN_TENSOR_VERSION_2": 2,
    "QNN_OPCONFIG_VERSION_1": 1,
    "QNN_BACKEND_CONFIG_OPTION_CUSTOM": 0,
    "QNN_BACKEND_CONFIG_OPTION_ERROR_REPORTING": 1,
    "QNN_BACKEND_CONFIG_OPTION_PLATFORM": 2,
    "QNN_DEVICE_CONFIG_OPTION_CUSTOM": 0,
    "QNN_DEVICE_CONFIG_OPTION_PLATFORM_INFO": 1,
    "QNN_CONTEXT_CONFIG_OPTION_CUSTOM": 0,
    "QNN_CONTEXT_CONFIG_OPTION_PRIORITY": 1,
    "QNN_CONTEXT_CONFIG_OPTION_ERROR_REPORTING": 2,
    "QNN_CONTEXT_CONFIG_OPTION_OEM_STRING": 3,
    "QNN_CONTEXT_CONFIG_ASYNC_EXECUTION_QUEUE_DEPTH": 4,
    "QNN_CONTEXT_CONFIG_ENABLE_GRAPHS": 5,
    "QNN_CONTEXT_CONFIG_MEMORY_LIMIT_HINT": 6,
    "QNN_CONTEXT_CONFIG_PERSISTENT_BINARY": 7,
    "QNN_CONTEXT_CONFIG_BINARY_COMPATIBILITY": 8,
    "QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT": 9,
    "QNN_CONTEXT_CONFIG_GRAPH_RETENTION_ORDER": 10,
    "QNN_CONTEXT_ASYNC_EXECUTION_QUEUE_DEPTH_TYPE_NUMERIC": 0,
    "QNN_CONTEXT_BINARY_COMPATIBILITY_PERMISSIVE": 0,
    "QNN_CONTEXT_BINARY_COMPATIBILITY_STRICT": 1,
    "QNN_GRAPH_CONFIG_OPTION_CUSTOM": 0,
    "QNN_GRAPH_CONFIG_OPTION_PRIORITY": 3,
    "QNN_GRAPH_CONFIG_OPTION_PROFILE_HANDLE": 4,
    "QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_STATE": 5,
    "QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_NUM_EXECUTIONS": 6,
    "QNN_SIGNAL_CONFIG_OPTION_CUSTOM": 0,
    "QNN_SIGNAL_CONFIG_OPTION_ABORT": 1,
    "QNN_SIGNAL_CONFIG_OPTION_TIMEOUT": 2,
    "QNN_PROFILE_LEVEL_BASIC": 1,
    "QNN_PROFILE_LEVEL_DETAILED": 2,
}


def _constants() -> Iterator[tuple[bytes, int]]:
    for prefix, kind in _ENUMS.items():
        for member in kind:
            yield f"{prefix}{member.name}".encode(), member.value
    for name, number in _OTHERS.items():
        yield name.encode(), number


CONSTANTS: Mapping[bytes, int] = dict(_constants())
