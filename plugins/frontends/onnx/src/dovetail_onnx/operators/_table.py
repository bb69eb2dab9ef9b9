"""The table that the families register in."""

from dovetail_onnx._registry import Importers

ONNX = Importers("")
