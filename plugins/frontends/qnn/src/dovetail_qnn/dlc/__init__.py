"""DLC, the model files of QNN's converters; the exporter is imported on first use."""

from typing import TYPE_CHECKING

from dovetail.lazy import lazy_names
from dovetail_qnn.dlc._frontend import DlcFrontend

if TYPE_CHECKING:
    from dovetail_qnn.dlc._exporter import DlcExporter
else:
    __getattr__ = lazy_names(__name__, {"dovetail_qnn.dlc._exporter": ["DlcExporter"]})

__all__ = ["DlcExporter", "DlcFrontend"]
