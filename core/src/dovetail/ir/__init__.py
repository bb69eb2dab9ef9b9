"""Representation of models: dtypes, encodings, tensors, nodes, graphs."""

from dovetail.ir.check import check, find_faults
from dovetail.ir.copying import add_like, copy_graph, copy_tensor
from dovetail.ir.dtypes import DType
from dovetail.ir.encodings import (
    AxisScaleOffset,
    Block,
    BlockwiseExpansion,
    Encoding,
    EncodingKind,
    EncodingMapping,
    FloatBlock,
    Mapped,
    ScaleOffset,
    Shape,
    Vector,
    dequantize,
    quantize,
)
from dovetail.ir.graph import Graph, Node, Param
from dovetail.ir.ordering import topological_order
from dovetail.ir.passes import PHASES, Pass, run_passes
from dovetail.ir.sharing import share_blobs, static_tensors
from dovetail.ir.storage import Array, Blob, pack, unpack
from dovetail.ir.tensor import (
    DataFormat,
    MemoryType,
    Scalar,
    Spec,
    Tensor,
    TensorKind,
    dims_text,
)
from dovetail.ir.text import to_text

__all__ = [
    "PHASES",
    "Array",
    "AxisScaleOffset",
    "Blob",
    "Block",
    "BlockwiseExpansion",
    "DType",
    "DataFormat",
    "Encoding",
    "EncodingKind",
    "EncodingMapping",
    "FloatBlock",
    "Graph",
    "Mapped",
    "MemoryType",
    "Node",
    "Param",
    "Pass",
    "Scalar",
    "ScaleOffset",
    "Shape",
    "Spec",
    "Tensor",
    "TensorKind",
    "Vector",
    "add_like",
    "check",
    "copy_graph",
    "copy_tensor",
    "dequantize",
    "dims_text",
    "find_faults",
    "pack",
    "quantize",
    "run_passes",
    "share_blobs",
    "static_tensors",
    "to_text",
    "topological_order",
    "unpack",
]
