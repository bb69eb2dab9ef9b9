"""DLC, the model files of QNN's converters."""

from dovetail_qnn.dlc._exporter import DlcExporter
from dovetail_qnn.dlc._frontend import DlcFrontend

__all__ = ["DlcExporter", "DlcFrontend"]
