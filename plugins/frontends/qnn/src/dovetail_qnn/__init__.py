"""Reads and writes the model files of QNN's converters.

`QnnJsonFrontend` and `QnnJsonExporter` are the frontend and the exporter `qnn-json`, for
`X_net.json` with the weights in `X.bin`.
"""

from dovetail_qnn._exporters import QnnJsonExporter
from dovetail_qnn._frontends import QnnJsonFrontend

__all__ = ["QnnJsonExporter", "QnnJsonFrontend"]
