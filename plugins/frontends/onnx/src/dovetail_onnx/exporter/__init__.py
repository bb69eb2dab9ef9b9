"""Writes graphs as ONNX: the exporters `onnx-qdq` and `onnx`."""

from dovetail_onnx.exporter._exporter import EXPORTED, OnnxExporter, OnnxQdqExporter

__all__ = ["EXPORTED", "OnnxExporter", "OnnxQdqExporter"]
