"""Reads and writes the model files of QNN's converters."""
