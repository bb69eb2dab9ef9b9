"""Reads and writes the model files of QNN's converters.

`QnnJsonFrontend` and `QnnJsonExporter` are the frontend and the exporter `qnn-json`, for
`X_net.json` with the weights in `X.bin`. `QnnCppFrontend` and `QnnCppExporter` are `qnn-cpp`, for
`X.cpp` with the same weights. `QnnExportOptions` and `QnnCppOptions` are the exporters' options.
`WeightsInspector` summarizes `X.bin`.

They are imported on first use: the conversion of another format does without.
"""

from typing import TYPE_CHECKING

from dovetail.lazy import lazy_names

if TYPE_CHECKING:
    from dovetail_qnn._export_options import QnnCppOptions, QnnExportOptions
    from dovetail_qnn._exporters import QnnCppExporter, QnnJsonExporter
    from dovetail_qnn._frontends import QnnCppFrontend, QnnJsonFrontend
    from dovetail_qnn._inspector import WeightsInspector
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "dovetail_qnn._export_options": ["QnnCppOptions", "QnnExportOptions"],
            "dovetail_qnn._exporters": ["QnnCppExporter", "QnnJsonExporter"],
            "dovetail_qnn._frontends": ["QnnCppFrontend", "QnnJsonFrontend"],
            "dovetail_qnn._inspector": ["WeightsInspector"],
        },
    )

__all__ = [
    "QnnCppExporter",
    "QnnCppFrontend",
    "QnnCppOptions",
    "QnnExportOptions",
    "QnnJsonExporter",
    "QnnJsonFrontend",
    "WeightsInspector",
]
