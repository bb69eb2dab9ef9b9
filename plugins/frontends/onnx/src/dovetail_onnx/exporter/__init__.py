"""Writes graphs as ONNX: the exporters `onnx-qdq` and `onnx`.

`OpExporters` and `NodeExport` are for dists that provide exporters for an op package's ops (entry
points of `dovetail.op_exporters`, named `onnx:PACKAGE`).
"""

from dovetail_onnx.exporter._exporter import EXPORTED, OnnxExporter, OnnxQdqExporter
from dovetail_onnx.exporter._node import NodeExport
from dovetail_onnx.exporter._options import OnnxExportOptions
from dovetail_onnx.exporter._table import OpExporters

__all__ = [
    "EXPORTED",
    "NodeExport",
    "OnnxExportOptions",
    "OnnxExporter",
    "OnnxQdqExporter",
    "OpExporters",
]
