"""Encodings files: all versions of AIMET, the SDK's overrides, and `model_net.json`."""

from dovetail_quantizers.files.form import (
    BITWIDTHS,
    QNN_JSON,
    VERSIONS,
    EncodingsFile,
    Form,
    TensorEncoding,
    converted_from,
    known_name,
)
from dovetail_quantizers.files.from_graph import encodings_of, entry_of
from dovetail_quantizers.files.reading import parse_encodings, read_encodings
from dovetail_quantizers.files.to_graph import to_encoding
from dovetail_quantizers.files.writing import WRITTEN, Dumped, dump_encodings, write_encodings

__all__ = [
    "BITWIDTHS",
    "QNN_JSON",
    "VERSIONS",
    "WRITTEN",
    "Dumped",
    "EncodingsFile",
    "Form",
    "TensorEncoding",
    "converted_from",
    "dump_encodings",
    "encodings_of",
    "entry_of",
    "known_name",
    "parse_encodings",
    "read_encodings",
    "to_encoding",
    "write_encodings",
]
