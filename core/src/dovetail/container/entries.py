"""Entries of graphs, tensors, params and encodings, for formats that share them with containers.

An entry refers to its data by the index of a blob; what the index means is the format's.
"""

from dovetail.container._encodings import (
    ArrayReader,
    BlobSink,
    dump_encoding,
    find_blob,
    load_encoding,
)
from dovetail.container._graphs import (
    dump_graph,
    dump_param,
    dump_tensor,
    load_graph,
    load_param,
    load_tensor,
)
from dovetail.container._manifest import (
    Dims,
    EncodingEntry,
    GraphEntry,
    Index,
    ParamEntry,
    ScalarEntry,
    TensorEntry,
)

__all__ = [
    "ArrayReader",
    "BlobSink",
    "Dims",
    "EncodingEntry",
    "GraphEntry",
    "Index",
    "ParamEntry",
    "ScalarEntry",
    "TensorEntry",
    "dump_encoding",
    "dump_graph",
    "dump_param",
    "dump_tensor",
    "find_blob",
    "load_encoding",
    "load_graph",
    "load_param",
    "load_tensor",
]
