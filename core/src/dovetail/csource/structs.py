"""Structs of QNN's API as positional initializers give them.

Source: spec/qnn_enums.md, "Quantization structures" and "Other structures". The specification
does not say where the mapped encodings have their mapping; here it follows the bit width.
"""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.csource.initializers import Designated, Value

TENSOR = b"Qnn_Tensor_t"
QUANTIZE = b"Qnn_QuantizeParams_t"
CLIENT_BUFFER = b"Qnn_ClientBuffer_t"
PARAM = b"Qnn_Param_t"
SCALAR = b"Qnn_Scalar_t"
OP_CONFIG = b"Qnn_OpConfig_t"
SCALE_OFFSET = b"Qnn_ScaleOffset_t"
FLOAT_SCALE_OFFSET = b"Qnn_FloatScaleOffset_t"
SPARSE = b"Qnn_SparseParams_t"
UINT = b"uint32_t"

_V1 = (
    b"id",
    b"name",
    b"type",
    b"dataFormat",
    b"dataType",
    b"quantizeParams",
    b"rank",
    b"dimensions",
    b"memType",
    b"buffer",  # the union of clientBuf and memHandle
)

_UNIONS = frozenset((b"tensor", b"buffer", b"encoding", b"blocksScale", b"value", b"config"))

# Names of the fields in their order; a designated member of another name is one of the union.
STRUCTS: Mapping[bytes, tuple[bytes, ...]] = {
    TENSOR: (b"version", b"tensor"),
    b"Qnn_TensorV1_t": _V1,
    b"Qnn_TensorV2_t": (*_V1, b"isDynamicDimensions", b"sparseParams", b"isProduced"),
    CLIENT_BUFFER: (b"data", b"dataSize"),
    QUANTIZE: (b"encodingDefinition", b"quantizationEncoding", b"encoding"),
    SCALE_OFFSET: (b"scale", b"offset"),
    FLOAT_SCALE_OFFSET: (b"scale", b"offset"),
    b"Qnn_AxisScaleOffset_t": (b"axis", b"numScaleOffsets", b"scaleOffset"),
    b"Qnn_BwScaleOffset_t": (b"bitwidth", b"scale", b"offset"),
    b"Qnn_BwAxisScaleOffset_t": (b"bitwidth", b"axis", b"numElements", b"scales", b"offsets"),
    b"Qnn_BlockEncoding_t": (b"blockSize", b"scaleOffset"),
    b"Qnn_BlockwiseExpansion_t": (
        b"axis",
        b"scaleOffsets",
        b"numBlocksPerAxis",
        b"blockScaleBitwidth",
        b"blockScaleStorageType",
        b"blocksScale",  # the union of blocksScale8 and blocksScale16
    ),
    b"Qnn_VectorEncoding_t": (
        b"bwAxisScaleOffset",
        b"rowsPerBlock",
        b"columnsPerBlock",
        b"vectorDimension",
        b"vectorStride",
        b"indexBitwidth",
    ),
    b"Qnn_FloatBlockEncoding_t": (b"blockSize", b"scaleOffset"),
    b"Qnn_BwAxisScaleOffsetMapped_t": (
        b"bitwidth",
        b"mapping",
        b"axis",
        b"numElements",
        b"scales",
        b"offsets",
    ),
    b"Qnn_BwBlockEncodingMapped_t": (b"bitwidth", b"mapping", b"blockSize", b"scaleOffset"),
    b"Qnn_BwBlockwiseExpansionMapped_t": (
        b"bitwidth",
        b"mapping",
        b"axis",
        b"scaleOffsets",
        b"numBlocksPerAxis",
        b"blockScaleBitwidth",
        b"blockScaleStorageType",
        b"blocksScale",
    ),
    b"Qnn_BwFloatBlockEncoding_t": (b"bitwidth", b"blockSize", b"scaleOffset"),
    SPARSE: (b"type", b"layout"),
    PARAM: (b"paramType", b"name", b"value"),
    SCALAR: (b"dataType", b"value"),
    OP_CONFIG: (b"version", b"config"),
    b"Qnn_OpConfigV1_t": (
        b"name",
        b"packageName",
        b"typeName",
        b"numOfParams",
        b"params",
        b"numOfInputs",
        b"inputTensors",
        b"numOfOutputs",
        b"outputTensors",
    ),
    b"QnnBackend_Config_t": (b"option", b"value"),
    b"QnnDevice_Config_t": (b"option", b"value"),
    b"QnnContext_Config_t": (b"option", b"value"),
    b"QnnContext_AsyncExecutionQueueDepth_t": (b"type", b"depth"),
    b"QnnGraph_Config_t": (b"option", b"value"),
    b"QnnSignal_Config_t": (b"option", b"value"),
}

# Bytes of an element of the arrays that programs declare.
SIZES: Mapping[bytes, int] = {
    b"int8_t": 1,
    b"uint8_t": 1,
    b"char": 1,
    b"bool": 1,
    b"int16_t": 2,
    b"uint16_t": 2,
    b"int32_t": 4,
    b"uint32_t": 4,
    b"float": 4,
    b"int64_t": 8,
    b"uint64_t": 8,
    b"double": 8,
}


ALL_MEMBERS = frozenset(name for names in STRUCTS.values() for name in names)


def struct_fields(items: list[Value], kind: bytes) -> list[Value]:
    """Return the fields of a struct from its initializer; None for those that are left out.

    A designated member of another name is one of the union, or of what has its turn if there is no
    union. It may have braces of its own.

    Raises:
        ValueError: There are more values than fields.
    """
    names = STRUCTS[kind]
    fields: list[Value] = [None] * len(names)
    index = 0
    for item in items:
        value = item
        if isinstance(item, Designated):
            value = item.value
            if item.name in names:
                index = names.index(item.name)
            else:
                index = next((i for i, name in enumerate(names) if name in _UNIONS), index)
        elif isinstance(item, list) and len(item) == 1 and isinstance(item[0], Designated):
            value = item[0].value if item[0].name not in ALL_MEMBERS else item
        if index >= len(names):
            raise ValueError(f"too many values for {kind.decode()}")
        fields[index] = value
        index += 1
    return fields
