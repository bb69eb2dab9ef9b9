"""Reads ONNX models into Dovetail graphs.

`OnnxFrontend` is the frontend `onnx`, and `OnnxOptions` has its options. `Importers` and
`OpContext` are for dists that provide importers for another operator domain (entry points of
`dovetail.importers`, named `onnx:DOMAIN`);
`PackageImporters` is their base if the operators are mostly the ops of an op package.
"""

from dovetail_onnx._context import OpContext
from dovetail_onnx._frontend import OnnxFrontend
from dovetail_onnx._packages import PackageImporters
from dovetail_onnx._registry import Importers
from dovetail_onnx.options import OnnxOptions
from dovetail_opset.importing.constant import Constant

__all__ = ["Constant", "Importers", "OnnxFrontend", "OnnxOptions", "OpContext", "PackageImporters"]
