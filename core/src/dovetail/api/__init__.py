"""The names that most users need; re-exported from `dovetail`."""

from dovetail.api.conversion import convert, load, load_model
from dovetail.api.exporting import export
from dovetail.api.quantization import quantize
from dovetail.api.recording import record
from dovetail.api.session import Session
from dovetail.container import Model

__all__ = ["Model", "Session", "convert", "export", "load", "load_model", "quantize", "record"]
