"""Names of the API's constants for tensors and ops that C source may use instead of numbers."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from dovetail.ir import DataFormat, DType, EncodingKind, MemoryType, TensorKind
from dovetail.ir.encodings import EncodingMapping

_ENUMS: Mapping[str, type[enum.IntEnum]] = {
    "QNN_DATATYPE_": DType,
    "QNN_TENSOR_TYPE_": TensorKind,
    "QNN_TENSOR_DATA_FORMAT_": DataFormat,
    "QNN_TENSORMEMTYPE_": MemoryType,
    "QNN_QUANTIZATION_ENCODING_": EncodingKind,
    "QNN_QUANTIZATION_ENCODING_MAPPING_": EncodingMapping,
}
_OTHERS: Mapping[str, int] = {
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
    "QNN_SPARSE_LAYOUT_UNDEFINED": 0x7FFFFFFF,
}


def constants_of(enums: Mapping[str, type[enum.IntEnum]]) -> dict[bytes, int]:
    """Return the constants of enumerations: the prefix and the name of each member."""
    return {
        f"{prefix}{member.name}".encode(): member.value
        for prefix, kind in enums.items()
        for member in kind
    }


CONSTANTS: Mapping[bytes, int] = constants_of(_ENUMS) | {
    name.encode(): number for name, number in _OTHERS.items()
}
