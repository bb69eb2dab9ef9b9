"""The table in which the families register their importers."""

from dovetail_onnx._registry import Importers

ONNX = Importers("")
