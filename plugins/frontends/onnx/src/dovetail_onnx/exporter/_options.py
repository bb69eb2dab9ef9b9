"""Options of the exporters."""

from __future__ import annotations

from dovetail.ops.exporter import ExportOptions


class OnnxExportOptions(ExportOptions, frozen=True, kw_only=True):
    """Options of an export to ONNX.

    Attributes:
        external_data: Whether weights are written to a separate file next to the model in any case.
    """

    external_data: bool = False
