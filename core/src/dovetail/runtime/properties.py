"""QNN's property keys, and how a backend's capabilities answer them.

Source: spec/qnn_enums.md, "Property / capability keys".
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dovetail.ir import DataFormat, EncodingKind
from dovetail.runtime.contract import Capabilities

# What a property depends on: names of capabilities that must all be true, a data format, a kind of
# encodings, or nothing, where core alone decides.
Condition = bool | tuple[str, ...] | DataFormat | EncodingKind


class Property(msgspec.Struct, frozen=True):
    """A property that an application can query.

    Attributes:
        name: QNN's name, without the prefix.
        condition: What it depends on.
    """

    name: str
    condition: Condition

    def holds(self, capabilities: Capabilities) -> bool:
        """Return whether it is supported with these capabilities."""
        condition = self.condition
        if isinstance(condition, bool):
            return condition
        if isinstance(condition, DataFormat):
            return condition in capabilities.data_formats
        if isinstance(condition, EncodingKind):
            return condition in capabilities.encodings
        return all(getattr(capabilities, name) for name in condition)


_OP_PACKAGES = ("op_packages",)
_CANCEL = ("cancel",)
_UPDATES = ("updates",)
_MEMORY = ("memory_handles",)

_TABLE: tuple[tuple[int, str, Condition], ...] = (
    (1, "GROUP_CORE", True),
    (101, "GROUP_BACKEND", True),
    (105, "BACKEND_SUPPORT_OP_PACKAGE", _OP_PACKAGES),
    (106, "BACKEND_SUPPORT_PLATFORM_OPTIONS", False),
    (107, "BACKEND_SUPPORT_COMPOSITION", True),
    (108, "BACKEND_SUPPORT_CUSTOM_PROPERTY", False),
    (201, "GROUP_CONTEXT", True),
    (202, "CONTEXT_SUPPORT_CACHING", ("caching",)),
    (205, "CONTEXT_SUPPORT_CONFIGURATION", True),
    (206, "CONTEXT_SUPPORT_CONFIG_ENABLE_GRAPHS", False),
    (207, "CONTEXT_SUPPORT_CONFIG_MEMORY_LIMIT_HINT", False),
    (208, "CONTEXT_SUPPORT_CONFIG_PERSISTENT_BINARY", False),
    (209, "CONTEXT_SUPPORT_CONFIG_BINARY_COMPATIBILITY_TYPE", False),
    (210, "CONTEXT_SUPPORT_VALIDATE_BINARY", False),
    (211, "CONTEXT_SUPPORT_CREATE_FROM_BINARY_WITH_SIGNALS", False),
    (212, "CONTEXT_SUPPORT_CREATE_FROM_BINARY_LIST_ASYNC", False),
    (213, "CONTEXT_SUPPORT_BINARY_UPDATES", False),
    (214, "CONTEXT_SUPPORT_BINARY_SECTION_FULL_CONTEXT", False),
    (215, "CONTEXT_SUPPORT_CUSTOM_PROPERTY", False),
    (216, "CONTEXT_SUPPORT_INCREMENTAL_BINARY", False),
    (217, "CONTEXT_SUPPORT_DEFERRED_GRAPH_INIT", False),
    (218, "CONTEXT_SUPPORT_BINARY_WEIGHT_ONLY_UPDATES", False),
    (219, "CONTEXT_SUPPORT_BINARY_QUANT_ONLY_UPDATES", False),
    (220, "CONTEXT_SUPPORT_CREATE_FROM_BINARY_WITH_CALLBACK", False),
    (221, "CONTEXT_SUPPORT_GRAPH_RETENTION_ORDER", False),
    (222, "CONTEXT_SUPPORT_BINARY_SECTION_UPDATES", False),
    (301, "GROUP_GRAPH", True),
    (302, "GRAPH_SUPPORT_CONFIG", True),
    (303, "GRAPH_SUPPORT_SIGNALS", _CANCEL),
    (304, "GRAPH_SUPPORT_ASYNC_EXECUTION", ("asynchronous",)),
    (305, "GRAPH_SUPPORT_NULL_INPUTS", False),
    (306, "GRAPH_SUPPORT_PRIORITY_CONTROL", ("priority",)),
    (307, "GRAPH_SUPPORT_FINALIZE_SIGNAL", _CANCEL),
    (308, "GRAPH_SUPPORT_EXECUTE_SIGNAL", _CANCEL),
    (309, "GRAPH_SUPPORT_EXECUTE_ASYNC_SIGNAL", ("asynchronous", "cancel")),
    (310, "GRAPH_SUPPORT_CONTINUOUS_PROFILING", False),
    (311, "GRAPH_SUPPORT_EXECUTE", True),
    (312, "GRAPH_SUPPORT_BATCH_MULTIPLE", False),
    (313, "GRAPH_SUPPORT_EXECUTE_PER_API_PROFILING", True),
    (314, "GRAPH_SUPPORT_SUBGRAPH", False),
    (315, "GRAPH_SUPPORT_PROFILING_STATE", False),
    (316, "GRAPH_SUPPORT_SET_PROFILING_NUM_EXECUTIONS", False),
    (317, "GRAPH_SUPPORT_ENV_OPTION_BIND_MEM_HANDLES", False),
    (318, "GRAPH_SUPPORT_ENV_OPTION_POPULATE_CLIENT_BUFS", False),
    (319, "GRAPH_SUPPORT_FINALIZE_DESERIALIZED_GRAPH", False),
    (320, "GRAPH_SUPPORT_CUSTOM_PROPERTY", False),
    (321, "GRAPH_SUPPORT_EARLY_TERMINATION", False),
    (322, "GRAPH_SUPPORT_ONLINE_PREPARE", True),
    (323, "GRAPH_SUPPORT_UPDATABLE_WEIGHTS_BINARY_SECTION_CREATION", False),
    (401, "GROUP_OP_PACKAGE", _OP_PACKAGES),
    (402, "OP_PACKAGE_SUPPORTS_VALIDATION", _OP_PACKAGES),
    (403, "OP_PACKAGE_SUPPORTS_OP_IMPLS", _OP_PACKAGES),
    (404, "OP_PACKAGE_SUPPORTS_DUPLICATE_NAMES", False),
    (501, "GROUP_TENSOR", True),
    (502, "TENSOR_SUPPORT_MEMHANDLE_TYPE", _MEMORY),
    (503, "TENSOR_SUPPORT_CONTEXT_TENSORS", True),
    (504, "TENSOR_SUPPORT_DYNAMIC_DIMENSIONS", ("dynamic_dimensions",)),
    (505, "TENSOR_SUPPORT_SPARSITY", DataFormat.SPARSE),
    (506, "TENSOR_SUPPORT_UPDATEABLE_STATIC_TENSORS", _UPDATES),
    (507, "TENSOR_SUPPORT_UPDATEABLE_NATIVE_TENSORS", _UPDATES),
    (508, "TENSOR_SUPPORT_UPDATEABLE_APP_TENSORS", _UPDATES),
    (509, "TENSOR_SUPPORT_QUANTIZATION_ENCODING_SCALE_OFFSET", EncodingKind.SCALE_OFFSET),
    (
        510,
        "TENSOR_SUPPORT_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET",
        EncodingKind.AXIS_SCALE_OFFSET,
    ),
    (511, "TENSOR_SUPPORT_QUANTIZATION_ENCODING_BW_SCALE_OFFSET", EncodingKind.BW_SCALE_OFFSET),
    (
        512,
        "TENSOR_SUPPORT_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET",
        EncodingKind.BW_AXIS_SCALE_OFFSET,
    ),
    (513, "TENSOR_SUPPORT_QUANTIZATION_ENCODING_BLOCK", EncodingKind.BLOCK),
    (
        514,
        "TENSOR_SUPPORT_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION",
        EncodingKind.BLOCKWISE_EXPANSION,
    ),
    (515, "TENSOR_SUPPORT_QUANTIZATION_ENCODING_VECTOR", EncodingKind.VECTOR),
    (516, "TENSOR_SUPPORT_RETRIEVE_RAW", False),
    (517, "TENSOR_SUPPORT_OPTIONAL_APP_WRITE", False),
    (518, "TENSOR_SUPPORT_OPTIONAL_APP_READ", False),
    (519, "TENSOR_SUPPORT_OPTIONAL_APP_READWRITE", False),
    (520, "TENSOR_SUPPORT_MX_DATA_FORMAT", DataFormat.MX),
    (521, "TENSOR_SUPPORT_UBWC_RGBA8888", DataFormat.UBWC_RGBA8888),
    (522, "TENSOR_SUPPORT_UBWC_NV12", DataFormat.UBWC_NV12),
    (523, "TENSOR_SUPPORT_UBWC_NV12_Y", DataFormat.UBWC_NV12_Y),
    (524, "TENSOR_SUPPORT_UBWC_NV12_UV", DataFormat.UBWC_NV12_UV),
    (525, "TENSOR_SUPPORT_UBWC_NV124R", DataFormat.UBWC_NV124R),
    (526, "TENSOR_SUPPORT_UBWC_NV124R_Y", DataFormat.UBWC_NV124R_Y),
    (527, "TENSOR_SUPPORT_UBWC_NV124R_UV", DataFormat.UBWC_NV124R_UV),
    (528, "TENSOR_SUPPORT_QUANTIZATION_ENCODING_FLOAT_BLOCK", EncodingKind.FLOAT_BLOCK),
    (
        529,
        "TENSOR_SUPPORT_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET_MAPPED",
        EncodingKind.BW_AXIS_SCALE_OFFSET_MAPPED,
    ),
    (
        530,
        "TENSOR_SUPPORT_QUANTIZATION_ENCODING_BW_BLOCK_SCALE_OFFSET_MAPPED",
        EncodingKind.BW_BLOCK_MAPPED,
    ),
    (
        531,
        "TENSOR_SUPPORT_QUANTIZATION_ENCODING_BW_BLOCKWISE_EXPANSION_MAPPED",
        EncodingKind.BW_BLOCKWISE_EXPANSION_MAPPED,
    ),
    (532, "TENSOR_SUPPORT_QUANTIZATION_ENCODING_BW_FLOAT_BLOCK", EncodingKind.BW_FLOAT_BLOCK),
    (1001, "GROUP_ERROR", True),
    (1002, "ERROR_GET_VERBOSE_MESSAGE", True),
    (1101, "GROUP_MEMORY", _MEMORY),
    (1102, "MEMORY_SUPPORT_MEM_TYPE_ION", False),
    (1103, "MEMORY_SUPPORT_MEM_TYPE_CUSTOM", ("memory_handles", "custom_memory")),
    (1104, "MEMORY_SUPPORT_MEM_TYPE_DMA_BUF", False),
    (1201, "GROUP_SIGNAL", _CANCEL),
    (1202, "SIGNAL_SUPPORT_ABORT", _CANCEL),
    (1203, "SIGNAL_SUPPORT_TIMEOUT", _CANCEL),
    (1301, "GROUP_LOG", True),
    (1302, "LOG_SUPPORTS_DEFAULT_STREAM", False),
    (1401, "GROUP_PROFILE", True),
    (1402, "PROFILE_SUPPORT_CUSTOM_CONFIG", False),
    (1403, "PROFILE_SUPPORT_MAX_EVENTS_CONFIG", False),
    (1404, "PROFILE_SUPPORTS_EXTENDED_EVENT", True),
    (1405, "PROFILE_SUPPORT_OPTRACE_CONFIG", False),
    (1501, "GROUP_DEVICE", True),
    (1502, "DEVICE_SUPPORT_INFRASTRUCTURE", False),
    (2001, "GROUP_CUSTOM", False),
    (2002, "CUSTOM_HTP_UNSIGNED_PD_SUPPORT", False),
)

PROPERTIES: Mapping[int, Property] = {
    key: Property(name, condition) for key, name, condition in _TABLE
}
