"""The table that the families of ONNX Runtime's own operators register in."""

from dovetail_onnx._registry import Importers

MICROSOFT = Importers("com.microsoft")
