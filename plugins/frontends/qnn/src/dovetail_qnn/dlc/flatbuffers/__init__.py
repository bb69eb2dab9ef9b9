"""FlatBuffers with tables declared as dataclasses; any damage is reported, none is followed.

Source: https://flatbuffers.dev/internals.
"""

from dovetail_qnn.dlc.flatbuffers._reader import FaultList, decode, identifier_of
from dovetail_qnn.dlc.flatbuffers._types import (
    BYTES,
    FLOAT32,
    INT32,
    RAW_FLOATS,
    STRING,
    UINT8,
    UINT32,
    UINT64,
    WIDE_FLOAT,
    WIDE_INT,
    Table,
    Vector,
    slot,
)
from dovetail_qnn.dlc.flatbuffers._writer import encode

__all__ = [
    "BYTES",
    "FLOAT32",
    "INT32",
    "RAW_FLOATS",
    "STRING",
    "UINT8",
    "UINT32",
    "UINT64",
    "WIDE_FLOAT",
    "WIDE_INT",
    "FaultList",
    "Table",
    "Vector",
    "decode",
    "encode",
    "identifier_of",
    "slot",
]
