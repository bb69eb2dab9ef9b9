"""Reads ONNX models into Dovetail graphs."""
