"""Writes graphs as ONNX: the exporters `onnx-qdq` and `onnx`."""

from dovetail_onnx.exporter._exporter import EXPORTED, OnnxExporter, OnnxQdqExporter
from dovetail_onnx.exporter._options import OnnxExportOptions

__all__ = ["EXPORTED", "OnnxExportOptions", "OnnxExporter", "OnnxQdqExporter"]
