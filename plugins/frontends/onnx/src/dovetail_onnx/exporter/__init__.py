"""Writes graphs as ONNX: the exporters `onnx-qdq` and `onnx`."""

from dovetail_onnx.exporter._exporter import OnnxExporter, OnnxQdqExporter
from dovetail_onnx.exporter.operators import EXPORTERS

__all__ = ["EXPORTERS", "OnnxExporter", "OnnxQdqExporter"]
