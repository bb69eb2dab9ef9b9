"""Reads and writes the model files of QNN's converters.

`QnnJsonFrontend` and `QnnJsonExporter` are the frontend and the exporter `qnn-json`, for
`X_net.json` with the weights in `X.bin`. `QnnCppFrontend` and `QnnCppExporter` are `qnn-cpp`, for
`X.cpp` with the same weights. `QnnExportOptions` and `QnnCppOptions` are the exporters' options.
"""

from dovetail_qnn._export_options import QnnCppOptions, QnnExportOptions
from dovetail_qnn._exporters import QnnCppExporter, QnnJsonExporter
from dovetail_qnn._frontends import QnnCppFrontend, QnnJsonFrontend

__all__ = [
    "QnnCppExporter",
    "QnnCppFrontend",
    "QnnCppOptions",
    "QnnExportOptions",
    "QnnJsonExporter",
    "QnnJsonFrontend",
]
